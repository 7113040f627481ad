"""size_revealed against its definition, 50 digits; that it is *sound* is tests/property/test_soundness.py."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mpf
from scipy.special import logsumexp

import oracles
from noisymean.laws.size_revealed import size_revealed

# thresholds at which a rejection is certain, or impossible, say nothing about the curve inside
THRESHOLDS = (-0.3, -0.01, 0.0, 0.02, 0.3, 1.0, 3.0)


@pytest.mark.parametrize(
    ("count", "rate", "sigma"),
    [(0, 0.3, 1.0), (1, 0.5, 2.0), (2, 0.999, 0.3), (3, 1e-4, 1.0), (4, 0.7, 2.0), (60, 0.1, 10.0), (500, 0.5, 0.5)],
)
def test_against_the_definition(count: int, rate: float, sigma: float) -> None:
    curve = size_revealed(count, rate, sigma)
    for t in THRESHOLDS:
        point = oracles.size_revealed_point(count, rate, sigma, t)
        if 1e-12 < point.alpha < 1 - 1e-12:
            alpha, beta = oracles.at_float(point)
            assert abs(mpf(float(curve(alpha))) - beta) < 1e-12
            assert mpf(float(curve.lower(alpha))) <= beta + mpf(10) ** -16


@pytest.mark.parametrize(("count", "rate", "sigma"), [(10_000, 0.3, 1.0), (59_999, 0.005, 10.0), (20_000, 0.9, 0.5)])
def test_where_sizes_are_thinned(count: int, rate: float, sigma: float) -> None:
    curve = size_revealed(count, rate, sigma)
    for t in (-0.005, -1e-4, 1e-4, 0.01):
        point = oracles.size_revealed_point(count, rate, sigma, t)
        if 1e-12 < point.alpha < 1 - 1e-12:
            alpha, beta = oracles.at_float(point)
            # fewer sizes leak more: the curve is a bound, and a close one
            assert 0 <= beta - mpf(float(curve.lower(alpha))) < 1e-8


def test_an_empty_dataset_loses_the_new_record() -> None:
    # N = 0: k = 1 happens on D' only, with probability q
    alpha = np.linspace(0.0, 0.9, 10)
    np.testing.assert_allclose(size_revealed(0, 0.25, 1.0)(alpha), 0.75 * (1.0 - alpha), atol=1e-13)


def test_full_sampling_gives_everything_away() -> None:
    assert size_revealed(5, 1.0, 1.0)(np.array([0.0, 0.3, 1.0])).tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)


def test_mass_adds_up() -> None:
    for count, rate in ((0, 0.2), (3, 0.5), (3, 1.0), (10_000, 0.3)):
        curve = size_revealed(count, rate, 2.0)
        tails = curve.tails(np.array([-1.0, 0.0, 0.1, 5.0]))
        np.testing.assert_allclose(np.exp(tails.p_above) + np.exp(tails.p_below), 1.0, atol=1e-12)
        np.testing.assert_allclose(np.exp(tails.q_above) + np.exp(tails.q_below), 1.0, atol=1e-12)


@pytest.mark.parametrize("theta", [-20_000.0, -700.0, -3.0, 0.5, 2.0, 30.0])
@pytest.mark.parametrize(("count", "rate", "sigma"), [(3, 0.2, 1.0), (600, 0.01, 1.0), (60_000, 0.01, 4.0)])
def test_cumulants_against_a_plain_sum(count: int, rate: float, sigma: float, theta: float) -> None:
    """K and its slope by a fine sum over a line that is wide enough for every tilt, whichever way the mass has moved."""
    law = size_revealed(count, rate, sigma, fine=False)
    shift, step = 2.0 / sigma, 2e-3
    x = np.arange(-30.0, 30.0 + 1.2 * abs(max(theta, 0.0)) * shift, step)
    with np.errstate(divide="ignore"):
        odds, weights = np.log(law.odds)[:, None], np.log(law.weights)[:, None]
    loss = np.log1p(-rate) + np.logaddexp(0.0, odds + shift * x - 0.5 * shift**2)
    exponent = weights - 0.5 * x * x - 0.5 * np.log(2.0 * np.pi) + np.log(step) + theta * loss
    value = float(logsumexp(exponent))
    found = law.cumulants.moments(np.array([theta]))
    assert found.value[0] == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert found.mean[0] == pytest.approx(float(np.sum(np.exp(exponent - value) * loss)), rel=1e-9, abs=1e-12)
