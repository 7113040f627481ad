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
from noisymean.compose.engine import Rounds
from noisymean.laws.gaussian import GaussianPairs
from noisymean.leakage import explicit_pairs
from noisymean.mechanisms import KINDS
from noisymean.numerics import binomial
from noisymean.tradeoff import Side


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
    """What leaks depends on K, q, sigma and n, and hardly on N; at these sizes K is 700 for both."""
    fields: dict[str, Any] = {"dimension": 26_010, "sample_rate": "0.005", "noise_multiplier": 10.0}
    own, known = RoundedUp(dataset_size=140_000, **fields), nm.FEASGM(dataset_size=140_199, **fields)
    ours, theirs = (nm.account(one, steps=200, delta=1e-5, pair="larger") for one in (own, known))
    assert ours.leakage.epsilon == pytest.approx(theirs.leakage.epsilon, rel=1e-3)
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


@dataclass(frozen=True, kw_only=True)
class QuieterLater(nm.PublicRate, nm.DatasetDenominator):
    """A constant denominator, and half of the noise from 1,000 records on."""

    name = "quieter-later"
    denominator = "a constant"

    def denominator_at(self, size: int) -> Fraction:
        return Fraction(7)

    def noise_at(self, size: int) -> float:
        return self.noise_multiplier if size < 1_000 else 0.5 * self.noise_multiplier


@dataclass(frozen=True, kw_only=True)
class LoadedBatches(nm.BatchDenominator):
    """Divides by the batch, and samples at a rate that follows N."""

    dataset_size: int
    dimension: int
    noise_multiplier: float
    name = "loaded-batches"
    denominator = "|B|"

    def rate_at(self, size: int) -> Fraction:
        return Fraction(1, -(-size // 10))

    def divisor(self, batches: np.ndarray) -> np.ndarray:
        return np.maximum(batches, 1.0)


@dataclass(frozen=True, kw_only=True)
class MoreThanTheBatch(nm.PublicRate, nm.BatchDenominator):
    name = "more-than-the-batch"
    denominator = "|B| + 3"

    def divisor(self, batches: np.ndarray) -> np.ndarray:
        return batches + 3.0


@dataclass(frozen=True, kw_only=True)
class Falling(nm.PublicRate, nm.DatasetDenominator):
    name = "falling"
    denominator = "1/(N + 1)"

    def denominator_at(self, size: int) -> Fraction:
        return Fraction(1, size + 1)


class TestWhatFollowsN:
    def test_the_noise_that_is_used_counts_and_not_the_one_that_is_told(self) -> None:
        """Where it no longer moves, the run is the noisy sum at half of the noise: its own closed claim is the truth."""
        own = nm.account(
            QuieterLater(dataset_size=5_000, dimension=10, sample_rate=0.01, noise_multiplier=1.0),
            steps=100,
            delta=1e-5,
        )
        truth = nm.account(nm.SGM(sample_rate=0.01, noise_multiplier=0.5), steps=100, delta=1e-5)
        assert own.verdict == "violated"
        assert own.guarantee.epsilon == pytest.approx(truth.guarantee.epsilon, rel=1e-9)
        zeroed = nm.account(own.mechanism, steps=100, delta=1e-5, adjacency=nm.Adjacency.ZERO_OUT)
        assert zeroed.guarantee.epsilon == pytest.approx(truth.guarantee.epsilon, rel=1e-9)
        assert zeroed.verdict == "violated"

    def test_where_the_noise_moves_both_ends_are_known(self) -> None:
        moving = QuieterLater(dataset_size=999, dimension=10, sample_rate=0.01, noise_multiplier=1.0)
        answer = nm.account(moving, steps=10, delta=1e-5, pair="larger")
        assert answer.guarantee.epsilon is not None
        assert answer.leakage.epsilon is not None
        assert 0.0 < answer.leakage.epsilon <= answer.guarantee.epsilon

    def test_a_batch_whose_rate_moves_is_refused(self) -> None:
        """From a rate of 1 to 1/2: batches of ten, and once in 200 times a batch of one at ten times the noise."""
        moving = LoadedBatches(dataset_size=10, dimension=3, noise_multiplier=1.0)
        with pytest.raises(nm.Undefined, match="sampling rate itself changes"):
            nm.account(moving, steps=1, delta=1e-5, pair="larger")
        with pytest.raises(nm.Undefined, match="sampling rate itself changes"):
            nm.guarantee(moving)


def test_no_records_and_a_denominator_that_is_not_one() -> None:
    """D' has two scales, 1/3 and 1/4. delta(3.131) is above 1e-4 and delta(3.137) below, forward; 1.610 and 1.611 backward:
    five rounds by cells and Fourier transforms (tests/truth.py)."""
    mechanism = MoreThanTheBatch(dataset_size=0, dimension=5, sample_rate="0.3", noise_multiplier=1.0)
    pair = next(one for one in explicit_pairs(mechanism) if one.datasets.new == 1.0)  # type: ignore[union-attr]
    rounds = Rounds(((5, pair),))
    assert 3.0 < rounds.epsilon(1e-4, Side.BELOW) <= 3.137
    assert 1.5 < rounds.inverse().epsilon(1e-4, Side.BELOW) <= 1.611
    answer = nm.account(mechanism.resized(1), steps=5, delta=1e-4)
    assert answer.leakage.epsilon is not None
    assert answer.leakage.epsilon <= (answer.guarantee.epsilon or 0.0)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_denominator_that_falls(steps: int) -> None:
    """s is above 1, and both ends are known."""
    falling = Falling(dataset_size=5, dimension=7, sample_rate="0.3", noise_multiplier=1.0)
    answer = nm.account(falling, steps=steps, delta=1e-5)
    assert answer.guarantee.epsilon is not None
    assert answer.leakage.epsilon is not None
    assert 1.0 < answer.leakage.epsilon <= answer.guarantee.epsilon


def test_a_denominator_that_jumps() -> None:
    """c = 2^N: the shifts of batch sizes are as large as the noise. Every size written out is below its guarantee, rounded down."""

    @dataclass(frozen=True, kw_only=True)
    class Doubling(nm.PublicRate, nm.DatasetDenominator):
        name = "doubling"
        denominator = "2^N"

        def denominator_at(self, size: int) -> Fraction:
            return Fraction(2**size)

    mechanism = Doubling(dataset_size=1_000, dimension=16, sample_rate="0.2", noise_multiplier=20.0)
    every = binomial.enumerated(1_000, 0.2)
    shifts = np.concatenate([(offset + every.sizes) / (2.0 * 20.0) for offset in (0.0, 1.0)])
    weights = np.concatenate([0.8 * every.weights, 0.2 * every.weights])
    exact = GaussianPairs(16, weights, shifts, np.full_like(shifts, math.log(0.5)))
    law = nm.guarantee(mechanism)
    for epsilon in (5.0, 19.75, 27.75, 60.0):
        assert float(law.delta(epsilon, Side.ABOVE)) >= float(exact.delta(epsilon, Side.BELOW))
