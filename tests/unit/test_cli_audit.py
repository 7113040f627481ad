"""`noisymean audit` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noisymean.cli.app import run

SMALL = [
    "--mechanism",
    "easgm",
    "--dataset-size",
    "4",
    "--dimension",
    "100",
    "--sample-rate",
    "0.05",
    "--noise-multiplier",
    "10",
    "--seed",
    "1",
]
SUM = [
    "--mechanism",
    "sgm",
    "--dataset-size",
    "4",
    "--dimension",
    "20",
    "--sample-rate",
    "0.5",
    "--noise-multiplier",
    "1",
    "--seed",
    "1",
]


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(["audit", *words])
    out, err = capsys.readouterr()
    return code, out, err


def record(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, _ = answer(capsys, *words, "--json")
    assert code == 0
    return json.loads(out)


def test_the_contract_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = record(capsys, "synthetic", *SMALL, "--trials", "2000")
    assert found["trials"] == 2000
    assert found["confidence"] == 0.95
    for rate in ("alpha", "beta"):
        assert 0.0 <= found[rate]["lower"] <= found[rate]["estimate"] <= found[rate]["upper"] <= 1.0
    assert found["delta_lower"] > 0.8
    assert found["epsilon_lower"] > 3.0
    assert len(found["curve"]["alpha"]) == len(found["curve"]["beta"]) == len(found["claimed"]["beta"])
    # the scale alone, 0.8 against 1 in 100 dimensions: two chi-square distribution functions differ by 0.88430
    assert found["exact"]["delta"] == pytest.approx(0.88430, abs=0.003)
    assert found["verdict"] == "violated"
    assert found["seconds"] > 0.0
    assert found["power"] > 0.9


def test_a_result_for_people_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "synthetic", *SMALL, "--trials", "2000")
    assert code == 0
    table = [line for line in out.splitlines() if "delta" in line and ">=" in line]
    assert len(table) == 2
    assert all(len(line.rstrip()) <= 80 for line in table)
    assert "The claim is violated in one step: " in out
    assert "of the true delta(0)" in out


def test_the_noisy_sum_keeps_its_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert record(capsys, "synthetic", *SUM, "--trials", "4000", "--gradients", "zero")["verdict"] == "not-violated"


def test_a_violation_is_an_exit_code_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "synthetic", *SMALL, "--trials", "500", "--fail-on-violation")[0] == 1
    assert answer(capsys, "synthetic", *SUM, "--trials", "500", "--fail-on-violation")[0] == 0


def test_one_seed_one_result(capsys: pytest.CaptureFixture[str]) -> None:
    first, again = (record(capsys, "synthetic", *SMALL, "--trials", "600") for _ in range(2))
    del first["seconds"], again["seconds"]
    assert first == again


def test_a_fresh_seed_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in SMALL if word not in ("--seed", "1")]
    code, out, err = answer(capsys, "synthetic", *words, "--trials", "100", "--json")
    assert code == 0
    assert f"seed {json.loads(out)['seed']}" in err


def test_store_and_resume(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = str(tmp_path / "s")
    words = ["synthetic", *SMALL, "--trials", "1200", "--store", store]
    first = record(capsys, *words)
    code, _, err = answer(capsys, *words)
    assert code == 2
    assert "3 of 3 blocks are there" in err
    assert "--resume" in err
    without_seed = [word for word in words if word not in ("--seed", "1")]
    again = record(capsys, *without_seed, "--resume")
    del first["seconds"], again["seconds"]
    assert first == again


@pytest.mark.parametrize("name", ["paper", "learned"])
def test_other_distinguishers(capsys: pytest.CaptureFixture[str], name: str) -> None:
    found = record(capsys, "synthetic", *SMALL, "--trials", "1000", "--distinguisher", name)
    assert found["distinguisher"] == name
    assert found["verdict"] == "violated"


def test_bounds_that_are_not_joint_are_said_to_be_so(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["synthetic", *SMALL, "--trials", "300", "--distinguisher", "paper", "--test", "chi2", "--gdp"]
    _, out, _ = answer(capsys, *words)
    assert "By the paper's own intervals: epsilon >=" in out
    assert "Parametric, valid only if the pair is Gaussian: mu >=" in out


def test_claims_of_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    found = record(capsys, "synthetic", *SMALL, "--trials", "500", "--claim-epsilon", "50", "--claim-delta", "0.1")
    assert found["verdict"] == "not-violated"


def test_several_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    found = record(capsys, "synthetic", *SMALL, "--trials", "500", "--steps", "3", "--claim-epsilon", "1")
    assert found["verdict"] == "violated"
    assert found["configuration"]["target"]["steps"] == 3


SHUFFLED = [
    *("--mechanism", "sgm", "--dataset-size", "40", "--dimension", "2", "--batch-size", "4", "--noise-multiplier", "1"),
    *("--steps", "10", "--seed", "1", "--trials", "2000"),
]


def test_how_batches_are_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    shuffled = record(capsys, "synthetic", *SHUFFLED, "--sampling", "shuffle", "--gradients", "opposed")
    assert (shuffled["sampling"], shuffled["adjacency"]) == ("shuffle", "zero-out")
    assert shuffled["verdict"] == "violated"
    assert shuffled["configuration"]["target"]["mechanism"]["batch_size"] == 4
    thrown = record(capsys, "synthetic", *SHUFFLED, "--sampling", "balls-in-bins", "--gradients", "zero")
    assert thrown["sampling"] == "balls-in-bins"
    assert thrown["verdict"] == "not-violated"
    words = ["--sampling", "cyclic", "--drop-last", "--adjacency", "add-remove", "--gradients", "aligned"]
    assert record(capsys, "synthetic", *SHUFFLED, *words)["adjacency"] == "add-remove"
    plain = record(capsys, "synthetic", *SUM, "--trials", "200", "--gradients", "zero")
    assert (plain["sampling"], plain["adjacency"]) == ("poisson", "add-remove")
    assert "adjacency" not in plain["configuration"]["target"]


def test_a_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "a.svg"
    assert answer(capsys, "synthetic", *SMALL, "--trials", "300", "--plot", str(target))[0] == 0
    assert "false positive rate" in target.read_text()


def test_a_callable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def release(extra, generator):\n    return generator.standard_normal(20) * (1.0 + extra)\n")
    found = record(capsys, f"{path}:release", "--trials", "400", "--seed", "1")
    assert found["verdict"] is None
    assert found["exact"] is None
    assert found["claimed"] is None
    found = record(
        capsys, f"{path}:release", "--trials", "400", "--seed", "1", "--sample-rate", "0.5", "--noise-multiplier", "1"
    )
    assert found["verdict"] == "violated"


@pytest.mark.parametrize("option", ["--confidence", "--delta"])
def test_a_bad_level_is_told_before_the_trials_are_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def release(extra, generator):\n    raise SystemError('this took hours')\n")
    code, _, err = answer(capsys, f"{path}:release", option, "1.5", "--seed", "1")
    assert code == 2
    assert err.startswith(f"error: {option}=1.5: must be")


def test_too_few_trials_are_told_before_they_are_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, calls = tmp_path / "mine.py", tmp_path / "calls"
    path.write_text(
        "def release(extra, generator):\n"
        f"    with open({str(calls)!r}, 'a') as file: file.write('x')\n"
        "    return generator.standard_normal(20) * (1.0 + extra)\n"
    )
    code, _, err = answer(capsys, f"{path}:release", "--trials", "8")
    assert code == 2
    assert err == "error: --trials=8: must be enough to learn from and to judge; e.g. 10000\n"
    # its first run only, which shows how long a release is
    assert calls.read_text() == "x"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["synthetic"], "--mechanism: missing"),
        (["synthetic", "--mechanism", "easgm"], "--noise-multiplier: missing"),
        (["synthetic", *SMALL, "--trials", "1"], "--trials=1: must be"),
        (["synthetic", *SMALL, "--trials", "1.5"], "--trials=1.5: must be"),
        (["synthetic", *SMALL, "--confidence", "1"], "--confidence=1: must be"),
        (["synthetic", *SMALL, "--gradients", "odd"], "--gradients=odd: must be one of random"),
        (["synthetic", *SMALL, "--distinguisher", "odd"], "--distinguisher=odd: must be one of"),
        (["synthetic", *SMALL, "--test", "ks"], "--test=ks: must be left out"),
        (["synthetic", *SMALL, "--resume"], "--store: missing"),
        (["synthetic", *SMALL, "--jobs", "0"], "--jobs=0: must be"),
        (["synthetic", *SMALL, "--claim-delta", "0.1"], "--claim-epsilon: missing"),
        (["synthetic", *SMALL, "--max-grad-norm", "0"], "--max-grad-norm=0: must be > 0"),
        (
            ["synthetic", *SMALL, "--loss-reduction", "sum"],
            "--loss-reduction=sum: must be left out: a synthetic target",
        ),
        (["synthetic", *SMALL, "--no-poisson"], "a synthetic target does not use it"),
        (["opacus", "--images", "mnist"], "--batch-size: missing (to run it)"),
        (["opacus", "--images", "minst", "--batch-size", "9"], "--images=minst: must be one of mnist, fashion-mnist"),
        (["optax", "--images", "mnist"], "--images=mnist: must be left out: a way of optax"),
        (["dpsur", "--mode", "full"], "--mode=full: must be left out: dpsur"),
        (["privimage", "--denominator", "code"], "--denominator=code: must be left out: privimage"),
        (["dpsur==1.0.0"], "must be dpsur without a release"),
        (
            ["synthetic", *SMALL, "--dataset-size", "1e9"],
            "gradients='random': must be zero, aligned or opposed at N=1000000000 n=100; random ones would not fit",
        ),
        (
            ["synthetic", *SMALL, "--dimension", "1e12", "--gradients", "zero"],
            "--dimension=1e12: must be at most 536870912 over the number of steps, to be run; the accountant has",
        ),
        (["synthetic", *SHUFFLED, "--sampling", "odd"], "--sampling=odd: must be one of poisson, shuffle"),
        (["synthetic", *SHUFFLED, "--drop-last"], "left out without opacus-loader"),
        (["synthetic", *SHUFFLED, "--adjacency", "replace-one"], "must be add-remove or zero-out"),
        (
            ["synthetic", *SHUFFLED, "--sampling", "shuffle", "--distinguisher", "paper"],
            "must be likelihood-ratio or learned for shuffle batches and zero-out",
        ),
        (["opacus", "--sampling", "shuffle"], "--sampling=shuffle: must be left out: a release of Opacus"),
        (["nothing.py:release"], "there is no file nothing.py"),
        (["nothing"], "must be one of synthetic, opacus, opacus==X"),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    code, out, err = answer(capsys, *words)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--claim-epsilon", "-1"), "error: --claim-epsilon=-1: must be "),
        (("--claim-epsilon", "1", "--claim-delta", "2"), "error: --claim-delta=2: must be "),
        (("--claim-epsilon", "x"), "error: --claim-epsilon=x: must be "),
    ],
)
def test_a_claim_is_complained_about_by_its_own_options(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    described = "synthetic --mechanism sgm --dataset-size 9 --dimension 2 --sample-rate 0.5 --noise-multiplier 1"
    assert run(["audit", *described.split(), "--trials", "300", "--seed", "1", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(line)
