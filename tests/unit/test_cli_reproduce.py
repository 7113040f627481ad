"""`noisymean reproduce`: what is fetched is said before it is, and the last line counts what failed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from command_line import run
from noisymean.cli import reproduce
from noisymean.errors import NoisymeanError
from noisymean.paper import data
from noisymean.paper.experiment import Effort, Experiment
from noisymean.paper.experiments import EXPERIMENTS
from noisymean.paper.needed import Download, Needs, in_words, missing
from noisymean.report.plots import load_matplotlib


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("NOISYMEAN_CACHE", str(folder))
    return folder


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is fetched, instead of fetching it."""
    names: list[str] = []

    def fetch(name: str) -> Path:
        names.append(name)
        return Path(name)

    monkeypatch.setattr(reproduce, "fetch_with_bar", fetch)
    return names


def picture(table: Any) -> Any:
    load_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(1, 1))


def quick(name: str, needs: Needs = Needs(), fault: Exception | None = None) -> Experiment:
    """An experiment of one row."""

    def rows(effort: Effort, announce: Any) -> list[Any]:
        if fault is not None:
            raise fault
        return [{"x": 1.0}]

    return Experiment(name, "Figure", "nothing", rows, picture, lambda table: "One row.", needs=lambda effort: needs)


def put(monkeypatch: pytest.MonkeyPatch, *experiments: Experiment) -> None:
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {one.name: one for one in experiments})


@pytest.mark.usefixtures("cache")
def test_what_is_fetched_is_said_first_with_its_size_and_time(
    fetched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, quick("images", Needs(("mnist", "cifar10"), ("0.15.0",))))
    done = run("reproduce", "images", "--out", str(tmp_path / "out"))
    assert done.code == 0
    assert fetched == ["mnist", "cifar10"]
    # 11,496,804 and 138,940,914 bytes by the catalogue, and a wheel: 150,747,718 bytes are 30.1 s of 5 MB
    assert done.err.splitlines()[0] == (
        "to be fetched, 151 MB in all, about 31 s at 5 MB/s: MNIST (11 MB), CIFAR-10 (139 MB), opacus 0.15.0 (0.3 MB)"
    )
    # what is finished needs nothing
    again = run("reproduce", "images", "--out", str(tmp_path / "out"))
    assert (again.code, fetched) == (0, ["mnist", "cifar10"])
    assert "to be fetched" not in again.err


@pytest.mark.usefixtures("cache")
def test_images_of_ones_own_are_not_fetched(
    fetched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, quick("images", Needs(("mnist",))))
    done = run("reproduce", "images", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out"))
    assert (done.code, fetched) == (0, [])
    assert "to be fetched" not in done.err


@pytest.mark.usefixtures("cache")
def test_nothing_is_fetched_in_vain(fetched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    put(monkeypatch, quick("trains", Needs(("mnist",), torch=True)))
    done = run("reproduce", "trains", "--out", str(tmp_path / "out"))
    assert (done.code, fetched) == (2, [])
    assert "pip install 'noisymean[audit]'" in done.err.splitlines()[-1]


@pytest.mark.usefixtures("cache", "fetched")
@pytest.mark.parametrize(
    ("faults", "code", "last"),
    [
        ((None, None, None), 0, "3 of 3 done, none failed."),
        ((None, NoisymeanError("no network"), None), 2, "2 of 3 done, 1 failed: second."),
        ((NoisymeanError("no network"), None, ZeroDivisionError("oops")), 70, "1 of 3 done, 2 failed: first, third."),
    ],
)
def test_the_last_line_counts_what_failed(
    faults: tuple[Exception | None, ...], code: int, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("first", "second", "third")
    put(monkeypatch, *(quick(name, fault=fault) for name, fault in zip(names, faults, strict=True)))
    words = ("reproduce", "all", "--out", str(tmp_path / "out"))
    done = run(*words)
    assert (done.code, done.out.splitlines()[-1]) == (code, last)
    # with JSON on standard output the line is on the other one
    done = run(*words, "--json")
    assert (done.code, done.err.splitlines()[-1]) == (code, last)
    assert len(json.loads(done.out)["experiments"]) == 3


def test_one_alone_has_a_last_line_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, quick("first"))
    assert run("reproduce", "FIRST", "--out", str(tmp_path / "out")).out.splitlines()[-1] == "1 of 1 done, none failed."


def test_of_many_that_need_the_same_it_is_counted_once(cache: Path) -> None:
    both = [Needs(("mnist", "cifar10"), ("1.0.0",)), Needs(("cifar10",), ("1.0.0", "0.15.0"))]
    assert [one.name for one in missing(both)] == ["MNIST", "CIFAR-10", "opacus 1.0.0", "opacus 0.15.0"]
    (cache / "wheels").mkdir(parents=True)
    (cache / "wheels" / "opacus-1.0.0-py3-none-any.whl").touch()
    assert [one.name for one in missing(both)] == ["MNIST", "CIFAR-10", "opacus 0.15.0"]
    assert [one.name for one in missing(both, data_dir="mine")] == ["opacus 0.15.0"]
    assert missing([]) == []


def test_a_short_download_is_no_zero_seconds() -> None:
    assert in_words([Download("opacus 0.9.0", 76_507)]) == (
        "to be fetched, 0.1 MB in all, about 1 s at 5 MB/s: opacus 0.9.0 (0.1 MB)"
    )


@pytest.mark.parametrize("is_quick", [True, False])
def test_every_experiment_knows_what_it_needs(is_quick: bool) -> None:
    effort = Effort(quick=is_quick, seed=0, jobs=1)
    needs = {name: one.needs(effort) for name, one in EXPERIMENTS.items()}
    every = tuple(data.CATALOGUE)
    # as docs/reproduction.md has it: Figures 4 and 6 audit methods on all sets, at these releases
    assert needs["implementations"] == Needs(every, ("0.15.0",), torch=True)
    assert needs["opacus-feasgm"] == Needs(every, ("1.0.0",), torch=True)
    assert needs["full-mnist"] == Needs(("mnist",), torch=True)
    assert needs["opacus-releases"].images == ()
    for name in ("synthetic-delta", "synthetic-dimension", "theory", "opacus-200-rounds", "theorems"):
        assert needs[name] == Needs()
