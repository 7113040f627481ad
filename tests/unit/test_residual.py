"""What is left of a release: the statistic, against plain algebra, and what its thresholds may be chosen on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from noisymean.audit import Store, audit
from noisymean.audit.distinguishers import Labelled, Learned, Residual, distinguisher
from noisymean.audit.distinguishers.residual import log_residual
from noisymean.errors import InvalidInput, Undefined
from noisymean.targets import registry
from noisymean.targets.protocol import Centre, Neighbour
from noisymean.targets.synthetic import Synthetic
from onlooked import Scales

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TARGETS, "scales", "onlooked:Scales")


def left_by_least_squares(release: np.ndarray, mean: np.ndarray, directions: np.ndarray) -> float:
    """|x - m|^2 less what a combination of the directions can explain of it."""
    rest = release - mean
    best, *_ = np.linalg.lstsq(directions.T, rest, rcond=None)
    return float(np.sum((rest - directions.T @ best) ** 2))


def test_what_is_left_is_what_least_squares_leaves() -> None:
    for directions in (4, 1, 0):
        rows = np.linalg.qr(RANDOM.standard_normal((30, directions)))[0].T
        release, mean = RANDOM.standard_normal((2, 30))
        left = left_by_least_squares(release, mean, rows) if directions else np.sum((release - mean) ** 2)
        assert log_residual(release, Centre(mean, rows)) == pytest.approx(np.log(left), abs=1e-12)


def test_a_release_that_is_all_explained_is_still_a_number() -> None:
    mean = RANDOM.standard_normal(6)
    assert np.isfinite(log_residual(mean, Centre(mean, np.eye(6))))


def test_a_column_for_each_step_and_no_coins() -> None:
    target = Scales(steps=3)
    outputs = target.release(Neighbour.SMALLER, np.random.default_rng(1), 4)
    found = Residual(target).features(outputs, np.random.default_rng(1))
    assert found.shape == (4, 3)
    assert np.array_equal(found, Residual(target).features(outputs, np.random.default_rng(2)))
    alone = [Residual(target).features(outputs[[trial]], np.random.default_rng(3))[0] for trial in range(4)]
    assert np.array_equal(found, np.array(alone))


@pytest.mark.parametrize("rises", [True, False])
def test_the_direction_is_learned(rises: bool) -> None:
    """600 and 594, or the other way round: the score grows towards D' in either."""
    small, large = RANDOM.standard_normal((2, 50, 3))
    large = large + (5.0 if rises else -5.0)
    judge = Residual(Scales(steps=3)).judge(Labelled(small, large), None)
    assert judge.score(large).min() > judge.threshold > judge.score(small).max()
    assert judge.score(large) == pytest.approx(large.mean(axis=1) * (1 if rises else -1))
    assert judge.threshold not in judge.others


def test_nothing_is_learned_from_trials_that_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold, once more from the first fifth of the stored blocks alone; the judged ones are then anything at all."""
    target = Scales(ratio=1.3, steps=2)
    first = audit(target, seed=4, trials=200, store=Store.at(tmp_path / "a.sqlite"))
    rows = sqlite3.connect(tmp_path / "a.sqlite").execute(
        "select smaller, features from blocks order by block limit (select count(*) / 5 from blocks)"
    )
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for smaller, features in rows:
        block = np.frombuffer(features, "<f8").reshape(-1, 2).mean(axis=1)
        sides[0].append(block[:smaller])
        sides[1].append(block[smaller:])
    small, large = np.sort(np.concatenate(sides[0])), np.sort(np.concatenate(sides[1]))
    assert small.size == large.size == 20
    values = np.sort(np.concatenate([small, large]))
    right = [(small <= value).mean() + (large > value).mean() for value in values[:-1]]
    best = int(np.argmax(right))
    assert first.found.threshold == pytest.approx(0.5 * (values[best] + values[best + 1]), abs=1e-12)
    assert first.found.judged == 160

    plain = Residual.features
    calls = []

    def spoiled(self: Residual, outputs: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        calls.append(len(outputs))
        # the first four of twenty blocks, ten trials each, are learned from
        return plain(self, outputs, generator) + (100.0 if sum(calls) > 40 else 0.0)

    monkeypatch.setattr(Residual, "features", spoiled)
    assert audit(target, seed=4, trials=200).found.threshold == first.found.threshold


def test_it_is_the_choice_for_who_sees_the_weights() -> None:
    assert isinstance(distinguisher(None, Scales()), Residual)
    assert isinstance(distinguisher("learned", Scales()), Learned)
    with pytest.raises(Undefined, match="'likelihood-ratio': must be residual or learned for training"):
        distinguisher("likelihood-ratio", Scales())
    with pytest.raises(Undefined, match="'paper': must be residual or learned"):
        distinguisher("paper", Scales())


def test_it_is_refused_where_nobody_sees_them(synthetic: Synthetic) -> None:
    with pytest.raises(InvalidInput, match="'residual': must be left out for this target"):
        distinguisher("residual", synthetic)


@pytest.fixture
def synthetic() -> Synthetic:
    from noisymean.mechanisms import EASGM

    return Synthetic(mechanism=EASGM(dataset_size=3, dimension=4, sample_rate="0.3", noise_multiplier=2.0))
