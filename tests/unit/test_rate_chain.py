"""rate_chain: its link against exact Renyi divergences, K against integrals, the whole proof against exact laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import noisymean as nm
from lift_cases import Case, drawn, refuted
from lift_oracle import Moved, gradients_of, tradeoff
from noisymean import rate_chain
from noisymean.laws.coins import fair
from noisymean.planned import Moving
from noisymean.rate_chain import Imitation, RateChained, _lattice_sum, _log_moment, _psi, _Stretch
from noisymean.tradeoff import Side
from noisymean.words import ProofName

DIRECTIONS = (False, True)


def exact_psi(y: float, omega: float, left: float) -> float:
    """Gamma/phi by its definition."""

    def term(k: int) -> float:
        return omega * (y + k * omega) * math.exp(-k * omega * y - 0.5 * (k * omega) ** 2)

    reach = math.ceil(40.0 / omega)
    if y >= left:
        return math.fsum(term(k) for k in range(reach)) - 1.0
    return -math.fsum(term(-k) for k in range(1, reach)) - 1.0


class TestPsi:
    @pytest.mark.parametrize("omega", [0.07, 0.4, 1.3, 3.0])
    def test_lies_between_its_ends(self, omega: float) -> None:
        left, half = -0.5 * omega, 0.02 * omega
        edges = np.union1d(np.linspace(-9.0, 20.0, 200), [left])
        low, high = _psi(edges, left, omega, half)
        generator = np.random.default_rng(3)
        for cell in range(0, edges.size - 1, 3):
            for _ in range(4):
                y = float(generator.uniform(edges[cell], np.nextafter(edges[cell + 1], -np.inf)))
                value = exact_psi(y, omega + float(generator.uniform(-half, half)), left)
                assert low[cell] <= value <= high[cell]

    @pytest.mark.parametrize("omega", [0.3, 1.0, 2.5])
    def test_moves_a_density_as_longer_and_rarer_jumps_do(self, omega: float) -> None:
        """kappa (Gamma(y - w) - Gamma(y)) is d/d log a of (1 - kappa) phi(y) + kappa phi(y - w), but for the lattice."""
        kappa, left, h = 0.3, -0.5 * omega, 1e-5
        for y in np.linspace(-4.0, 5.0, 37).tolist():
            gamma = [exact_psi(z, omega, left) * norm.pdf(z) for z in (y - omega, y)]

            def after(a: float, y: float = y) -> float:
                return float((1.0 - kappa / a) * norm.pdf(y) + kappa / a * norm.pdf(y - a * omega))

            slope = (after(math.exp(h)) - after(math.exp(-h))) / (2.0 * h)
            allowed = kappa * _lattice_sum(omega) if left <= y < left + omega else 0.0
            assert abs(kappa * (gamma[0] - gamma[1]) - slope) <= allowed + 1e-9

    def test_far_away(self) -> None:
        """0 <= psi <= omega y from 1 on, -1 <= psi <= 0 before -1 - omega/2: what the ends of K rest on."""
        for omega in (0.05, 0.5, 2.0, 6.0):
            for y in (1.0, 3.0, 20.0):
                assert exact_psi(y, omega, -0.5 * omega) + 1e-12 >= 0.0
                assert exact_psi(y, omega, -0.5 * omega) <= omega * y + 1e-12
                assert -1.0 - 1e-12 <= exact_psi(-y - 0.5 * omega, omega, -0.5 * omega) <= 1e-12


class TestMoments:
    @pytest.mark.parametrize("kappa", [0.01, 0.3, 0.9])
    def test_of_a_coin(self, kappa: float) -> None:
        x = np.array([-30.0, -3.0, -1e-4, 0.0, 1e-6, 0.5, 4.0, 60.0])
        exact = np.logaddexp(math.log(kappa) + x, math.log1p(-kappa) - x * kappa / (1.0 - kappa))
        assert _log_moment(x, kappa) == pytest.approx(exact, rel=1e-9, abs=1e-15)

    def test_rise_with_kappa(self) -> None:
        """A coin of a larger kappa is a spread of one of a smaller."""
        x = np.linspace(-3.0, 3.0, 61)
        values = np.array([_log_moment(x, kappa) for kappa in np.linspace(0.02, 0.95, 40)])
        assert np.all(np.diff(values, axis=0) >= -1e-12)

    @pytest.mark.parametrize("log_ratio", [0.1, -0.1])
    def test_of_a_stretch(self, log_ratio: float) -> None:
        """No less than the integral at either end of it, and not much more."""
        one = Imitation(8, 0.25, log_ratio, 0.9)
        stretch = _Stretch.of(one, 0.25, 0.5)
        c = np.array([0.4, 1.5, 6.0])
        bound = stretch.log_moment(c)
        for nu in (0.25, 0.375, 0.5):
            a = math.exp((1.0 - nu) * log_ratio)
            kappa, omega = one.rate / a, one.length * a

            def power(y: float, tau: float, kappa: float = kappa, omega: float = omega) -> float:
                moment = _log_moment(np.array([tau * exact_psi(y, omega, -0.5 * omega)]), kappa)[0]
                return math.expm1(8.0 * moment) * float(norm.pdf(y))

            for value, at in zip(bound.tolist(), c.tolist(), strict=True):
                exact = sum(
                    quad(power, *ends, args=(-log_ratio * at,), limit=200)[0]
                    for ends in itertools.pairwise((-9.0, -0.5 * omega, 3.0, 12.0))
                )
                assert math.log1p(exact) <= value <= 1.4 * math.log1p(exact) + 1e-6


def renyi(order: float, first: np.ndarray, second: np.ndarray, step: float) -> float:
    """D_lambda of two densities on a lattice."""
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = order * np.log(first) + (1.0 - order) * np.log(second)
    top = float(np.nanmax(exponent))
    return (top + math.log(float(np.nansum(np.exp(exponent - top))) * step)) / (order - 1.0)


def density(x: np.ndarray, signs: tuple[int, ...], rate: float, length: float) -> np.ndarray:
    found = np.zeros_like(x)
    for coins in itertools.product((0, 1), repeat=len(signs)):
        weight = math.prod(rate if coin else 1.0 - rate for coin in coins)
        found += weight * norm.pdf(x - length * sum(c * s for c, s in zip(coins, signs, strict=True)))
    return found


@pytest.mark.parametrize("number", range(24))
def test_no_divergence_is_above_its_bound(number: int) -> None:
    """On a line, gradients of either sign: exact densities of the arm and of its imitation."""
    generator = np.random.default_rng([7, number])
    count = int(generator.integers(1, 6))
    log_ratio = float(generator.uniform(-0.5, 0.5))
    rate = float(generator.uniform(0.02, 0.95 * min(1.0, math.exp(log_ratio))))
    one = Imitation(count, rate, log_ratio, float(np.exp(generator.uniform(math.log(0.2), math.log(1.6)))))
    assert one.possible
    orders, bounds = one.divergences
    step = 0.01
    for signs in {(1,) * count, tuple(generator.choice((-1, 1), count).tolist())}:
        reach = one.length * count * math.exp(abs(log_ratio)) + 14.0
        x = np.arange(-reach, reach, step)
        natural = density(x, signs, rate, one.length)
        imitation = density(x, signs, one.other_rate, one.length * math.exp(log_ratio))
        for order, bound in list(zip(orders.tolist(), bounds.tolist(), strict=True))[::5]:
            if order < 12.0:
                assert renyi(order, natural, imitation, step) <= bound * (1.0 + 1e-6) + 1e-9


def chained(case: Case, *, backward: bool) -> RateChained:
    curve = RateChained((Moving(case.mechanism, case.steps),))
    return curve.inverse() if backward else curve


@pytest.mark.parametrize("number", range(40))
def test_no_gradients_leak_more(number: int) -> None:
    """Random runs of up to 30 records, whatever moves, five sets of gradients, both directions: tests/lift_oracle.py."""
    case = drawn(number)
    faults = []
    for backward in DIRECTIONS:
        curve = chained(case, backward=backward)
        for delta in (1e-2, 1e-5):
            told = {"mean in the rate": curve.epsilon(delta, Side.ABOVE)}
            if math.isfinite(told["mean in the rate"]):
                faults += list(refuted(case, told, delta, backward=backward))
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_gradients_of_many_more_runs_leak_more(block: int) -> None:
    for number in range(40 + 20 * block, 60 + 20 * block):
        test_no_gradients_leak_more(number)


def easgm(size: int, rate: float, sigma: float, steps: int, dimension: int = 1) -> Case:
    mechanism = nm.EASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    shrink = size / (size + 1)
    names = ("zero", "opposed")
    sets = tuple((name, gradients_of(name, size, dimension, np.random.default_rng(0))) for name in names)
    return Case(0, mechanism, Moved(rate, rate, shrink, shrink, sigma), steps, sets)


@pytest.mark.parametrize("backward", DIRECTIONS)
def test_without_coins_and_link_it_would_be_wrong(backward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above has teeth."""
    case = easgm(30, 0.5, 2.0, 3)
    told = {"whole": chained(case, backward=backward).epsilon(1e-2, Side.ABOVE)}
    assert not list(refuted(case, told, 1e-2, backward=backward))
    monkeypatch.setattr(RateChained, "_first_link", lambda *_: 0.0)
    monkeypatch.setattr(rate_chain, "thinned", lambda *_, **__: fair())
    told = {"half": chained(case, backward=backward).epsilon(1e-2, Side.ABOVE)}
    assert list(refuted(case, told, 1e-2, backward=backward))


