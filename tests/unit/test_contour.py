"""contour: the contour integral against closed forms down to 1e-200, Fourier inversion, and brute force."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import many_rounds_oracles as reference
import oracles
from noisymean.compose.contour import COMPOSED_ERROR, Composed, saddle_point
from noisymean.cumulants import Cumulants, SlowDecay, Sum
from noisymean.laws.closed import Gaussian
from noisymean.laws.finite import Outcomes
from noisymean.laws.gaussian import GaussianPairCumulants, gaussian_pair
from noisymean.tradeoff import Side, TradeOff
from rounds_of import sgm_cumulants


def shifted(mu: float) -> Cumulants:
    return GaussianPairCumulants(1.0, np.ones(1), np.array([mu]), 0.0)


def scaled(dimension: float, shift: float, log_scale: float) -> Cumulants:
    return GaussianPairCumulants(dimension, np.ones(1), np.array([shift]), log_scale)


def assert_same_tails(computed: TradeOff, exact: TradeOff, t: np.ndarray, rtol: float = 1e-9) -> None:
    """All four tails to a relative error, as far down as 1e-200."""
    for name, a, b in zip(("P>", "P<=", "Q>", "Q<="), computed.tails(t), exact.tails(t), strict=True):
        seen = b > -460.0
        np.testing.assert_allclose(np.expm1(a[seen] - b[seen]), 0.0, atol=rtol, err_msg=name)
        assert np.all(a[~seen] < -459.0), name


class TestGaussian:
    @pytest.mark.parametrize(("mu", "rounds"), [(1.0, 1), (0.3, 9), (0.01, 10_000), (1e-3, 10**9), (2.0, 50)])
    def test_is_the_gaussian_of_mu_root_t(self, mu: float, rounds: int) -> None:
        exact = Gaussian(mu).power(rounds)
        # out to thirty deviations: tails of 1e-200
        t = exact.mu * np.array([-29.0, -12.0, -4.0, -1.0, -0.1, 0.0, 0.3, 1.0, 5.0, 14.0, 29.0])
        assert_same_tails(Composed(Sum(((rounds, shifted(mu)),))), exact, t)

    def test_far_tails_in_fifty_digits(self) -> None:
        composed = Composed(Sum(((100, shifted(0.1)),)))
        for t in (-25.0, -9.0, 3.0, 12.0, 28.0):
            tails = composed.tails(np.array([t]))
            exact = (oracles.normal_cdf(-mpf(t) - mpf("0.5")), oracles.normal_cdf(mpf("0.5") - mpf(t)))
            for log_tail, value in zip((tails.p_above, tails.q_above), exact, strict=True):
                error = mpmath.expm1(mpf(float(log_tail[0])) - mpmath.log(value))
                assert abs(error) < 1e-9

    @pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-100, 1e-200])
    def test_epsilon(self, delta: float) -> None:
        exact, composed = Gaussian(0.9), Composed(Sum(((9, shifted(0.3)),)))
        assert composed.epsilon(delta) == pytest.approx(exact.epsilon(delta), rel=1e-9)
        assert composed.epsilon(delta, Side.BELOW) <= exact.epsilon(delta) <= composed.epsilon(delta, Side.ABOVE)


PAIRS = [(1, 0.7, 4, 60), (3, 0.0, 9, 7), (26_010, 0.02, 60_000, 3_516), (10**9, 1.0, 10**6, 3_000), (50, 3.0, 2, 30)]


class TestGaussianPair:
    @pytest.mark.parametrize(("dimension", "shift", "step", "rounds"), PAIRS)
    def test_is_one_round_of_a_larger_pair(self, dimension: int, shift: float, step: int, rounds: int) -> None:
        for sign in (-1.0, 1.0):
            log_scale = sign * float(np.log1p(1.0 / step))
            exact = gaussian_pair(dimension * rounds, shift * np.sqrt(rounds), log_scale=log_scale)
            moments = scaled(dimension, shift, log_scale).moments(np.array([0.0, 1.0]))
            low, high = rounds * moments.mean
            spread = np.sqrt(rounds * moments.variance.max())
            t = np.concatenate(
                [low + spread * np.array([-8.0, -2.0, 0.0, 1.0]), high + spread * np.array([0.0, 1.0, 3.0])]
            )
            assert_same_tails(Composed(Sum(((rounds, scaled(dimension, shift, log_scale)),))), exact, t)

    def test_tails_of_1e_200(self) -> None:
        exact = gaussian_pair(20 * 300, 0.1 * np.sqrt(300.0), log_scale=float(-np.log1p(1.0 / 50)))
        composed = Composed(Sum(((300, scaled(20.0, 0.1, float(-np.log1p(1.0 / 50)))),)))
        t = np.linspace(-90.0, 70.0, 24)
        assert min(float(side.min()) for side in exact.tails(t)) < -400.0
        assert_same_tails(composed, exact, t)

    def test_against_fifty_digits(self) -> None:
        # one point of a run: n = 40, K = 30, T = 25, so 1000 degrees of freedom
        composed = Composed(Sum(((25, scaled(40.0, 0.2, float(-np.log1p(1.0 / 30)))),)))
        for t in (-3.0, 0.5, 4.0):
            alpha, beta = oracles.pair_errors(1000, mpf(0.2) * 5, mpf(30) / 31, t)
            tails = composed.tails(np.array([t]))
            assert abs(mpmath.exp(mpf(float(tails.p_above[0]))) / alpha - 1) < 1e-9
            assert abs(mpmath.exp(mpf(float(tails.q_below[0]))) / beta - 1) < 1e-9

    @pytest.mark.parametrize(("dimension", "shift", "step", "rounds"), PAIRS[1:])
    def test_epsilon_both_ways(self, dimension: int, shift: float, step: int, rounds: int) -> None:
        log_scale = -float(np.log1p(1.0 / step))
        exact = gaussian_pair(dimension * rounds, shift * np.sqrt(rounds), log_scale=log_scale)
        composed = Composed(Sum(((rounds, scaled(dimension, shift, log_scale)),)))
        for delta in (1e-3, 1e-9):
            assert composed.epsilon(delta) == pytest.approx(exact.epsilon(delta), rel=1e-8)
            assert composed.inverse().epsilon(delta) == pytest.approx(exact.inverse().epsilon(delta), rel=1e-8)


SUBSAMPLED = [
    (0.01, 1.0, 1_000, (0.5, 1.8, 4.0)),
    (0.005, 10.0, 200, (0.005, 0.02, 0.04)),
    (0.01, 0.8, 10_000, (2.0, 10.0, 14.0)),
    (0.5, 0.5, 300, (100.0, 300.0)),
    (0.9, 2.0, 40, (0.5, 5.0, 12.0)),
    (0.2, 5.0, 60, (0.1, 1.0, 2.0)),
]


class TestSubsampledGaussian:
    @pytest.mark.parametrize(("rate", "sigma", "rounds", "epsilons"), SUBSAMPLED)
    @pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
    def test_delta_by_fourier_inversion(
        self, rate: float, sigma: float, rounds: int, epsilons: tuple[float, ...], reverse: bool
    ) -> None:
        curve: TradeOff = Composed(Sum(((rounds, sgm_cumulants(rate, sigma)),)))
        curve = curve.inverse() if reverse else curve
        line = reference.subsampled_gaussian(rate, sigma)
        for epsilon in epsilons:
            exact = reference.delta([(rounds, line)], epsilon, reverse=reverse)
            assert float(curve.delta(epsilon)) == pytest.approx(exact, rel=3e-8)
            low, high = (float(curve.delta(epsilon, side)) for side in (Side.BELOW, Side.ABOVE))
            assert low * (1.0 - 1e-10) <= exact <= high * (1.0 + 1e-10)

    def test_different_rounds_by_fourier_inversion(self) -> None:
        parts = [(300, 0.01, 1.0), (50, 0.05, 2.0), (20, 0.3, 4.0)]
        curve = Composed(Sum(tuple((count, sgm_cumulants(rate, sigma)) for count, rate, sigma in parts)))
        # one grid for all of them
        lines = [(count, reference.subsampled_gaussian(rate, sigma)) for count, rate, sigma in parts]
        for epsilon in (0.5, 2.0):
            for direction, reverse in ((curve, False), (curve.inverse(), True)):
                exact = reference.delta(lines, epsilon, reverse=reverse)
                assert float(direction.delta(epsilon)) == pytest.approx(exact, rel=3e-8)


class TestOutcomes:
    def test_rounds_of_a_small_loss_by_brute_force(self) -> None:
        """Losses without a common step, so that the sum of ten has thousands of values and the integral decays."""
        generator = np.random.default_rng(7)
        p, q = generator.dirichlet(np.ones(40)), generator.dirichlet(np.ones(40))
        composed = Composed(Sum(((3, Outcomes(np.log(q / p), p)),)))
        p_all, q_all = reference.all_outcomes([(3, p, q)])
        for epsilon in (0.0, 1.0, 3.0):
            exact = reference.hockey_stick(p_all, q_all, epsilon)
            try:
                computed = float(composed.delta(epsilon))
            except SlowDecay:
                continue
            assert computed == pytest.approx(exact, rel=1e-6)

    @pytest.mark.parametrize("rounds", [1, 2])
    def test_an_atom_is_refused(self, rounds: int) -> None:
        """Two outcomes: the characteristic function never decays, and a wrong answer would be worse than none."""
        p, q = np.array([0.5, 0.5]), np.array([0.25, 0.75])
        with pytest.raises(SlowDecay):
            Composed(Sum(((rounds, Outcomes(np.log(q / p), p)),))).tails(np.array([0.1]))


class TestShape:
    """What every trade-off function does, here for sums of unlike rounds."""

    CURVE = Composed(
        Sum(((40, sgm_cumulants(0.1, 1.5)), (3, scaled(30.0, 0.2, float(-np.log1p(1.0 / 40)))), (7, shifted(0.1))))
    )

    def test_tails_are_complementary_and_monotone(self) -> None:
        t = np.linspace(-4.0, 5.0, 90)
        tails = self.CURVE.tails(t)
        np.testing.assert_allclose(np.exp(tails.p_above) + np.exp(tails.p_below), 1.0, rtol=1e-9)
        np.testing.assert_allclose(np.exp(tails.q_above) + np.exp(tails.q_below), 1.0, rtol=1e-9)
        for above, below in ((tails.p_above, tails.p_below), (tails.q_above, tails.q_below)):
            assert np.all(np.diff(above) <= 1e-9)
            assert np.all(np.diff(below) >= -1e-9)

    def test_neyman_and_pearson(self) -> None:
        """Q[l > t] >= e^t P[l > t]: every tail of Q is at least its density ratio times that of P."""
        t = np.linspace(-4.0, 5.0, 90)
        tails = self.CURVE.tails(t)
        assert np.all(tails.q_above >= t + tails.p_above - 1e-9)
        assert np.all(tails.q_below <= t + tails.p_below + 1e-9)

    def test_delta_falls_and_the_inverse_of_the_inverse_is_the_curve(self) -> None:
        epsilon = np.linspace(0.0, 5.0, 30)
        delta = self.CURVE.log_delta(epsilon)
        assert np.all(np.diff(delta) < 0.0)
        assert self.CURVE.inverse().inverse() is self.CURVE
        # T(Q, P) has delta_reverse(eps) = P[l < -eps] - e^eps Q[l < -eps]
        tails = self.CURVE.tails(-epsilon)
        expected = np.exp(tails.p_below) - np.exp(epsilon + tails.q_below)
        np.testing.assert_allclose(self.CURVE.inverse().delta(epsilon), expected, rtol=1e-6, atol=1e-14)

    def test_sides_bracket_the_value(self) -> None:
        for epsilon in (0.0, 1.0, 4.0):
            low, middle, high = (float(self.CURVE.log_delta(epsilon, side)) for side in Side)
            assert low < middle < high
            # the charge is COMPOSED_ERROR of the tail, on both sides
            share = float(np.exp(self.CURVE.tails(np.array([epsilon])).q_above[0] - middle))
            assert high - low < 5.0 * COMPOSED_ERROR * share + 1e-15

    def test_any_shape_of_thresholds(self) -> None:
        t = np.linspace(-2.0, 3.0, 150)
        flat = self.CURVE.tails(t)
        square = self.CURVE.tails(t.reshape(3, 50))
        for a, b in zip(flat, square, strict=True):
            assert b.shape == (3, 50)
            np.testing.assert_allclose(a, b.ravel(), rtol=0.0, atol=1e-9)


class TestSaddlePoint:
    @pytest.mark.parametrize("t", [-6.0, -0.2, 0.0, 0.4, 9.0])
    def test_solves_its_equation(self, t: float) -> None:
        cumulants = TestShape.CURVE.cumulants
        theta = saddle_point(cumulants, np.array([t]))
        moments = cumulants.moments(theta)
        assert abs(float(moments.mean[0]) - t) <= 0.01 * np.sqrt(float(moments.variance[0]))

    def test_many_thresholds_are_those_one_by_one(self) -> None:
        cumulants = TestShape.CURVE.cumulants
        t = np.array([-6.0, -0.2, 0.0, 0.4, 9.0])
        together = saddle_point(cumulants, t)
        apart = np.array([saddle_point(cumulants, np.array([one]))[0] for one in t])
        width = 1.0 / np.sqrt(cumulants.moments(apart).variance)
        assert np.all(np.abs(together - apart) < 0.05 * width)

    @pytest.mark.parametrize("t", [-1e6, 1e6])
    def test_hopeless_thresholds_end(self, t: float) -> None:
        tails = TestShape.CURVE.tails(np.array([t]))
        certain, impossible = (tails.p_above, tails.p_below) if t < 0 else (tails.p_below, tails.p_above)
        assert float(certain[0]) == pytest.approx(0.0, abs=1e-12)
        assert float(impossible[0]) < -1000.0
