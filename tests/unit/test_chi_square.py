"""numerics.chi_square against two 50-digit references that share nothing with it, nor with one another."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import oracles
from noisymean.numerics.chi_square import RELATIVE_ERROR, log_tails, saddle

DEGREES = (1, 2, 3, 10, 100, 10**4, 10**5)
# 2^-10 stands for 1e-3: half of it plus half a degree of freedom is an exact double, and so is every mean below
NONCENTRALITIES = (0.0, 2.0**-10, 1.0, 1e2, 1e6)
# y, in deviations from the mean (and as a share of the mean, for lower tails of few degrees of freedom)
DEVIATIONS = (-36.0, -20.0, -9.0, -3.0, -1.0, -1e-3, -1e-9, 0.0, 1e-6, 0.5, 2.0, 6.0, 15.0, 30.0)
SHARES = (1e-12, 1e-4, 0.03, 0.3)


def tails_at(half_dof: float, x: float, excess: list[float]) -> list[tuple[float, float]]:
    b, tilt = saddle(half_dof, x, np.array(excess))
    [(lower, upper)] = log_tails(half_dof, b, tilt)
    return list(zip(lower.tolist(), upper.tolist(), strict=True))


def relative_error(log_computed: float, reference: mpf) -> float:
    """The relative error of exp(log_computed); 0 where the reference is below 1e-300, which nobody asks for."""
    if reference < mpf(10) ** -300:
        return 0.0
    return float(abs(mpmath.expm1(mpf(log_computed) - mpmath.log(reference))))


def excesses(half_dof: float, x: float) -> list[float]:
    """Distances from the mean at which both the float sum k + x + excess and its parts are exact."""
    mean, deviation = half_dof + x, np.sqrt(half_dof + 2.0 * x)
    wanted = [z * deviation for z in DEVIATIONS if z * deviation > -mean]
    wanted += [share * mean - mean for share in SHARES]
    # on a grid of ulps, so that y = mean + excess is a double
    grids = [4.0 * np.spacing(max(mean, abs(e))) for e in wanted]
    rounded = [float(np.round(e / grid) * grid) for e, grid in zip(wanted, grids, strict=True)]
    return sorted({e for e in rounded if mean + e > 0.0})


@pytest.mark.parametrize(("dof", "noncentrality"), list(itertools.product(DEGREES, NONCENTRALITIES)))
def test_both_tails_to_their_stated_relative_error(dof: int, noncentrality: float) -> None:
    half_dof, x = dof / 2, noncentrality / 2
    excess = excesses(half_dof, x)
    worst = 0.0
    for e, (lower, upper) in zip(excess, tails_at(half_dof, x, excess), strict=True):
        y = mpf(half_dof) + mpf(x) + mpf(e)
        assert y == half_dof + x + e, "the reference must see the very y that the package sees"
        reference = oracles.chi_square_tails(half_dof, x, y)
        worst = max(worst, relative_error(lower, reference.lower), relative_error(upper, reference.upper))
    assert worst <= RELATIVE_ERROR


@pytest.mark.parametrize(
    ("dof", "noncentrality"),
    [(1, 1e12), (10**12, 0.0), (10**12, 1.0), (10**12, 1e12), (10**6, 1e12), (10**12, 1e20), (3, 1e20)],
)
def test_far_beyond_what_libraries_accept(dof: int, noncentrality: float) -> None:
    half_dof, x = dof / 2, noncentrality / 2
    deviation = np.sqrt(half_dof + 2.0 * x)
    excess = [float(z * deviation) for z in (-30.0, -8.0, -2.0, -1e-4, 0.7, 5.0, 20.0)]
    for e, (lower, upper) in zip(excess, tails_at(half_dof, x, excess), strict=True):
        reference = oracles.chi_square_by_bromwich(half_dof, x, mpf(half_dof) + mpf(x) + mpf(e))
        assert relative_error(lower, reference.lower) <= RELATIVE_ERROR
        assert relative_error(upper, reference.upper) <= RELATIVE_ERROR


def test_several_poles_on_one_saddle_agree_with_one_each() -> None:
    half_dof, x = 7.5, 3.0
    b, tilt = saddle(half_dof, x, np.linspace(-6.0, 20.0, 9))
    together = log_tails(half_dof, b, tilt, tilt - 0.3, tilt + 1.1)
    for shift, (lower, upper) in zip((0.0, -0.3, 1.1), together, strict=True):
        [(lower_alone, upper_alone)] = log_tails(half_dof, b, tilt + shift)
        np.testing.assert_allclose(lower, lower_alone, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(upper, upper_alone, rtol=1e-12, atol=1e-13)


def test_a_pole_beside_the_path_is_not_lost() -> None:
    # thresholds that creep up to the mean from both sides: the residue switches on and off nowhere visibly
    excess = np.concatenate([-np.logspace(1.5, -14, 200), [0.0], np.logspace(-14, 1.5, 200)])
    for half_dof, x in ((1.0, 0.0), (10.0, 4.0), (5e4, 1e5)):
        lower = np.exp([low for low, _ in tails_at(half_dof, x, excess[excess > -half_dof - x].tolist())])
        assert (np.diff(lower) >= -2 * RELATIVE_ERROR).all()


def test_nothing_lies_below_zero() -> None:
    [(lower, upper)] = log_tails(2.0, *saddle(2.0, 1.0, np.array([-3.0, -4.0, -1e9])))
    assert lower.tolist() == [-np.inf] * 3
    assert upper.tolist() == [0.0] * 3


def test_shapes_are_kept() -> None:
    b, tilt = saddle(np.array([[1.0], [50.0]]), 0.0, np.array([0.1, 0.2, 0.3]))
    [(lower, upper)] = log_tails(np.array([[1.0], [50.0]]), b, tilt)
    assert lower.shape == upper.shape == (2, 3)


class TestTheReferences:
    """Whoever judges is judged first."""

    @pytest.mark.parametrize(
        ("half_dof", "x", "y"),
        [
            (50, 3.5, 20.0),
            (50, 500, 400.0),
            (50, 500, 53.5),
            (Fraction(101, 2), 500, 1000.0),
            (5000, 50, 5200.0),
            (1000, 0, 900.0),
        ],
    )
    def test_series_and_vertical_line_agree_to_45_digits(self, half_dof: object, x: float, y: float) -> None:
        series, line = oracles.chi_square_by_series(half_dof, x, y), oracles.chi_square_by_bromwich(half_dof, x, y)
        for a, b in zip(series, line, strict=True):
            assert abs(a - b) < mpf(10) ** -45 * a
        assert abs(series.lower + series.upper - 1) < mpf(10) ** -45

    @pytest.mark.parametrize("dof", [1, 2, 5, 30])
    def test_series_agrees_with_incomplete_gamma(self, dof: int) -> None:
        y = mpf("3.75")
        central = oracles.chi_square_by_series(mpf(dof) / 2, 0, y)
        assert abs(central.upper - mpmath.gammainc(mpf(dof) / 2, y, mp.inf, regularized=True)) < mpf(10) ** -45

    def test_series_agrees_with_two_normal_tails(self) -> None:
        # one degree of freedom: 2Y = (z + sqrt(2x))^2
        x, y = mpf(2), mpf("0.5")
        root, shift = mpmath.sqrt(2 * y), mpmath.sqrt(2 * x)
        direct = oracles.normal_cdf(root - shift) - oracles.normal_cdf(-root - shift)
        assert abs(oracles.chi_square_by_series(mpf(1) / 2, x, y).lower - direct) < mpf(10) ** -45
