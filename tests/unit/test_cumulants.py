"""cumulants: every K, its derivatives and its remainder along a line, against mpmath's quadrature of the definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpc, mpf

import many_rounds_oracles as reference
import noisymean as nm
from noisymean.cumulants import Cumulants, Line, SlowDecay, Sum
from noisymean.laws.finite import Outcomes
from noisymean.laws.gaussian import GaussianPairCumulants
from noisymean.laws.size_revealed import SizeRevealed, size_revealed
from noisymean.leakage import explicit_pairs
from rounds_of import pair_rounds, sgm_cumulants

Moment = Callable[[object], mpf]
# beyond this many widths a bell has fallen below 1e-25
REACH = mpf("10.8")


@pytest.fixture(autouse=True)
def twenty_six_digits(fifty_digits: None) -> object:
    with mp.workdps(26):
        yield


def log_normal(x: mpf, mean: object = 0, scale: object = 1) -> mpf:
    return -(((x - mean) / scale) ** 2) / 2 - mpmath.log(scale) - mpmath.log(2 * mp.pi) / 2


@dataclass(frozen=True)
class Case:
    """A class under test, exp(K(theta)) by the definition, and tilts inside its domain."""

    name: str
    cumulants: Cumulants
    mgf: Moment
    tilts: tuple[float, ...]


def sgm_case(rate: float, sigma: float, *tilts: float) -> Case:
    q, m = mpf(rate), 1 / mpf(sigma)

    def log_q(x: mpf) -> mpf:
        return log_normal(x) + mpmath.log(1 - q + q * mpmath.exp(m * x - m * m / 2))

    def mgf(theta: object) -> mpf:
        # p^(1-theta) q^theta has its mass around 0 and around theta m
        return reference.mp_tilted(log_normal, log_q, theta, -REACH, REACH + max(mpmath.re(theta), 1) * m, slope=m)

    return Case(f"sgm-q={rate}-sigma={sigma}", sgm_cumulants(rate, sigma), mgf, tilts)


def pair_mgf(dimension: int, shift: object, scale: object) -> Moment:
    """N(0, I_n) against N(m, s^2 I_n): one dimension by quadrature with the shift, the others without, to their power."""
    mu, s = mpf(shift), mpf(scale)

    def mgf(theta: object) -> mpf:
        precision = 1 + (1 / s**2 - 1) * mpmath.re(theta)
        centre, width = mpmath.re(theta) * mu / s**2 / precision, 1 / mpmath.sqrt(precision)

        def one(mean: mpf) -> mpf:
            middle = centre if mean else mpf(0)
            low, high = middle - REACH * width, middle + REACH * width
            return reference.mp_tilted(log_normal, lambda x: log_normal(x, mean, s), theta, low, high, width=width)

        return one(mu) * (one(mpf(0)) ** (dimension - 1) if dimension > 1 else 1)

    return mgf


def mixed(parts: Sequence[tuple[float, Moment]]) -> Moment:
    return lambda theta: sum(mpf(weight) * part(theta) for weight, part in parts)


def gaussian_case(dimension: int, weights: list[float], shifts: list[float], step: int, *tilts: float) -> Case:
    scale = mpf(step) / (step + 1)
    cumulants = GaussianPairCumulants(
        float(dimension), np.array(weights), np.array(shifts), float(-np.log1p(1.0 / step))
    )
    mgf = mixed([(w, pair_mgf(dimension, m, scale)) for w, m in zip(weights, shifts, strict=True)])
    return Case(f"pair-n={dimension}-step={step}-{len(weights)}", cumulants, mgf, tilts)


def zero_pair_case(count: int, dimension: int, rate: float, sigma: float, *tilts: float) -> Case:
    """EASGM, D all-zero: a mixture along u, a change of scale across."""
    mechanism = nm.EASGM(dataset_size=count, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    [(_, loss)] = pair_rounds(explicit_pairs(mechanism)[0], 1).parts
    assert loss.cumulants is not None
    q, s, m = mpf(rate), mpf(count) / (count + 1), mpf(count) / (count + 1) / mpf(sigma)

    def log_q(x: mpf) -> mpf:
        return mpmath.log((1 - q) * mpmath.exp(log_normal(x, 0, s)) + q * mpmath.exp(log_normal(x, m, s)))

    def mgf(theta: object) -> mpf:
        precision = 1 + (1 / s**2 - 1) * mpmath.re(theta)
        width, moved = 1 / mpmath.sqrt(precision), mpmath.re(theta) * m / s**2 / precision
        low, high = min(moved, 0) - REACH * width, max(moved, m) + REACH * width
        along = reference.mp_tilted(log_normal, log_q, theta, low, high, width=min(width, 1), slope=m)
        return along * (pair_mgf(1, 0, s)(theta) ** (dimension - 1) if dimension > 1 else 1)

    return Case(f"zero-pair-N={count}-n={dimension}", loss.cumulants, mgf, tilts)


def size_case(count: int, rate: float, sigma: float, *tilts: float) -> Case:
    """The batch size revealed: sum over k of w_k times an integral over x, from the module's definition of P and Q."""
    curve = size_revealed(count, rate, sigma)
    assert isinstance(curve, SizeRevealed)
    q, m = mpf(rate), 2 / mpf(sigma)

    def mgf(theta: object) -> mpf:
        total = mpf(0)
        for k in range(count + 1):
            weight = mpmath.binomial(count, k) * q**k * (1 - q) ** (count - k)
            # Q's share of size k with the new record in, against P's
            joined = q * mpmath.binomial(count, k - 1) * q ** (k - 1) * (1 - q) ** (count - k + 1) if k else mpf(0)
            odds = joined / weight

            def log_q(x: mpf, odds: mpf = odds) -> mpf:
                return log_normal(x) + mpmath.log(1 - q + odds * mpmath.exp(m * x - m * m / 2))

            high = REACH + max(mpmath.re(theta), 1) * m
            total += weight * reference.mp_tilted(log_normal, log_q, theta, -REACH, high, slope=m)
        return total

    return Case(f"size-N={count}-q={rate}", curve.cumulants, mgf, tilts)


