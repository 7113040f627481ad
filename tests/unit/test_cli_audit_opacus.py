"""noisymean audit opacus and the published methods, from the command line; images from the fixtures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noisymean.cli.app import run

pytest.importorskip("opacus")

FIXTURES = str(Path(__file__).parents[1] / "fixtures")
ROUND = ["--dimension", "26010", "--noise-multiplier", "1", "--batch-size", "600", "--seed", "1"]


def audited(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert run(["audit", *words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_round_number_is_told_apart_by_one_step(capsys: pytest.CaptureFixture[str]) -> None:
    """60,000 records in batches of 600 divide by 600, one more by 594: the norm of one release says which."""
    found = audited(capsys, "opacus", "--dataset-size", "60000", *ROUND, "--trials", "120")
    assert found["verdict"] == "violated"
    assert "N=60000 b=600 n=26010" in str(found["target"])
    assert found["configuration"]["target"]["steps"] == 1  # type: ignore[index]


@pytest.mark.parametrize(
    "words", [["--dataset-size", "60001"], ["--dataset-size", "60000", "--loss-reduction", "sum"]], ids=["b-N", "sum"]
)
def test_where_the_denominator_stays_the_claim_stands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert audited(capsys, "opacus", *words, *ROUND, "--trials", "100")["verdict"] == "not-violated"


@pytest.mark.slow
def test_a_method_on_real_images(capsys: pytest.CaptureFixture[str]) -> None:
    found = audited(capsys, "dpsgd-hf", "--images", "mnist", "--data-dir", FIXTURES, "--trials", "200", "--seed", "1")
    assert found["verdict"] == "violated"
    assert str(found["target"]).startswith("DPSGD-HF (opacus==0.15.0), cnn-grey on mnist: N=4 q=0.005 n=26010")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["opacus", "--dataset-size", "9"], "--dimension: missing"),
        (["opacus", "--dataset-size", "9", "--dimension", "5", "--noise-multiplier", "1"], "--batch-size: missing"),
        (["opacus==7", "--dataset-size", "9", "--dimension", "5", "--noise-multiplier", "1", "--batch-size", "3"], "7"),
        (["opacus", "--mechanism", "sgm"], "the release decides it"),
        (["dpsur", "--denominator", "none", "--data-dir", FIXTURES], "one of paper, code"),
        (["dp-feta", "--loss-reduction", "median", "--data-dir", FIXTURES], "one of mean, sum"),
        (["dp-feta", "--images", "cats"], "cats"),
        (["dp-feta", "--device", "gpu"], "one of auto, cpu, cuda"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1