def test_is_the_best_proof_somewhere() -> None:
    """20 records, q = 0.3, sigma = 1: better than the lift and all chains, and listed as what the answer rests on."""
    run = nm.EASGM(dataset_size=20, dimension=2, sample_rate=0.3, noise_multiplier=1.0)
    answer = nm.account(run, steps=3, delta=1e-5, pair="larger")
    assert answer.guarantee.proofs == (ProofName.RATE,)


class TestQuestions:
    def test_delta_at_an_epsilon_and_back(self) -> None:
        case = easgm(20, 0.3, 1.0, 3, 2)
        for backward in DIRECTIONS:
            curve = chained(case, backward=backward)
            epsilon = curve.epsilon(1e-5, Side.ABOVE)
            assert curve.log_delta(epsilon, Side.ABOVE) <= math.log(1e-5) + 0.2
            assert curve.at_most(1.01 * epsilon, math.log(1e-5)) is True
            assert curve.at_most(0.5 * epsilon, math.log(1e-5)) is not True

    def test_curve_of_one_round(self) -> None:
        case = easgm(12, 0.3, 1.0, 1)
        alpha = np.linspace(0.0, 1.0, 41)
        lower = chained(case, backward=False).lower(alpha)
        for _, gradients in case.sets:
            assert np.all(lower <= tradeoff(case.moved, gradients, alpha) + 1e-9)

    def test_nothing_to_say_where_rates_leave_their_range(self) -> None:
        case = easgm(2, 0.9, 1.0, 1)
        assert chained(case, backward=True).epsilon(1e-5, Side.ABOVE) == math.inf
        assert chained(case, backward=True).at_most(50.0, math.log(1e-5)) is False
