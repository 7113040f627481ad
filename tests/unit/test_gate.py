"""--fail-on-violation and --max-epsilon: which exit code each command ends with, and what it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from command_line import Result, run
from noisymean.cli import gate
from noisymean.cli.gate import Gate, Guaranteed, Judgement, LostAtLeast, NoEpsilon, Standing, Unjudged
from noisymean.outward import at_most
from noisymean.probe.conclusions import Denominator
from noisymean.probe.finding import Clipping, Evidence, Finding, Noise, RateLaw, Rates, Remark, Sampling, Severity
from noisymean.probe.laws import Kind

BOTH = ("--fail-on-violation", "--max-epsilon", "3")
RUN = ["--sample-rate", "0.1", "--noise-multiplier", "1", "--steps", "1", "--delta", "1e-5"]
SUM = ["--mechanism", "sgm", *RUN]
# leaks 9.09 where 1.68 is claimed, and 9.27 is guaranteed
MEAN = ["--mechanism", "easgm", "--dataset-size", "10", "--dimension", "100", *RUN]
# neither proved nor refuted: one more record is a tiny change of the scale
OPEN = ["--mechanism", "easgm", "--dataset-size", "100000", "--dimension", "1", *RUN]
# more is lost than a number is found for: no guarantee is known
LARGE = ["--mechanism", "easgm", "--dataset-size", "10", "--dimension", "1000000000000", *RUN]


def last(done: Result) -> str:
    return done.err.splitlines()[-1]


# --- the rule itself ----------------------------------------------------------------------------------------------------------


def result(standing: Standing, loss: gate.Loss = NoEpsilon("none"), **others: bool) -> Judgement:
    return Judgement("it", standing, "because", loss, **others)


def code_of(wanted: Gate, *results: Judgement) -> int:
    try:
        wanted.check(results)
    except typer.Exit as stop:
        return stop.exit_code
    except Unjudged:
        return 2
    return 0


@pytest.mark.parametrize(
    ("standings", "code"),
    [
        ([Standing.CLEAR], 0),
        ([Standing.VIOLATED], 1),
        ([Standing.UNJUDGED], 2),
        ([], 2),
        ([Standing.CLEAR, Standing.UNJUDGED], 2),
        ([Standing.CLEAR, Standing.VIOLATED], 1),
        ([Standing.UNJUDGED, Standing.VIOLATED], 1),
    ],
)
def test_fail_on_violation(standings: list[Standing], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    results = [result(one) for one in standings]
    assert code_of(Gate(True, None), *results) == code
    # a finding is one line that says why; the line of an error is printed by whoever catches it
    assert capsys.readouterr().err.count("\n") == (code == 1)
    assert code_of(Gate(False, None), *results) == 0


@pytest.mark.parametrize(
    ("loss", "kept"),
    [
        (Guaranteed(3.0), True),
        (Guaranteed(math.nextafter(3.0, 4.0)), False),
        (Guaranteed(math.inf), False),
        (Guaranteed(math.nan), False),
        (Guaranteed(None), False),
        (NoEpsilon("only read"), False),
        (LostAtLeast(3.0), True),
        (LostAtLeast(3.1), False),
        (LostAtLeast(math.inf), False),
        (LostAtLeast(math.nan), False),
    ],
)
def test_max_epsilon(loss: gate.Loss, kept: bool) -> None:
    for standing in Standing:
        assert code_of(Gate(False, 3.0), result(standing, loss)) == (0 if kept else 1)
    # one of several is enough
    assert code_of(Gate(False, 3.0), result(Standing.CLEAR, Guaranteed(0.1)), result(Standing.CLEAR, loss)) == 1 - kept


def test_a_line_stays_one_line_and_is_not_endless(capsys: pytest.CaptureFixture[str]) -> None:
    many = [Judgement(f"a\nb {number}", Standing.VIOLATED, "because", NoEpsilon("")) for number in range(9)]
    assert code_of(Gate(True, None), *many) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("; and 6 more")


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "three", "", "-1e-300"])
@pytest.mark.parametrize("command", ["account", "audit", "probe", "code-audit", "report"])
def test_a_bad_epsilon_is_one_line_in_every_command(command: str, text: str) -> None:
    rest = {"account": SUM, "audit": ["nothing"], "probe": ["nothing"], "code-audit": ["nothing"], "report": []}[
        command
    ]
    done = run(command, *rest, "--max-epsilon", text)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("error: --max-epsilon=")
    assert "must be a finite number >= 0" in line


# --- account ------------------------------------------------------------------------------------------------------------------


def test_account_holds() -> None:
    done = run("account", *SUM, *BOTH)
    assert (done.code, done.err) == (0, "")


def test_account_violated() -> None:
    done = run("account", *MEAN, "--fail-on-violation", "--json")
    # the answer first
    assert json.loads(done.out)["verdict"] == "violated"
    assert done.code == 1
    assert last(done).startswith("failed: --fail-on-violation: 1 round of EASGM: at least epsilon = ")
    assert run("account", *MEAN).code == 0


def test_account_undetermined_is_not_known_to_be_violated_and_that_is_said() -> None:
    done = run("account", *OPEN, "--fail-on-violation", "--json")
    assert json.loads(done.out)["verdict"] == "undetermined"
    assert done.code == 0
    assert last(done).startswith("--fail-on-violation: not known to be violated, nor to hold: ")


def test_account_compares_the_guarantee() -> None:
    answer = json.loads(run("account", *OPEN, "--json").out)
    leaked, sound = answer["leakage"]["epsilon"], answer["guarantee"]["epsilon"]
    assert run("account", *OPEN, "--max-epsilon", repr(sound)).code == 0
    done = run("account", *OPEN, "--max-epsilon", repr(0.5 * (leaked + sound)))
    # what leaks is below, what is guaranteed above: not known to be kept, so it fails
    assert done.code == 1
    assert "is the best guarantee known" in last(done)


@pytest.mark.slow
def test_account_without_a_guarantee_keeps_no_epsilon() -> None:
    done = run("account", *LARGE, "--max-epsilon", "1e300", "--json")
    assert json.loads(done.out)["guarantee"]["epsilon"] is None
    assert done.code == 1
    assert last(done).endswith("no guarantee is known")


def test_account_needs_a_delta_for_it() -> None:
    words = [*SUM[:-2], "--epsilon", "1", "--max-epsilon", "1"]
    done = run("account", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: --max-epsilon=1: must be used with --delta; epsilon is compared at a fixed delta\n"


# --- audit --------------------------------------------------------------------------------------------------------------------

AUDIT = ["audit", "synthetic", "--mechanism", "easgm", "--dataset-size", "4", "--dimension", "100"]
AUDIT += ["--sample-rate", "0.05", "--noise-multiplier", "10", "--seed", "1", "--trials", "500"]


def test_audit_compares_what_is_certainly_lost() -> None:
    lost = json.loads(run(*AUDIT, "--json").out)["epsilon_lower"]
    assert lost > 1.0
    assert run(*AUDIT, "--max-epsilon", repr(lost)).code == 0
    done = run(*AUDIT, "--max-epsilon", "1", "--json")
    assert json.loads(done.out)["epsilon_lower"] == lost
    assert done.code == 1
    assert "--max-epsilon 1: synthetic easgm" in last(done)
    assert "is lost" in last(done)
    done = run(*AUDIT, "--fail-on-violation")
    assert done.code == 1
    assert last(done).startswith("failed: --fail-on-violation: synthetic easgm")


# --- probe --------------------------------------------------------------------------------------------------------------------

LIBRARY = """
import numpy as np

