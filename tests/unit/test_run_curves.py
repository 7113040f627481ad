"""Curves of a whole run: closed forms, and a bracket that is narrow also where a contour integral is slow at its ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import noisymean as nm
from noisymean.run_curves import RunCurves, run_curves

ALPHA = np.linspace(0.0, 1.0, 41)


@pytest.mark.parametrize("steps", [1, 3, 100])
def test_full_batches_of_the_sum_are_one_gaussian(steps: int) -> None:
    # T rounds with q = 1 tell N(0, 1) from N(sqrt(T)/sigma, 1)
    curves = run_curves(nm.SGM(sample_rate=1, noise_multiplier=8.0), ALPHA, steps=steps)
    exact = norm.cdf(norm.isf(ALPHA) - np.sqrt(steps) / 8.0)
    assert curves.guarantee is not None
    assert np.all(curves.claimed >= exact - 1e-9)
    assert np.all(curves.guarantee <= exact + 1e-9)
    for values in (curves.claimed, curves.leakage, curves.guarantee):
        assert np.abs(values - exact).max() < 2e-3


def test_the_bracket_is_narrow_where_the_far_end_is_slow() -> None:
    # 200 rounds at q = 0.01: the loss is skewed, and nine deviations out the integral needs too many nodes at once
    curves = run_curves(nm.SGM(sample_rate=0.01, noise_multiplier=1.0), ALPHA, steps=200)
    assert curves.guarantee is not None
    gap = curves.claimed - curves.guarantee
    assert gap.min() > -1e-9
    assert gap.max() < 1e-3


def test_what_is_quick_is_told_before_the_guarantee() -> None:
    seen: list[RunCurves] = []
    mechanism = nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate=0.005, noise_multiplier=10.0)
    curves = run_curves(mechanism, ALPHA, steps=10_000, points=65, progress=seen.append)
    (early,) = seen
    assert early.guarantee is None
    assert np.array_equal(early.leakage, curves.leakage)
    assert curves.guarantee is not None
    assert np.all(curves.guarantee <= curves.leakage + 1e-9)


def test_a_run_beyond_every_loss_has_the_bounds_that_always_hold() -> None:
    """sigma = 1e-6, full batches: one round's loss is 1e12, and no curve can be read off a grid of it."""
    mechanism = nm.EASGM(dataset_size=100, dimension=10**6, sample_rate=1, noise_multiplier=1e-6)
    curves = run_curves(mechanism, ALPHA, steps=10**9)
    assert curves.guarantee is not None
    assert np.all((curves.guarantee >= 0.0) & (curves.guarantee <= curves.leakage))