def outcomes_case(*tilts: float) -> Case:
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.4, 0.3, 0.1, 0.2])

    def mgf(theta: object) -> mpf:
        return sum(
            mpf(a) * mpmath.exp(mpmath.mpmathify(theta) * (mpmath.log(mpf(b)) - mpmath.log(mpf(a))))
            for a, b in zip(p.tolist(), q.tolist(), strict=True)
        )

    return Case("outcomes", Outcomes(np.log(q / p), p), mgf, tilts)


with mp.workdps(30):
    CASES = [
        sgm_case(0.01, 1.0, -30.0, -0.5, 2.0, 20.0),
        sgm_case(0.5, 0.5, -3.0, 0.5, 7.0),
        sgm_case(0.9, 2.0, -8.0, 0.5, 5.0, 20.0),
        sgm_case(1e-4, 0.3, -20.0, 3.0),
        sgm_case(1.0, 0.7, -2.0, 0.4, 3.0),
        gaussian_case(1, [1.0], [0.7], 4, -0.9, 0.4, 2.0, 30.0),
        gaussian_case(50, [1.0], [0.0], 20, -4.0, 0.4, 6.0),
        gaussian_case(50, [1.0], [0.0], 10**6, -300.0, 0.5, 1000.0),
        gaussian_case(7, [0.3, 0.7], [0.1, 1.4], 9, -2.0, 0.4, 5.0),
        zero_pair_case(5, 1, 0.3, 1.5, -1.0, 4.0),
        zero_pair_case(5, 9, 0.3, 1.5, -1.0, 0.4, 4.0),
        zero_pair_case(60_000, 40, 0.01, 1.0, -20.0, 0.4, 9.0),
        size_case(3, 0.3, 1.5, -4.0, 3.0),
        size_case(2, 0.8, 3.0, 0.5),
        outcomes_case(-4.0, 0.3, 2.0, 50.0),
    ]
