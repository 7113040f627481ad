"""What an audit would have caught, against audits of mechanisms that are broken by just that much."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from noisymean.audit.distinguishers.base import RATES, Judge, Labelled, first_column
from noisymean.audit.estimate import estimate
from noisymean.audit.sight import PROBABILITY, Broken, Check
from noisymean.audit.verdict import judge
from noisymean.laws.closed import EpsilonDelta, Gaussian
from noisymean.laws.subsampled import Subsampled
from noisymean.tradeoff import TradeOff

REPEATS = 150
DELTA = 1e-5
CLAIMS: dict[str, TradeOff] = {
    "a pair": EpsilonDelta(1.0, DELTA),
    "a large pair": EpsilonDelta(4.0, DELTA),
    "Gaussian": Gaussian(1.0),
    "sampled": Subsampled(Gaussian(1.0), 0.5),
    "sampled rarely": Subsampled(Gaussian(1.0), 0.1),
}


def epsilon_of_gaussian(mu: float) -> float:
    """Balle and Wang 2018, Theorem 8, solved by bisection: independent of the package."""
    low, high = 0.0, 1000.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        first = ndtr(mu / 2 - middle / mu)
        second = math.exp(middle + norm.logcdf(-mu / 2 - middle / mu))
        low, high = (middle, high) if first - second > DELTA else (low, middle)
    return high


def least_shift(check: Check, broken: Broken, runs: int) -> float:
    low, high = 1e-3, 64.0
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if check.sees(broken, middle, runs) else (middle, high)
    return high


def share_caught(claim: TradeOff, broken: Broken, shift: float, runs: int, corners: bool) -> float:
    """Of audits of the broken mechanism by the optimal score, its own shift: x for N(0, 1) against the mixture at `shift`."""
    generator = np.random.Generator(np.random.SFC64(7))
    rates = np.array(RATES)
    # thresholds in x: those with these error rates, on either side
    grid = np.linspace(-12.0, shift + 12.0, 400_001)
    missed = (1.0 - broken.rate) * ndtr(grid) + broken.rate * ndtr(grid - shift)
    others = np.concatenate([-ndtri(rates), np.interp(rates, missed, grid)]) if corners else np.empty(0)
    caught = 0
    for _ in range(REPEATS):
        smaller = generator.standard_normal(runs)
        larger = generator.standard_normal(runs) + shift * (generator.random(runs) < broken.rate)
        trials = Labelled(smaller[:, None], larger[:, None])
        # the likelihood ratio is 1 where that of the unsampled pair is: at half the shift
        found = estimate(trials, Judge(first_column, shift / 2, others), confidence=0.99, delta=DELTA)
        caught += judge(found, claim).word == "violated"
    return caught / REPEATS


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "pair" in name else ()) for name in CLAIMS]
)
def test_it_is_caught_as_often_as_is_said(name: str, corners: bool) -> None:
    claim, runs = CLAIMS[name], 2000
    check, broken = Check(claim, DELTA, 0.99, corners), Broken.like(claim)
    if not check.sees(broken, 64.0, runs):
        # as seldom as the claim allows, even without any noise
        assert share_caught(claim, broken, 64.0, runs, corners) < PROBABILITY + 3 * math.sqrt(0.1 * 0.9 / REPEATS)
        return
    shift = least_shift(check, broken, runs)
    # three standard errors below: PROBABILITY is a bound
    assert share_caught(claim, broken, shift, runs, corners) >= PROBABILITY - 3 * math.sqrt(0.1 * 0.9 / REPEATS)
    # and it is not far from the truth: with a fifth less of a shift it is caught less often
    assert share_caught(claim, broken, 0.8 * shift, runs, corners) < PROBABILITY


def test_a_claim_that_is_kept_is_not_seen_broken() -> None:
    for claim in CLAIMS.values():
        check = Check(claim, DELTA, 0.99, corners=True)
        # Gaussian mechanisms that keep each of them, and none that is run
        for shift in (1e-6, 0.05, 0.1):
            assert not check.sees(Broken(1.0), shift, 100_000)
        assert not check.sees(Broken(1.0), 64.0, 0)
    for rate in (1.0, 0.5, 0.1):
        check = Check(Broken(rate).curve(1.0), DELTA, 0.99, corners=True)
        assert not check.sees(Broken(rate), 1.0, 10**8)
        assert check.sees(Broken(rate), 1.1, 10**8)


def test_the_point_of_the_best_guess_lies_on_the_curve() -> None:
    for rate in (1.0, 0.3):
        alpha, beta = Broken(rate).main_point(1.7)
        curve = Broken(rate).curve(1.7)
        assert float(curve(alpha)) == pytest.approx(beta, abs=1e-12)
        assert 1.0 - alpha - beta == pytest.approx(curve.advantage(), abs=1e-12)


def test_epsilon_of_what_is_seen_is_that_of_the_mechanism() -> None:
    check = Check(Gaussian(1.0), DELTA, 0.99, corners=True)
    for mu in (0.3, 1.0, 3.0):
        assert check.epsilon_of(Gaussian(mu)) == pytest.approx(epsilon_of_gaussian(mu), rel=1e-9)
    # a pair is compared as it is written, whatever its curve rounds to
    assert Check(EpsilonDelta(1.0, DELTA), DELTA, 0.99, corners=True).claimed == 1.0
    assert Check(EpsilonDelta(2.0, 0.0), DELTA, 0.99, corners=True).claimed == 2.0


def test_how_a_claim_is_thought_to_be_broken() -> None:
    assert Broken.like(Subsampled(Gaussian(2.0), 0.1)) == Broken(0.1)
    assert Broken.like(EpsilonDelta(1.0, 0.0)) == Broken.like(Gaussian(2.0)) == Broken(1.0)
    assert str(Broken(0.1)) == "a Gaussian mechanism sampled at q = 0.1"
    assert str(Broken(1.0)) == "a Gaussian mechanism"