def noisy_sum(gradients, generator, sample_rate, noise_multiplier, max_grad_norm):
    norms = np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-300)
    clipped = gradients * np.minimum(1.0, max_grad_norm / norms)
    batch = clipped[generator.random(len(clipped)) < sample_rate]
    return batch.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(clipped.shape[1])

def noisy_mean(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    summed = noisy_sum(gradients, generator, sample_rate, noise_multiplier, max_grad_norm)
    expected_batch_size = len(gradients) * sample_rate
    return summed / expected_batch_size
"""


def test_probe_of_a_mean(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    target = f"{tmp_path / 'library.py'}:noisy_mean"
    done = run("probe", target, "--fail-on-violation", "--json")
    assert json.loads(done.out)["mechanism"] == "easgm"
    assert done.code == 1
    assert last(done).startswith("failed: --fail-on-violation: library.py:noisy_mean: one record more changes")
    # an epsilon is one of a run: its numbers are asked for
    done = run("probe", target, "--max-epsilon", "3")
    assert done.code == 2
    assert "--dataset-size: missing" in done.err


def finding(**changes: object) -> Finding:
    clear = Finding(
        target="t",
        kind=Kind.SGM,
        denominator="5, a constant",
        noise=Noise(True, 1.0, 0.01, 1.0),
        clipping=Clipping(1.0, None, 1.0, additive=True),
        rates=Rates(Sampling.POISSON, RateLaw.AS_SET, False),
        empty_batch="is a step of noise",
        remarks=(),
        evidence=(Evidence("N=25", 10, "1 to 9", "5", 0.3, True),),
        seed=0,
    )
    return replace(clear, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, Standing.CLEAR),
        ({"remarks": (Remark(Severity.NOTE, "n"),)}, Standing.CLEAR),
        ({"remarks": (Remark(Severity.LEAK, "l"),)}, Standing.VIOLATED),
        ({"remarks": (Remark(Severity.FAULT, "f"),)}, Standing.UNJUDGED),
        ({"remarks": (Remark(Severity.UNKNOWN, "u"),)}, Standing.UNJUDGED),
        ({"rates": Rates(Sampling.UNKNOWN, None, False)}, Standing.UNJUDGED),
        ({"rates": Rates(Sampling.SHUFFLED, None, False)}, Standing.UNJUDGED),
        ({"noise": Noise(None, None, 0.0, 1.0)}, Standing.UNJUDGED),
        ({"clipping": Clipping(None, None, None)}, Standing.UNJUDGED),
        ({"kind": Kind.UNKNOWN}, Standing.UNJUDGED),
        *(({"kind": kind}, Standing.VIOLATED) for kind in Kind if kind not in (Kind.SGM, Kind.UNKNOWN)),
    ],
)
def test_what_a_probe_has_not_seen_is_not_judged(changes: dict[str, object], standing: Standing) -> None:
    assert gate.of_probe(finding(**changes), None, None).standing is standing


def test_a_run_that_is_not_accounted_for_is_not_judged() -> None:
    refused = gate.of_probe(finding(), None, "no theorem covers it")
    assert refused.standing is Standing.UNJUDGED
    assert refused.loss == NoEpsilon("no theorem covers it")


# --- code-audit ---------------------------------------------------------------------------------------------------------------


def test_code_audit_by_reading(tmp_path: Path) -> None:
    file = tmp_path / "library.py"
    file.write_text(LIBRARY)
    done = run("code-audit", str(file), "--fail-on-violation", "--json")
    assert json.loads(done.out)["mechanism"] == "easgm"
    assert done.code == 1
    assert last(done).endswith("what it divides by depends on the data")
    file.write_text("x = 1\n")
    done = run("code-audit", str(file), "--fail-on-violation", "--json")
    assert json.loads(done.out)["mechanism"] == "unknown"
    assert done.code == 2
    assert last(done).startswith("error: --fail-on-violation: nothing was judged: ")
    # no epsilon follows from a denominator, so none is guaranteed
    done = run("code-audit", str(file), "--max-epsilon", "1e300")
    assert done.code == 1
    assert "no guarantee is known: which denominator it is says nothing about epsilon" in last(done)


@pytest.mark.parametrize(
    ("verdict", "standing"),
    [
        (Denominator.CONSTANT, Standing.CLEAR),
        (Denominator.DATA_DEPENDENT, Standing.VIOLATED),
        (Denominator.UNKNOWN, Standing.UNJUDGED),
    ],
)
def test_source_that_was_read(verdict: Denominator, standing: Standing) -> None:
    assert gate.of_source("it", verdict).standing is standing


def test_a_release_that_could_not_be_run_is_not_judged() -> None:
    assert gate.of_kind("opacus==1.6.0", None).standing is Standing.UNJUDGED


# --- report -------------------------------------------------------------------------------------------------------------------


def kept(folder: Path, name: str, *words: str) -> str:
    file = folder / f"{name}.json"
    file.write_text(run(*words, "--json").out)
    return str(file)


def test_report_of_several_files_any_of_them(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    good, open_ = kept(tmp_path, "good", "account", *SUM), kept(tmp_path, "open", "account", *OPEN)
    violated = kept(tmp_path, "violated", *AUDIT)
    done = run("report", good, "--out", str(page), "--fail-on-violation", "--max-epsilon", "1.6847")
    assert (done.code, done.err) == (0, "")
    page.unlink()
    done = run("report", good, open_, violated, "--out", str(page), *BOTH, "--max-epsilon", "1.6847", "--json")
    # written and printed first
    assert page.exists()
    assert json.loads(done.out)["verdict"] == "violated"
    assert done.code == 1
    assert "--fail-on-violation: synthetic easgm" in last(done)
    sound = at_most(json.loads(Path(open_).read_text())["guarantee"]["epsilon"])
    assert f"--max-epsilon 1.6847: 1 round of EASGM: epsilon {sound} is the best guarantee known" in last(done)
    assert "of SGM" not in last(done)


def test_report_of_audits_and_code(tmp_path: Path) -> None:
    page = ["--out", str(tmp_path / "page.html")]
    file = tmp_path / "mine.py"
    file.write_text("def release(extra, generator):\n    return generator.standard_normal(3)\n")
    words = ["audit", f"{file}:release", "--trials", "200", "--seed", "1"]
    no_claim, claimed = kept(tmp_path, "none", *words), kept(tmp_path, "claimed", *words, "--claim-epsilon", "1")
    assert run("report", claimed, *page, *BOTH).code == 0
    done = run("report", claimed, no_claim, *page, "--fail-on-violation")
    assert done.code == 2
    assert last(done).endswith("mine.py:release: nothing is claimed; give --claim-epsilon")
    # cut short: what was not found in a part is no answer
    part = json.loads(Path(claimed).read_text())
    for verdict in (None, "not-violated"):
        Path(claimed).write_text(json.dumps({**part, "interrupted": True, "verdict": verdict, "reason": None}))
        done = run("report", claimed, *page, "--fail-on-violation")
        assert done.code == 2
        assert last(done).endswith("the audit was interrupted")
    file.write_text(LIBRARY)
    done = run("report", kept(tmp_path, "code", "code-audit", str(file)), *page, "--fail-on-violation")
    assert done.code == 1
    assert last(done).endswith("what it divides by depends on the data")


def test_report_of_a_run_at_a_given_epsilon_has_none_to_compare(tmp_path: Path) -> None:
    words = [*SUM[:-2], "--epsilon", "1", "--out", str(tmp_path / "page.html")]
    done = run("report", *words, "--max-epsilon", "1")
    assert done.code == 1
    assert last(done).endswith("delta was asked for at a given epsilon; give --delta")
