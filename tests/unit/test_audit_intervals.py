"""Limits of error rates: against scipy, and their coverage summed exactly over all outcomes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from noisymean.audit.intervals import Levels, advantage_limit, lower_limit, two_sided, upper_limit
from noisymean.errors import InvalidInput


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (1, 5000), (2500, 5000), (4999, 5000)])
def test_limits_are_clopper_and_pearsons(successes: int, trials: int) -> None:
    expected = binomtest(successes, trials).proportion_ci(0.95, method="exact")
    found = two_sided(successes, trials, 0.025)
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.estimate == successes / trials


@pytest.mark.parametrize("rate", [0.0, 1e-3, 0.04, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("trials", [1, 7, 60])
@pytest.mark.parametrize("error", [0.25, 0.03, 0.001])
def test_limits_cover_at_every_rate(rate: float, trials: int, error: float) -> None:
    outcomes = np.arange(trials + 1)
    mass = binom.pmf(outcomes, trials, rate)
    assert mass @ (upper_limit(outcomes, trials, error) < rate) <= error + 1e-12
    assert mass @ (lower_limit(outcomes, trials, error) > rate) <= error + 1e-12


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.3, 0.5])
@pytest.mark.parametrize("beta", [0.0, 0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("pairs", [1, 6, 40])
@pytest.mark.parametrize("error", [0.24, 0.03])
def test_right_guesses_bound_the_advantage(alpha: float, beta: float, pairs: int, error: float) -> None:
    """Wrong guesses are a sum of two binomials of different rates; the limit of one binomial covers all the same."""
    outcomes = np.arange(pairs + 1)
    mass = np.convolve(binom.pmf(outcomes, pairs, alpha), binom.pmf(outcomes, pairs, beta))
    limits = np.array([advantage_limit(wrong, pairs, error) for wrong in range(2 * pairs + 1)])
    assert mass @ (limits > max(1.0 - alpha - beta, 0.0) + 1e-12) <= error + 1e-12


@pytest.mark.parametrize("confidence", [0.6, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("thresholds", [0, 1, 19])
def test_errors_add_up_to_what_is_stated(confidence: float, thresholds: int) -> None:
    levels = Levels(confidence)
    # independent runs: both intervals hold with the product of their levels
    point = 1.0 - (1.0 - 2.0 * levels.side) ** 2
    curve = thresholds * (1.0 - (1.0 - levels.corner(thresholds)) ** 2)
    assert levels.guesses + point + curve <= (1.0 - confidence) * (1.0 + 1e-9)
    assert levels.guesses < 0.25


@pytest.mark.parametrize("confidence", [0.5, 1.0, -1.0, float("nan")])
def test_confidence_has_a_range(confidence: float) -> None:
    with pytest.raises(InvalidInput, match="confidence="):
        Levels(confidence)
