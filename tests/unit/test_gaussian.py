"""gaussian: pairs of normal laws against 50 digits, from one dimension to 10^12."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import oracles
from noisymean.errors import InvalidInput
from noisymean.laws.closed import Gaussian, Identity
from noisymean.laws.gaussian import GaussianPairs, gaussian_pair
from noisymean.tradeoff import TradeOff

# (dimension, shift, log scale): s = K/(K+1) for K = 1, 2, 4, 999, 59999 and scales above 1, every pairing that is not trivial
PAIRS = [
    (1, 0.0, "1/2"),
    (1, 0.1, "1/2"),
    (1, 2.0, "4/5"),
    (2, 0.0, "1/2"),
    (2, 3.0, "1/2"),
    (3, 0.7, "2/3"),
    (3, 0.7, "3/2"),
    (20, 0.8, "4/5"),
    (20, 0.8, "5/4"),
    (100, 1e-3, "4/5"),
    (1_000, 2.0, "999/1000"),
    (10_000, 0.0, "99/100"),
    (100_000, 0.5, "999/1000"),
    (100_000, 5.0, "1000/999"),
    (100_000, 1e-6, "999/1000"),
]
LARGE = [
    (1_485_217, 0.1, "59999/60000", 1e-8),
    (1_485_217, 0.0, "299/300", 1e-8),
    (10**9, 1.0, "99999/100000", 1e-6),
    (10**12, 0.0, "999999/1000000", 1e-6),
    (10**12, 1.0, "1000000/1000001", 1e-6),
    (10**12, 2.0, "1000000000/1000000001", 1e-6),
    (10, 1.0, "1000000000/1000000001", 1e-6),
]
DEVIATIONS = (-3.0, -1.0, -0.2, 0.4, 1.5, 3.0)


def scale_of(text: str) -> mpf:
    top, bottom = text.split("/")
    return mpf(top) / mpf(bottom)


def pair_and_points(dimension: int, shift: float, text: str) -> tuple[TradeOff, list[oracles.Point]]:
    """The package's pair at the double nearest to log s, and exact points for that very double."""
    log_scale = float(mpmath.log(scale_of(text)))
    with mp.workdps(90):
        scale = mpmath.exp(mpf(log_scale))
        c = 1 / scale**2 - 1
        mean = -(dimension * (c - mpmath.log(1 + c)) + mpf(shift) ** 2 / scale**2) / 2
        spread = mpmath.sqrt(dimension * c**2 / 2 + mpf(shift) ** 2 / scale**4)
        top = mpf(shift) ** 2 / (2 * (1 - scale**2)) - dimension * mpmath.log(scale)
        thresholds = [float(mean + z * spread) for z in DEVIATIONS]
        thresholds = [t for t in thresholds if (t < top if scale < 1 else t > top)]
        part = [oracles.Component(mpf(1), mpf(shift), scale)]
        return gaussian_pair(dimension, shift, log_scale=log_scale), [
            oracles.mixture_point(dimension, part, t) for t in thresholds
        ]


def worst_error(curve: TradeOff, points: list[oracles.Point]) -> float:
    return max(abs(float(mpf(float(curve(a))) - b)) for a, b in map(oracles.at_float, points))


@pytest.mark.parametrize(("dimension", "shift", "scale"), PAIRS)
def test_to_1e_10_up_to_a_hundred_thousand_dimensions(dimension: int, shift: float, scale: str) -> None:
    curve, points = pair_and_points(dimension, shift, scale)
    assert len(points) >= 3
    assert worst_error(curve, points) <= 1e-10


@pytest.mark.parametrize(("dimension", "shift", "scale", "allowed"), LARGE)
def test_larger(dimension: int, shift: float, scale: str, allowed: float) -> None:
    curve, points = pair_and_points(dimension, shift, scale)
    assert len(points) >= 5
    assert worst_error(curve, points) <= allowed


@pytest.mark.parametrize(("dimension", "shift", "scale"), PAIRS + [case[:3] for case in LARGE])
def test_sides_enclose_the_truth(dimension: int, shift: float, scale: str) -> None:
    curve, points = pair_and_points(dimension, shift, scale)
    for alpha, beta in map(oracles.at_float, points):
        assert mpf(float(curve.lower(alpha))) <= beta <= mpf(float(curve.upper(alpha)))


