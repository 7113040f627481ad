"""Sums of scores: against sums written out on a fine grid, and against the likelihood ratio that they stand for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

import noisymean as nm
from noisymean.compose.engine import Rounds
from noisymean.laws.largest import Shifted
from noisymean.laws.scores import scores
from noisymean.tradeoff import Side


def exact_delta_of_two(a: float, b: float, epsilon: float) -> float:
    """delta of the whole pair for two numbers: half N((a, 0)) and half N((0, a)) against the same with b, on a grid of cells."""
    edges = np.linspace(-9.0, 9.0 + b, 2401)

    def cells(shift: float) -> np.ndarray:
        one, other = (np.diff(ndtr(edges - mean)) for mean in (shift, 0.0))
        return 0.5 * (np.outer(one, other) + np.outer(other, one))

    return float(np.maximum(cells(b) - math.exp(epsilon) * cells(a), 0.0).sum())


@pytest.mark.parametrize(("a", "b"), [(0.2, 0.4), (1.0, 2.0), (0.0, 1.0), (0.5, 3.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_two_numbers_lose_no_more_than_everything_and_nearly_that(a: float, b: float, epsilon: float) -> None:
    told = math.exp(Rounds(((1, scores(2, Shifted(a), Shifted(b))),)).log_delta(epsilon, Side.BELOW))
    truth = exact_delta_of_two(a, b, epsilon)
    assert 0.7 * truth - 1e-4 <= told <= truth * (1.0 + 1e-4)


@pytest.mark.parametrize("count", [2, 7, 1000, 100_000])
@pytest.mark.parametrize(("a", "b"), [(0.2, 0.4), (1.0, 2.0)])
def test_masses_are_between_their_ends(count: int, a: float, b: float) -> None:
    law = scores(count, Shifted(a), Shifted(b))
    for ends in (law.p, law.q):
        assert np.all(ends.low <= ends.high)
        assert math.fsum(ends.low) <= 1.0 + 1e-12 <= math.fsum(ends.high) + law.missed * ends.high.size + 2e-12


@pytest.mark.parametrize("present", [1.0, 0.3])
def test_against_drawn_scores(present: float) -> None:
    """The advantage of the best test of the sum, drawn from the definition."""
    count, a, b = 50, 0.5, 1.0
    rng = np.random.default_rng(1)

    def drawn(shift: float) -> np.ndarray:
        y = rng.standard_normal((200_000, count))
        y[:, 0] += np.where(rng.random(200_000) < present, shift, 0.0)
        with_a, with_b = (np.exp(one * y - 0.5 * one**2) for one in (a, b))
        return np.log((count - 1 + with_b) / (count - 1 + with_a)).sum(axis=1)

    p, q = drawn(a), drawn(b)
    thresholds = np.quantile(p, np.linspace(0.02, 0.98, 49))
    seen = float(np.max((q[:, None] > thresholds).mean(axis=0) - (p[:, None] > thresholds).mean(axis=0)))
    told = math.exp(Rounds(((1, scores(count, Shifted(a, present), Shifted(b, present))),)).log_delta(0.0, Side.BELOW))
    assert told == pytest.approx(seen, abs=4.0 * math.sqrt(0.5 / 200_000) + 0.003)


def test_large_noise_shows_more_than_is_claimed() -> None:
    """Neither the largest batch nor the plain sum does, at this noise; and the plain sum is what is shown at least."""
    found = nm.account(nm.SGM(sample_rate="1/1000", noise_multiplier=5.0, sampling="shuffle"), steps=30_000, delta=1e-5)
    plain = math.sqrt(30 / 1000) / 5.0
    delta = norm.cdf(plain / 2 - found.leakage.epsilon / plain) - math.exp(found.leakage.epsilon) * norm.cdf(
        -plain / 2 - found.leakage.epsilon / plain
    )
    assert found.verdict == "violated"
    assert delta < 1e-5
