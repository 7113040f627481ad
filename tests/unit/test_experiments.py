"""Experiments as they are reproduced: rows, data beside the picture, complaints."""

from __future__ import annotations

import csv
import json

import pytest

import noisymean as nm
from noisymean.cli import reproduce
from noisymean.cli.app import run
from noisymean.experiments import synthetic_delta, synthetic_dimension
from noisymean.experiments.experiment import Effort


@pytest.fixture
def small(monkeypatch):
    """The experiments on a corner of their grid."""
    monkeypatch.setattr(synthetic_delta, "RATES", {nm.EASGM: ("0.5",), nm.ASGM: ("0.9",)})
    monkeypatch.setattr(synthetic_delta, "SIZES", (2, 3))
    monkeypatch.setattr(synthetic_dimension, "DIMENSIONS", (5, 20))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["synthetic-delta", "synthetic-dimension"])
def test_an_experiment_writes_a_picture_and_its_data(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Effort, "trials", lambda self, full, quick: 100)
    assert run(["reproduce", name, "--quick", "--out", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["experiments"]
    assert found["name"] == name
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / f"{name}.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) > 4
    assert all(value != "" for row in rows for value in row.values())
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.csv", f"{name}.png", "trials.sqlite"}


@pytest.mark.usefixtures("small")
def test_no_audit_shows_more_than_the_truth_and_ours_shows_most_of_it():
    rows = synthetic_delta.rows(Effort(quick=True, seed=1, jobs=1), lambda _: None)
    for row in rows:
        assert row["delta_lower"] <= row["exact"] + 4.0 * row["exact_standard_error"] + 1e-9
        if row["distinguisher"] == "likelihood-ratio":
            assert row["delta_lower"] >= row["exact"] - 0.04


def test_an_unknown_experiment(capsys):
    assert run(["reproduce", "everything"]) == 2
    err = capsys.readouterr().err
    assert "synthetic-delta, synthetic-dimension, implementations, theory, opacus-feasgm, opacus-200-rounds" in err
    assert len(err.splitlines()) == 1
    assert reproduce.ALL in err