POINTS = [pytest.param(case, tilt, id=f"{case.name}-theta={tilt:g}") for case in CASES for tilt in case.tilts]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_masses_are_what_k_says_at_zero_and_one(case: Case) -> None:
    """P's mass is e^K(0) and Q's e^K(1), where K is the logarithm of the integral of the definition."""
    for theta, stated in zip((0, 1), case.cumulants.log_masses, strict=True):
        assert stated == pytest.approx(float(mpmath.log(case.mgf(theta))), abs=2e-12)
        assert stated == pytest.approx(float(case.cumulants.moments(np.array([float(theta)])).value[0]), abs=2e-12)


def test_masses_of_several_rounds_add_up() -> None:
    """Q's finite losses of ASGM with its size revealed have 1 - q^(N+1) of its mass, in every round."""
    one = size_revealed(2, 0.99, 2.0).cumulants
    assert one.log_masses[1] == pytest.approx(math.log1p(-(0.99**3)), rel=1e-12)
    measures = Outcomes(np.array([0.2, -0.1]), np.array([0.3, 0.6]))
    both = Sum(((10, one), (2, measures)))
    expected = 10 * one.log_masses[1] + 2 * math.log(0.3 * math.exp(0.2) + 0.6 * math.exp(-0.1))
    assert both.log_masses == pytest.approx((2 * math.log(0.9), expected), rel=1e-12)


@pytest.mark.parametrize(("case", "tilt"), POINTS)
def test_k_and_its_derivatives(case: Case, tilt: float) -> None:
    computed = case.cumulants.moments(np.array([tilt]))
    # small against the tilt over which K bends
    middle, h = mpf(tilt), mpf(min(0.01 / np.sqrt(float(computed.variance[0])), 2.0**-9 * max(abs(tilt), 1.0)))
    left, exact, right = (mpmath.log(case.mgf(theta)) for theta in (middle - h, middle, middle + h))
    farther = [mpmath.log(case.mgf(middle + d * h)) for d in (-2, 2)]
    # central differences of fourth order
    slope = (8 * (right - left) - (farther[1] - farther[0])) / (12 * h)
    bend = (16 * (right + left) - (farther[1] + farther[0]) - 30 * exact) / (12 * h * h)
    assert float(computed.value[0]) == pytest.approx(float(exact), rel=2e-12, abs=2e-15)
    assert float(computed.mean[0]) == pytest.approx(float(slope), rel=1e-7, abs=1e-7 * np.sqrt(float(bend)))
    assert float(computed.variance[0]) == pytest.approx(float(bend), rel=1e-6)


