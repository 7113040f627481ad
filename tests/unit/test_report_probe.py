"""What `probe --json` writes on a page: the verdict is judged again, and nothing is taken over that does not follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_report import HOSTILE, changed, plain_number, text_seen

import noisymean as nm
from command_line import Result, run
from noisymean.outward import at_least
from noisymean.probe import Finding, probe

NUMBERS: dict[str, Any] = {"dataset_size": 199, "dimension": 2_000, "sample_rate": "1/20", "noise_multiplier": 5.0}


def record(found: Finding) -> dict[str, Any]:
    """As the command prints it."""
    plain: dict[str, Any] = json.loads(json.dumps({**found.to_dict(), "schema": 1}))
    return plain


@pytest.fixture(scope="module")
def of_code() -> dict[str, Any]:
    return record(probe("synthetic:feasgm", seed=0, rounds=120))


@pytest.fixture(scope="module")
def of_run() -> dict[str, Any]:
    return record(probe("synthetic:feasgm", seed=0, rounds=120, steps=20, delta=1e-5, **NUMBERS))


@pytest.fixture(scope="module")
def of_sum() -> dict[str, Any]:
    return record(probe("synthetic:sgm", seed=0, rounds=120, steps=20, delta=1e-5, **NUMBERS))


def report_on(found: object, tmp_path: Path, *more: str) -> Result:
    (tmp_path / "given.json").write_text(json.dumps(found))
    return run("report", str(tmp_path / "given.json"), *more, "--out", str(tmp_path / "page.html"))


def verdict_of(done: Result) -> tuple[str, str]:
    assert done.code == 0, done.err
    (part,) = json.loads(done.out)["sections"]
    return part["kind"], part["verdict"]


def test_what_it_divides_by(of_code: dict[str, Any], tmp_path: Path) -> None:
    assert verdict_of(report_on(of_code, tmp_path, "--json")) == ("probe", "data-dependent")
    seen = text_seen(tmp_path / "page.html")
    assert "synthetic feasgm divides the noisy sum by a number that depends on the data: ⌊N·q⌋." in seen
    assert "leak one record more changes the denominator: N=29 → 30" in seen
    for one in of_code["evidence"]:
        assert f"{one['run']} {one['rounds']} {one['batches']} {one['denominator']}" in seen
    assert "told: " + str(tmp_path / "given.json") in seen


def test_a_run_is_accounted_for_again(of_run: dict[str, Any], tmp_path: Path) -> None:
    """199 records at a rate of 1/20: the floor moves from 9 to 10 with the next record."""
    assert verdict_of(report_on(of_run, tmp_path, "--json")) == ("probe", "violated")
    seen = text_seen(tmp_path / "page.html")
    answer = nm.account(nm.FEASGM(**NUMBERS), steps=20, delta=1e-5)
    assert answer.leakage.epsilon is not None
    lost = plain_number(at_least(answer.leakage.epsilon, ".4g"))
    assert f"at least ε = {lost} is certainly lost (at δ = 10⁻⁵)" in seen
    assert f"leakage {lost} certainly lost" in seen
    assert "Found by running synthetic feasgm: it divides by ⌊N·q⌋." in seen
    assert str(answer.leakage.pair) in seen
    assert (
        run("report", str(tmp_path / "given.json"), "--fail-on-violation", "--out", str(tmp_path / "p.html")).code == 1
    )


def test_a_constant_holds_as_far_as_was_measured(of_sum: dict[str, Any], tmp_path: Path) -> None:
    assert verdict_of(report_on(of_sum, tmp_path, "--json")) == ("probe", "holds")
    seen = text_seen(tmp_path / "page.html")
    assert "As far as was measured: the rate to" in seen
    alone = {**of_sum, "account": None, "verdict": None, "because": None}
    assert verdict_of(report_on(alone, tmp_path, "--json")) == ("probe", "constant")


def test_with_a_doubt_nothing_holds(of_sum: dict[str, Any], tmp_path: Path) -> None:
    """Numbers that hold of the mechanism are no guarantee where it is not known to be that mechanism."""
    doubt = {"severity": "unknown", "words": "its clipping was not seen at all", "bearing": "open"}
    doubted = changed(of_sum, "remarks", [doubt])
    # what the file says of the run does not follow any more
    done = report_on(doubted, tmp_path)
    assert done.code == 2
    assert "guarantee.epsilon" in done.err
    doubted = changed(changed(doubted, "account.guarantee.epsilon", None), "account.verdict", "undetermined")
    done = report_on({**doubted, "verdict": "undetermined"}, tmp_path, "--json")
    assert verdict_of(done) == ("probe", "undetermined")
    seen = text_seen(tmp_path / "page.html")
    assert "Its clipping was not seen at all." in seen
    assert "guarantee none known" in seen
    alone = {**doubted, "account": None, "verdict": None, "because": None}
    assert verdict_of(report_on(alone, tmp_path, "--json")) == ("probe", "unknown")


def test_a_run_that_was_refused_has_its_reason(of_code: dict[str, Any], tmp_path: Path) -> None:
    refused = {**of_code, "account_refused": "no proof covers it", "verdict": "undetermined", "because": "x"}
    assert verdict_of(report_on(refused, tmp_path, "--json")) == ("probe", "data-dependent")
    assert "No run was accounted for: no proof covers it." in text_seen(tmp_path / "page.html")


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("verdict", "holds", "verdict='holds': must be violated"),
        ("account.leakage.epsilon", 1e9, "leakage.epsilon=1000000000.0: must be what these settings give"),
        ("account.mechanism", "sgm", "account.mechanism='sgm': must be feasgm, which was found"),
        ("mechanism", "sgm", "must be sgm, which was found"),
        ("mechanism", "dp", "mechanism='dp': must be one of"),
        ("noise.error", -1, "noise.error=-1: must be a number >= 0"),
        ("rates.sampling", "random", "rates.sampling='random': must be one of"),
        ("remarks", [{"severity": "leak"}], "remarks[0].words: missing"),
        ("evidence", {}, "evidence={}: must be a list"),
        ("clipping.sensitivity", "1", "clipping.sensitivity='1': must be a number"),
        ("seed", True, "seed=True: must be a whole number"),
    ],
)
def test_a_bad_value_is_named(of_run: dict[str, Any], path: str, value: object, complaint: str, tmp_path: Path) -> None:
    done = report_on(changed(of_run, path, value), tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.err.startswith(f"error: {tmp_path / 'given.json'}: ")
    assert complaint in done.err
    assert not (tmp_path / "page.html").exists()


def test_words_of_a_file_are_only_text(of_code: dict[str, Any], tmp_path: Path) -> None:
    evil = {"severity": "leak", "words": HOSTILE, "bearing": "covered"}
    found = {**of_code, "target": HOSTILE, "denominator": HOSTILE, "empty_batch": HOSTILE, "remarks": [evil]}
    assert report_on(found, tmp_path).code == 0
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in content
    assert "<img" not in content
    assert text_seen(tmp_path / "page.html").count("alert(1)") >= 5
