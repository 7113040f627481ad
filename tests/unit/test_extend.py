"""A mechanism from outside of the package, through public names alone: one class is all it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import noisymean as nm
import oracles
from noisymean.mechanisms import KINDS


@dataclass(frozen=True, kw_only=True)
class Capped(nm.PublicRate, nm.BatchDenominator):
    """Divides by the batch, but by no less than b."""

    batch_size: int
    name = "capped"
    denominator = "max(b, |B|)"

    def divisor(self, batches: np.ndarray) -> np.ndarray:
        return np.maximum(batches, float(self.batch_size))


@dataclass(frozen=True, kw_only=True)
class RoundedUp(nm.PublicRate, nm.DatasetDenominator):
    """Divides by ceil(N q)."""

    name = "rounded-up"
    denominator = "ceil(N*q)"

    def denominator_at(self, size: int) -> Fraction:
        return Fraction(max(math.ceil(size * self.rate), 1))


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    for kind in (Capped, RoundedUp):
        nm.register(kind)
    yield
    for kind in (Capped, RoundedUp):
        KINDS.pop(kind.name)


def capped(**changed: Any) -> Capped:
    fields: dict[str, Any] = {
        "dataset_size": 5, "dimension": 1, "sample_rate": "0.4", "noise_multiplier": 0.8, "batch_size": 3,
    }  # fmt: skip
    return Capped(**{**fields, **changed})


def exact_pair(mechanism: Capped, shared: float, new: float) -> tuple[oracles.Gaussians, oracles.Gaussians]:
    """Outputs on D and D' batch by batch: every record by itself, divided by what the class says."""
    count, q, sigma = mechanism.dataset_size, mechanism.q, mechanism.noise_multiplier

    def law(records: list[float]) -> oracles.Gaussians:
        weights, means, scales = [], [], []
        for batch in range(2 ** len(records)):
            members = [gradient for i, gradient in enumerate(records) if batch >> i & 1]
            divisor = max(mechanism.batch_size, len(members))
            weights.append(q ** len(members) * (1 - q) ** (len(records) - len(members)))
            means.append([sum(members) / divisor])
            scales.append(sigma / divisor)
        return oracles.Gaussians(np.array(weights), np.array(means), np.array(scales))

    return law([shared] * count), law([shared] * count + [new])


class TestABatch:
    @pytest.mark.parametrize(("shared", "new"), [(1.0, -1.0), (0.0, 1.0)])
    @pytest.mark.parametrize("sigma", [0.5, 2.0])
    def test_one_round_against_every_batch(self, sigma: float, shared: float, new: float) -> None:
        mechanism = capped(noise_multiplier=sigma)
        alpha, beta = oracles.line_errors(*exact_pair(mechanism, shared, new), points=40_001)
        at = np.array([0.02, 0.1, 0.3, 0.6, 0.9])
        truth = np.interp(at, alpha, beta)
        curves = nm.curve(mechanism, alpha=at)
        assert curves.guarantee is not None
        assert curves.guarantee_tight is not None
        # no guarantee is above what an attacker achieves, and the best of the pairs leaks no less than this one
        assert (curves.guarantee <= curves.guarantee_tight).all()
        assert (curves.guarantee_tight <= truth + 1e-9).all()
        assert (curves.leakage <= truth + 1e-4).all()

    def test_the_best_pair_is_exact(self) -> None:
        mechanism = capped()
        at = np.array([0.02, 0.1, 0.3, 0.6, 0.9])
        truths = []
        for shared, new in ((1.0, -1.0), (1.0, -0.5), (0.0, 1.0)):
            alpha, beta = oracles.line_errors(*exact_pair(mechanism, shared, new), points=40_001)
            truths.append(np.interp(at, alpha, beta))
        np.testing.assert_allclose(nm.curve(mechanism, alpha=at).leakage, np.min(truths, axis=0), atol=1e-4)

    @pytest.mark.parametrize("steps", [1, 3, 40])
    def test_a_run(self, steps: int) -> None:
        answer = nm.account(capped(dataset_size=40, batch_size=16, dimension=20), steps=steps, delta=1e-5)
        assert answer.leakage.epsilon is not None
        assert answer.guarantee.epsilon is not None
        assert 0.0 < answer.leakage.epsilon <= answer.guarantee.epsilon
        assert answer.to_dict()["mechanism"] == "capped"
        assert "CAPPED: N = 40" in str(answer)

    def test_b_of_one_is_asgm(self) -> None:
        own, known = capped(batch_size=1), nm.ASGM(dataset_size=5, dimension=1, sample_rate="0.4", noise_multiplier=0.8)
        at = np.array([0.05, 0.4, 0.8])
        for name in ("claimed", "guarantee", "guarantee_tight", "leakage"):
            np.testing.assert_allclose(
                getattr(nm.curve(own, alpha=at), name), getattr(nm.curve(known, alpha=at), name), atol=1e-9
            )

    def test_many_records(self) -> None:
        """Where all batches stay below b the denominator is a constant, and the leakage that of the noisy sum."""
        mechanism = capped(dataset_size=10_000, sample_rate="0.01", batch_size=1_000, dimension=100)
        answer = nm.account(mechanism, steps=20, delta=1e-5)
        claimed = nm.account(nm.SGM(sample_rate="0.01", noise_multiplier=0.8), steps=20, delta=1e-5).claimed.epsilon
        assert answer.leakage.epsilon == pytest.approx(claimed, rel=2e-2)
        assert answer.leakage.epsilon <= claimed


def test_a_denominator_of_the_dataset() -> None:
    """All-zero D: what leaks depends on K, q, sigma and n only, and at these sizes K is 700 for both."""
    fields: dict[str, Any] = {"dimension": 26_010, "sample_rate": "0.005", "noise_multiplier": 10.0}
    own, known = RoundedUp(dataset_size=140_000, **fields), nm.FEASGM(dataset_size=140_199, **fields)
    ours, theirs = (nm.account(one, steps=200, delta=1e-5, pair="larger") for one in (own, known))
    assert ours.leakage.epsilon == pytest.approx(theirs.leakage.epsilon, rel=1e-9)
    assert ours.guarantee.epsilon is not None
    assert ours.guarantee.epsilon == pytest.approx(theirs.guarantee.epsilon, rel=1e-2)
    assert ours.verdict == "violated"


def test_a_schedule_of_both() -> None:
    first, second = capped(dataset_size=40, batch_size=16, dimension=20), nm.SGM(sample_rate=0.1, noise_multiplier=2.0)
    answer = nm.account([(first, 5), (second, 10)], delta=1e-5)
    alone = nm.account(first, steps=5, delta=1e-5)
    assert answer.leakage.epsilon is not None
    assert alone.leakage.epsilon is not None
    assert alone.leakage.epsilon <= answer.leakage.epsilon <= (answer.guarantee.epsilon or 0.0)
    assert [one["mechanism"] for one in answer.to_dict()["segments"]] == ["capped", "sgm"]  # type: ignore[attr-defined]


def test_a_name_has_one_owner() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Other(nm.PublicRate, nm.DatasetDenominator):
        name = "easgm"
        denominator = "N"

        def denominator_at(self, size: int) -> Fraction:
            return Fraction(size)

    with pytest.raises(nm.InvalidInput, match="name='easgm'"):
        nm.register(Other)