@pytest.mark.thin(3)
@pytest.mark.parametrize(("case", "tilt"), POINTS)
def test_the_remainder_along_a_line(case: Case, tilt: float) -> None:
    theta = np.array([tilt])
    moments = case.cumulants.moments(theta)
    line = Line(np.minimum(0.2 / np.sqrt(moments.variance), 20.0), 0, 2)
    computed = case.cumulants.remainder(theta, line)[:, 0]
    at_theta = case.mgf(mpf(tilt))
    for tau, value in zip(line.tau[:, 0].tolist(), computed.tolist(), strict=True):
        # the characteristic function of the centred tilted loss: branches of the logarithm play no part
        shift = mpmath.expj(-mpf(tau) * mpf(float(moments.mean[0])))
        exact = case.mgf(mpc(tilt, tau)) / at_theta * shift
        assert abs(mpmath.exp(mpc(value)) - exact) < 1e-10 * max(1.0, abs(tau * float(moments.mean[0])))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_small_remainders_keep_their_digits(case: Case) -> None:
    """-tau^2 K''/2 to six digits where the naive difference has none: a million rounds multiply it."""
    theta = np.array([case.tilts[len(case.tilts) // 2]])
    variance = float(case.cumulants.moments(theta).variance[0])
    line = Line(np.array([1e-6 / np.sqrt(variance)]), 0, 2)
    computed = case.cumulants.remainder(theta, line)[:, 0]
    np.testing.assert_allclose(computed.real, -0.5 * variance * line.tau[:, 0] ** 2, rtol=1e-5)
    # the third cumulant: an odd function of tau, much smaller
    assert np.all(np.abs(computed.imag) < 1e-4 * np.abs(computed.real))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_both_laws_have_mass_one(case: Case) -> None:
    """K(0) = 0 always; K(1) = log of Q's mass where P has any: 0, but for the size that only D' can have."""
    value = case.cumulants.moments(np.array([0.0, 1.0])).value
    full = float(mpmath.log(case.mgf(mpf(1))))
    np.testing.assert_allclose(value, [0.0, full if case.name.startswith("size") else 0.0], rtol=1e-12, atol=3e-15)


def test_size_revealed_lacks_the_full_batch_only() -> None:
    curve = size_revealed(3, 0.8, 3.0)
    assert isinstance(curve, SizeRevealed)
    value = curve.cumulants.moments(np.array([1.0])).value
    assert float(value[0]) == pytest.approx(np.log1p(-(0.8**4)), rel=1e-12)


@pytest.mark.parametrize("sigma", [30.0, 1.0, 0.1, 0.05, 0.03, 0.01])
@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.999])
def test_sgm_with_any_noise(rate: float, sigma: float) -> None:
    """Between the far bumps of little noise the densities underflow; K must not notice."""
    value = sgm_cumulants(rate, sigma).moments(np.array([0.0, 1.0, 2.0])).value
    # K(2) = log(1 + q^2 (e^(1/sigma^2) - 1)), the textbook chi-square divergence
    two = mpmath.log(1 + mpf(rate) ** 2 * mpmath.expm1(1 / mpf(sigma) ** 2))
    np.testing.assert_allclose(value[:2], 0.0, atol=2e-12)
    assert float(value[2]) == pytest.approx(float(two), rel=1e-11, abs=2e-12)


@pytest.mark.parametrize("theta", [-300.0, -30.0, -3.0, 3.0, 12.0, 30.0, 100.0])
def test_sgm_at_far_tilts(theta: float) -> None:
    """Whole tilts have a finite sum: E_P[(1-q+q e^y)^j] = sum of binomials, sum (j over i) (1-q)^(j-i) q^i e^(i(i-1)/(2 sigma^2))."""
    rate, sigma = 0.5, 0.5
    computed = float(sgm_cumulants(rate, sigma).moments(np.array([theta])).value[0])
    if theta > 0:
        j = int(theta)
        exact = mpmath.log(
            sum(
                mpmath.binomial(j, i)
                * mpf(1 - rate) ** (j - i)
                * mpf(rate) ** i
                * mpmath.exp(mpf(i * (i - 1)) / (2 * mpf(sigma) ** 2))
                for i in range(j + 1)
            )
        )
    else:
        q, m = mpf(rate), 1 / mpf(sigma)

        def log_q(x: mpf) -> mpf:
            return log_normal(x) + mpmath.log(1 - q + q * mpmath.exp(m * x - m * m / 2))

        # the bell narrows like 1/sqrt(|theta|), and (1-q+q e^y)^theta is steep where both terms count
        exact = mpmath.log(reference.mp_tilted(log_normal, log_q, theta, mpf(-22), mpf(8), width=mpf(1) / 8))
    # a hundred rounds of it move a tail by less than one part in 10^8
    assert computed == pytest.approx(float(exact), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("dimension", [1.0, 1e6, 1e12])
@pytest.mark.parametrize("step", [1, 700, 10**6, 10**9])
def test_pairs_of_any_size(dimension: float, step: int) -> None:
    """The closed form in 50 digits: nothing cancels at n = 10^12, nor as s -> 1."""
    mp.dps = 50
    cumulants = GaussianPairCumulants(dimension, np.ones(1), np.array([0.3]), float(-np.log1p(1.0 / step)))
    c, s2 = 2 / mpf(step) + 1 / mpf(step) ** 2, (mpf(step) / (step + 1)) ** 2
    for theta in (-0.3, 0.5, 2.0, 40.0):
        t, big = mpf(theta), 1 + c * mpf(theta)
        scale, shift = mpf(dimension) / 2 * (t * mpmath.log(1 + c) - mpmath.log(big)), mpf(0.3) ** 2 * t * (1 - t)
        exact = scale - shift / (2 * s2 * big)
        value = float(cumulants.moments(np.array([theta])).value[0])
        assert value == pytest.approx(float(exact), rel=3e-13)
    assert np.array_equal(cumulants.moments(np.array([0.0])).value, [0.0])
    assert float(cumulants.moments(np.array([1.0])).value[0]) == pytest.approx(0.0, abs=1e-15 * dimension)


def test_domains() -> None:
    narrower = GaussianPairCumulants(3.0, np.ones(1), np.zeros(1), -0.5)
    wider = GaussianPairCumulants(3.0, np.ones(1), np.zeros(1), 0.25)
    assert narrower.domain == (pytest.approx(-1.0 / np.expm1(1.0)), np.inf)
    assert wider.domain == (-np.inf, pytest.approx(-1.0 / np.expm1(-0.5)))
    assert GaussianPairCumulants(3.0, np.ones(1), np.ones(1), 0.0).domain == (-np.inf, np.inf)
    assert Sum(((2, narrower), (5, wider))).domain == (narrower.domain[0], wider.domain[1])
    # K grows without bound towards the end of its domain
    near = narrower.domain[0] * (1.0 - np.array([1e-3, 1e-6, 1e-9]))
    assert np.all(np.diff(narrower.moments(near).value) > 5.0)


SEVERAL = [CASES[0].cumulants, CASES[8].cumulants, CASES[10].cumulants, CASES[-1].cumulants]


@pytest.mark.parametrize("part", SEVERAL, ids=lambda p: type(p).__name__)
def test_counts_add_up(part: Cumulants) -> None:
    theta, line = np.array([0.4, 1.7]), Line(np.array([0.05, 0.1]), 2, 5)
    single = Sum(((6, part),))
    for other in (Sum(((2, part), (4, part))), Sum(((3, Sum(((2, part),))),)), Sum(((1, part),) * 6)):
        for a, b in zip(single.moments(theta), other.moments(theta), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
        np.testing.assert_allclose(single.remainder(theta, line), other.remainder(theta, line), rtol=1e-12)
    np.testing.assert_allclose(single.moments(theta).value, 6.0 * part.moments(theta).value, rtol=1e-14)


def test_order_of_different_rounds_does_not_matter() -> None:
    theta, line = np.array([0.4, 1.2]), Line(np.array([0.05, 0.1]), 0, 4)
    parts = [(2, SEVERAL[0]), (3, SEVERAL[1]), (5, SEVERAL[3])]
    first = Sum(tuple(parts))
    for order in reference.in_every_order(parts):
        again = Sum(order)  # type: ignore[arg-type]
        np.testing.assert_allclose(first.moments(theta).variance, again.moments(theta).variance, rtol=1e-13)
        np.testing.assert_allclose(first.remainder(theta, line), again.remainder(theta, line), rtol=1e-12)


def test_a_line_may_be_taken_in_pieces() -> None:
    """Outcomes advance from node to node by a recurrence; a later start must agree with it."""
    for part in SEVERAL:
        theta, step = np.array([0.6]), np.array([0.07])
        whole = part.remainder(theta, Line(step, 0, 40))
        pieces = [part.remainder(theta, Line(step, first, 10)) for first in (0, 10, 20, 30)]
        np.testing.assert_allclose(whole, np.concatenate(pieces), rtol=1e-10, atol=1e-14)


def test_a_line_without_an_end_is_slow() -> None:
    """Found by a thousand random runs: far out the step of a line overflows, which was an error of its own."""
    with pytest.raises(SlowDecay):
        sgm_cumulants(0.01, 1.0).remainder(np.array([-1.0]), Line(np.array([math.inf]), 0, 8))
