"""Experiments as they are reproduced: rows, data beside the picture, complaints."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noisymean as nm
from noisymean.cli.app import run
from noisymean.paper.experiment import Effort
from noisymean.paper.experiments import (
    figure_2_delta,
    figure_3_dimension,
    figure_4_methods,
    figure_5_one_round,
    figure_7_many_rounds,
    method_audits,
)
from noisymean.paper.methods import METHODS
from noisymean.paper.reproduction import ALL
from noisymean.paper.rows import Table, levels

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiments on a corner of their grid."""
    monkeypatch.setattr(figure_2_delta, "RATES", {nm.EASGM: ("0.5",), nm.ASGM: ("0.9",)})
    monkeypatch.setattr(figure_2_delta, "SIZES", (2, 3))
    monkeypatch.setattr(figure_3_dimension, "DIMENSIONS", (5, 20))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["synthetic-delta", "synthetic-dimension"])
def test_an_experiment_writes_a_picture_and_its_data(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Effort, "trials", lambda self, full, quick: 100)
    assert run(["reproduce", name, "--quick", "--out", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["experiments"]
    assert found["name"] == name
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"{name}.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) > 4
    assert all(value != "" for row in rows for value in row.values())
    files = {f"{name}.csv", f"{name}.png", f"{name}.json", "trials.sqlite"}
    assert {path.name for path in tmp_path.iterdir()} == files
    assert [claim["answer"] for claim in found["claims"]]
    assert all(claim["result"] and claim["agrees_if"] for claim in found["claims"])


@pytest.mark.usefixtures("small")
def test_no_audit_shows_more_than_the_truth_and_ours_shows_most_of_it() -> None:
    rows: Any = figure_2_delta.rows(Effort(quick=True, seed=1, jobs=1), lambda _: None)
    for row in rows:
        assert row["delta_lower"] <= row["exact"] + 4.0 * row["exact_standard_error"] + 1e-9
        if row["distinguisher"] == "likelihood-ratio":
            assert row["delta_lower"] >= row["exact"] - 0.04


def test_an_unknown_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "everything"]) == 2
    err = capsys.readouterr().err
    assert "synthetic-delta, synthetic-dimension, implementations, theory, opacus-feasgm, opacus-200-rounds" in err
    assert "opacus-releases, theorems" in err
    assert len(err.splitlines()) == 1
    assert ALL in err


def test_one_round_of_theory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim is refuted at every size, and the order of the curves is that of their meaning."""
    monkeypatch.setattr(figure_5_one_round, "SIZES", (4, 999))
    monkeypatch.setattr(figure_5_one_round, "DIMENSIONS", (26_010,))
    monkeypatch.setattr(Effort, "levels", lambda self: levels(21))
    rows: Any = Table(figure_5_one_round.rows(Effort(quick=True, seed=0, jobs=1), lambda _: None))
    assert len(rows) == 2 * 2 * 21
    for row in rows:
        assert row["guarantee"] <= row["guarantee_tight"] + 1e-9
        assert row["guarantee_tight"] <= row["leakage"] + 1e-9
    assert "4 of 4 settings" in figure_5_one_round.finding(rows)
    assert len(figure_5_one_round.picture(rows).axes) == 4


@pytest.mark.slow
def test_two_hundred_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of theory.md, section 4, within 1 %: an accountant says 0.1 where 29.6 is lost."""
    monkeypatch.setattr(figure_7_many_rounds, "DIMENSIONS", (26_010,))
    monkeypatch.setattr(Effort, "levels", lambda self: levels(11))
    monkeypatch.setattr(figure_7_many_rounds, "_DELTAS", np.array([1e-5, 1e-2]))
    rows: Any = Table(figure_7_many_rounds.rows(Effort(quick=True, seed=0, jobs=1), lambda _: None))
    first = rows[0]
    assert first["epsilon_leakage"] == pytest.approx(29.6, rel=0.01)
    assert first["epsilon_leakage"] <= first["epsilon_guarantee"]
    assert first["epsilon_claimed"] == pytest.approx(0.018726, rel=1e-3)
    for row in rows:
        assert row["guarantee"] <= row["leakage"] + 1e-9
        assert row["leakage"] < row["claimed"] + 1e-12
    if not np.isnan(first["epsilon_reported_rdp"]):
        assert first["epsilon_reported_rdp"] == pytest.approx(0.10446, rel=1e-3)
    assert len(figure_7_many_rounds.picture(rows).axes) == 1


def test_a_real_implementation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One method on one set: the library's own step, from five real images; the same run again finds its trials in the store."""
    pytest.importorskip("opacus")
    monkeypatch.setattr(method_audits, "DATASETS", ("mnist",))
    monkeypatch.setattr(figure_4_methods, "METHODS", {"dpsgd-hf": METHODS["dpsgd-hf"]})
    monkeypatch.setattr(Effort, "trials", lambda self, full, quick: 80)
    effort = Effort(quick=True, seed=0, jobs=1, data_dir=str(FIXTURES), store=tmp_path / "trials.sqlite")
    rows: Any = Table(figure_4_methods.EXPERIMENT.rows(effort, lambda _: None))
    assert {row["verdict"] for row in rows} == {"violated"}
    assert method_audits.finding(rows) == "The claim is violated in 1 of 1 audits."
    assert Table(figure_4_methods.EXPERIMENT.rows(effort, lambda _: None)) == rows
    assert len(method_audits.picture(rows).axes) == 1
