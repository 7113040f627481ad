"""The full reproduction that is kept beside the documents: its numbers, judged today, say what its page says."""

from __future__ import annotations

import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from noisymean.paper.experiments import EXPERIMENTS
from noisymean.paper.rows import Table
from noisymean.paper.statements import Answer

DOCS = Path(__file__).parents[2] / "docs"
KEPT = DOCS / "reproduced"


@cache
def artefact() -> ModuleType:
    spec = importlib.util.spec_from_file_location("artefact", DOCS / "scripts" / "artefact_of_the_reproduction.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def made() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((KEPT / "made.json").read_text(encoding="utf-8"))
    return found


def table(name: str) -> Table:
    rows: Table = artefact().read(KEPT, name, made()["experiments"][name]["words"])
    return rows


@cache
def tables() -> dict[str, Table]:
    return {name: table(name) for name in EXPERIMENTS}


def test_every_experiment_is_kept_whole() -> None:
    assert set(made()["experiments"]) == set(EXPERIMENTS)
    assert {one.stem for one in KEPT.glob("*.csv")} == set(EXPERIMENTS)
    for name, told in made()["experiments"].items():
        assert len(tables()[name]) == told["rows"] > 0


def test_the_numbers_say_today_what_they_said_then() -> None:
    assert artefact().counts(tables()) == made()["statements"]


def test_every_statement_is_decided_by_a_full_run() -> None:
    open_ = [
        f"{name}: {statement.says}"
        for name, experiment in EXPERIMENTS.items()
        for statement in experiment.statements
        if statement.compare(tables()[name]).answer is Answer.UNDECIDED
    ]
    assert open_ == []


def test_the_page_and_the_document_give_the_same_counts() -> None:
    page = re.sub(r"<[^>]+>", " ", (KEPT / "index.html").read_text(encoding="utf-8"))
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    agree, differ = (made()["statements"][one.value] for one in (Answer.AGREES, Answer.DIFFERS))
    assert f"{agree} of {agree + differ} statements agree, {differ} differ" in " ".join(page.split())
    assert f"Of {agree + differ} statements {agree} agree, {differ} differ" in text
    assert made()["date"] in text


@pytest.mark.parametrize("version", ["noisymean", "torch", "opacus"])
def test_the_document_names_the_versions(version: str) -> None:
    assert made()["versions"][version] in (DOCS / "reproduction.md").read_text(encoding="utf-8")


def test_a_run_that_is_not_finished_or_quick_is_no_artefact(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="missing"):
        artefact().keep(tmp_path, tmp_path / "kept")
    first = next(iter(EXPERIMENTS))
    (tmp_path / f"{first}.json").write_text(json.dumps({"key": {"quick": True}}), encoding="utf-8")
    with pytest.raises(SystemExit, match="quick"):
        artefact().keep(tmp_path, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