@pytest.mark.thin(3)
@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
@pytest.mark.parametrize("alpha", [1e-12, 1e-9, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("step", [1, 2, 9])
def test_few_dimensions_at_small_alpha(dimension: int, alpha: float, step: int) -> None:
    """Without a shift: alpha -> r by inverting P[chi^2_n <= r], beta = P[chi^2_n > r/s^2], 50 digits, no threshold t at all."""
    log_scale = float(mpmath.log(mpf(step) / (step + 1)))
    half = mpf(dimension) / 2

    def below(r: mpf) -> mpf:
        return mpmath.gammainc(half, 0, r / 2, regularized=True)

    # bracket in log r, where the distribution function is nearly a straight line
    guess = 2 * (mpf(alpha) * mpmath.gamma(half + 1)) ** (1 / half)
    root = mpmath.exp(
        mpmath.findroot(lambda e: mpmath.log(below(mpmath.exp(e))) - mpmath.log(mpf(alpha)), mpmath.log(guess))
    )
    beta = mpmath.gammainc(half, root / (2 * mpmath.exp(2 * mpf(log_scale))), mp.inf, regularized=True)
    curve = gaussian_pair(dimension, 0.0, log_scale=log_scale)
    assert abs(mpf(float(curve(alpha))) - beta) <= 1e-10
    assert mpf(float(curve.lower(alpha))) <= beta <= mpf(float(curve.upper(alpha)))


@pytest.mark.parametrize(
    ("dimension", "shift", "log_scale"), [(10**12, 1.0, -1e-6), (10**12, 0.0, -2e-6), (10**6, 1e-6, -1e-9)]
)
def test_extremes_are_finite_monotone_and_convex(dimension: int, shift: float, log_scale: float) -> None:
    alpha = np.linspace(0.0, 1.0, 401)
    values = gaussian_pair(dimension, shift, log_scale=log_scale)(alpha)
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 0.0).all()
    assert (np.diff(values, 2) >= -1e-13).all()
    assert (values <= 1.0 - alpha + 1e-13).all()


@pytest.mark.parametrize("power", [2, 7, 1000])
def test_power_is_a_longer_vector(power: int) -> None:
    # P^n: n and mu^2 both times the power, exactly
    alpha = np.linspace(0.01, 0.99, 21)
    single = gaussian_pair(3, 0.05, log_scale=-0.01)
    assert isinstance(single, GaussianPairs)
    longer = gaussian_pair(3 * power, 0.05 * np.sqrt(power), log_scale=-0.01)
    np.testing.assert_allclose(single.power(power)(alpha), longer(alpha), rtol=1e-12)


def test_scale_one_is_a_gaussian(alphas: np.ndarray) -> None:
    np.testing.assert_allclose(gaussian_pair(7, 0.9, 1.0)(alphas), Gaussian(0.9)(alphas), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(gaussian_pair(7, 0.0, 1.0)(alphas), 1.0 - alphas, atol=1e-13)


def test_scale_close_to_one_approaches_it() -> None:
    alpha = np.linspace(0.01, 0.99, 25)
    near = gaussian_pair(5, 0.9, log_scale=-1e-12)(alpha)
    np.testing.assert_allclose(near, Gaussian(0.9)(alpha), atol=1e-10)


@pytest.mark.parametrize("log_scale", [1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_either_side_of_one(log_scale: float, shift: float) -> None:
    # to first order in log s a pair and its mirror image differ by nothing but the direction
    alpha = np.array([0.1, 0.25, 0.5])
    wider, narrower = (gaussian_pair(20, shift, log_scale=sign * log_scale) for sign in (1.0, -1.0))
    np.testing.assert_allclose(wider(alpha), narrower.inverse()(alpha), rtol=0.0, atol=10.0 * log_scale)


def test_no_dimension_is_the_identity() -> None:
    assert isinstance(gaussian_pair(0, 0.0, 0.5), Identity)


def test_swapping_the_two_laws() -> None:
    # x -> (m - x)/s turns (N(0, I), N(m, s^2 I)) into (N(m/s, I/s^2), N(0, I))
    alpha = np.linspace(0.01, 0.99, 25)
    forward = gaussian_pair(30, 0.6, 0.8)
    backward = gaussian_pair(30, 0.6 / 0.8, 1.0 / 0.8)
    np.testing.assert_allclose(forward.inverse()(alpha), backward(alpha), rtol=1e-9, atol=1e-13)


def test_mixture_of_several_scales() -> None:
    parts = [(0.2, 0.5, 0.5), (0.5, 1.0, 0.9), (0.3, 0.0, 1.0)]
    weights, shifts, scales = (np.array(column) for column in zip(*parts, strict=True))
    curve = GaussianPairs(12, weights, shifts, np.log(scales))
    exact_parts = [oracles.Component(mpf(w), mpf(m), mpmath.exp(mpf(float(np.log(s))))) for w, m, s in parts]
    for t in (-2.0, -0.4, 0.2, 1.5):
        alpha, beta = oracles.at_float(oracles.mixture_point(12, exact_parts, t))
        assert abs(mpf(float(curve(alpha))) - beta) < 1e-12


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dimension": -1, "shift": 0.0, "scale": 0.5}, "dimension=-1"),
        ({"dimension": 3, "shift": -0.1, "scale": 0.5}, "shift=-0.1"),
        ({"dimension": 3, "shift": 0.0, "scale": 0.0}, "scale=0"),
        ({"dimension": 3, "shift": float("nan"), "scale": 0.5}, "shift=nan"),
        ({"dimension": 3, "shift": 0.0}, "scale="),
    ],
)
def test_bad_values(arguments: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        gaussian_pair(**arguments)  # type: ignore[arg-type]


def test_only_a_single_pair_has_a_closed_power() -> None:
    two = GaussianPairs(3, np.array([0.5, 0.5]), np.zeros(2), np.array([-0.1, -0.2]))
    assert two.power(2) is None
