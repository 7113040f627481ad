"""tradeoff: closed forms, (epsilon, delta) both ways, summaries, and brute force for finite outcomes."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.special import ndtr, ndtri

import oracles
from noisymean import looked
from noisymean.errors import InvalidInput
from noisymean.laws.closed import EpsilonDelta, Gaussian, Identity
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.hulls import ConvexHullOfMinimum, from_delta, symmetrized_maximum, symmetrized_minimum
from noisymean.laws.subsampled import RevealedMixture, Subsampled
from noisymean.tradeoff import Side, TradeOff

INNER = np.array([1e-9, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.8, 0.97, 0.9999])


def exact_gaussian(mu: float, alpha: float) -> mpf:
    """Phi(Phi^-1(1 - alpha) - mu) to 50 digits."""
    quantile = -mpmath.sqrt(2) * mpmath.erfinv(2 * mpf(alpha) - 1)
    return oracles.normal_cdf(quantile - mpf(mu))


class TestIdentity:
    def test_is_one_minus_alpha(self, alphas: np.ndarray) -> None:
        assert np.array_equal(Identity()(alphas), 1.0 - alphas)

    def test_leaks_nothing(self) -> None:
        assert Identity().advantage() == 0.0
        assert Identity().delta([0.0, 1.0, -1.0]).tolist() == pytest.approx([0.0, 0.0, -np.expm1(-1.0)])
        assert Identity().epsilon(1e-9) == 0.0
        assert Identity().power(7) == Identity()


class TestGaussian:
    @pytest.mark.parametrize("mu", [1e-6, 0.1, 1.0, 3.0, 8.0])
    def test_closed_form(self, mu: float) -> None:
        for alpha in INNER.tolist():
            assert abs(mpf(float(Gaussian(mu)(alpha))) - exact_gaussian(mu, alpha)) < 1e-14

    def test_zero_shift_is_the_identity(self, alphas: np.ndarray) -> None:
        np.testing.assert_allclose(Gaussian(0.0)(alphas), 1.0 - alphas, rtol=0.0, atol=1e-15)

    @pytest.mark.parametrize("mu", [0.05, 1.0, 4.0])
    def test_delta_is_that_of_balle_and_wang(self, mu: float) -> None:
        # delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), Balle and Wang 2018, in 50 digits
        for epsilon in (-1.0, 0.0, 0.1, 1.0, 5.0):
            e, m = mpf(epsilon), mpf(mu)
            exact = oracles.normal_cdf(-e / m + m / 2) - mpmath.exp(e) * oracles.normal_cdf(-e / m - m / 2)
            assert abs(mpf(float(Gaussian(mu).delta(epsilon))) - exact) < 1e-14

    def test_power(self, alphas: np.ndarray) -> None:
        np.testing.assert_allclose(Gaussian(0.3).power(9)(alphas), Gaussian(0.9)(alphas), rtol=1e-13)

    @pytest.mark.parametrize("mu", [0.01, 0.7, 3.0])
    def test_gdp_bounds_are_mu_twice(self, mu: float) -> None:
        assert Gaussian(mu).gdp_bounds() == pytest.approx((mu, mu), rel=1e-8)
        np.testing.assert_allclose(Gaussian(mu).gdp_mu(INNER[2:-1]), mu, rtol=1e-8)

    def test_negative_mu_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"mu=-1"):
            Gaussian(-1.0)


class TestEpsilonDelta:
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.0, 0.2), (1.0, 0.0), (2.5, 0.01), (0.3, 1.0)])
    def test_closed_form(self, epsilon: float, delta: float, alphas: np.ndarray) -> None:
        # Dong, Roth and Su 2022, Eq. 5; the paper's Eq. 1
        lines = [1.0 - delta - np.exp(epsilon) * alphas, np.exp(-epsilon) * (1.0 - delta - alphas)]
        expected = np.maximum(0.0, np.maximum(*lines))
        np.testing.assert_allclose(EpsilonDelta(epsilon, delta)(alphas), expected, rtol=0.0, atol=1e-10)

    def test_its_own_epsilon_and_delta(self) -> None:
        curve = EpsilonDelta(1.25, 0.03)
        assert float(curve.delta(1.25)) == pytest.approx(0.03, rel=1e-12)
        assert curve.epsilon(0.03 * (1 + 1e-9)) == pytest.approx(1.25, rel=1e-7)
        assert curve.epsilon(0.02) == float("inf")
        # below its own epsilon delta grows to 1 - 2 (1-delta)/(1+e^eps) at 0
        assert curve.advantage() == pytest.approx(1.0 - 2.0 * 0.97 / (1.0 + np.exp(1.25)), rel=1e-12)

    def test_power_at_epsilon_zero(self, alphas: np.ndarray) -> None:
        expected = EpsilonDelta(0.0, 1.0 - 0.9**5)(alphas)
        power = EpsilonDelta(0.0, 0.1).power(5)
        assert power is not None
        np.testing.assert_allclose(power(alphas), expected, rtol=0.0, atol=1e-14)
        assert EpsilonDelta(1.0, 0.1).power(2) is None

    def test_bad_values(self) -> None:
        with pytest.raises(InvalidInput, match="epsilon=-1"):
            EpsilonDelta(-1.0)
        with pytest.raises(InvalidInput, match=r"delta=1\.5"):
            EpsilonDelta(1.0, 1.5)


class TestFiniteOutcomes:
    @pytest.mark.parametrize("seed", range(12))
    def test_against_every_deterministic_test(self, seed: int, alphas: np.ndarray) -> None:
        generator = np.random.default_rng(seed)
        size = int(generator.integers(2, 9))
        p, q = generator.dirichlet(np.ones(size)), generator.dirichlet(np.ones(size))
        if seed % 3 == 0:  # outcomes that only one of the two can produce
            p[0] = q[-1] = 0.0
            p, q = p / p.sum(), q / q.sum()
        expected = oracles.all_tests_hull(p, q, alphas)
        curve = FiniteOutcomes(p, q)
        np.testing.assert_allclose(curve(alphas), expected, rtol=0.0, atol=1e-10)
        assert (curve.lower(alphas) <= expected + 1e-14).all()
        assert (curve.upper(alphas) >= expected - 1e-14).all()

    def test_equal_likelihood_ratios_are_one_atom(self) -> None:
        split = FiniteOutcomes(np.array([0.25, 0.25, 0.5]), np.array([0.1, 0.1, 0.8]))
        whole = FiniteOutcomes(np.array([0.5, 0.5]), np.array([0.2, 0.8]))
        np.testing.assert_allclose(split(INNER), whole(INNER), atol=1e-15)

    def test_randomised_response(self, alphas: np.ndarray) -> None:
        truth = np.exp(0.7) / (1.0 + np.exp(0.7))
        curve = FiniteOutcomes(np.array([truth, 1 - truth]), np.array([1 - truth, truth]))
        np.testing.assert_allclose(curve(alphas), EpsilonDelta(0.7)(alphas), atol=2e-15)


class TestMixtures:
    def test_revealed_gaussians_by_hand(self) -> None:
        # one threshold for both, Lemma of joint concavity: alpha(t), beta(t) in 50 digits
        curve = RevealedMixture((0.3, 0.7), (Gaussian(0.5), Gaussian(2.0)))
        for t in (-2.0, -0.3, 0.0, 0.9, 3.0):
            parts = [
                oracles.Component(mpf(0.3), mpf("0.5"), mpf(1)),
                oracles.Component(mpf(0.7), mpf(2), mpf(1)),
            ]
            alpha, beta = oracles.at_float(oracles.mixture_point(1, parts, t))
            assert abs(mpf(float(curve(alpha))) - beta) < 1e-13

    def test_subsampled_is_the_straight_mixture(self, alphas: np.ndarray) -> None:
        for base in (Gaussian(1.0), EpsilonDelta(1.0, 0.1), Identity()):
            for rate in (0.0, 1e-3, 0.4, 1.0):
                expected = (1.0 - rate) * (1.0 - alphas) + rate * base(alphas)
                np.testing.assert_allclose(Subsampled(base, rate)(alphas), expected, rtol=0.0, atol=1e-14)

    @pytest.mark.parametrize("rate", [1e-4, 0.3, 0.95])
    def test_subsampled_tails_give_the_same_curve(self, rate: float) -> None:
        # delta of (1-q) P + q Q against P: q delta_base at the base's threshold log(1 + (e^eps - 1)/q)
        curve = Subsampled(Gaussian(1.3), rate)
        for epsilon in (1e-6, 0.01, 0.5, 3.0):
            inner = np.log1p(np.expm1(epsilon) / rate)
            base = ndtr(-inner / 1.3 + 0.65) - np.exp(inner) * ndtr(-inner / 1.3 - 0.65)
            assert float(curve.delta(epsilon)) == pytest.approx(rate * base, rel=1e-9, abs=1e-16)

    def test_weights_are_checked(self) -> None:
        with pytest.raises(ValueError, match="one weight for each"):
            RevealedMixture((0.5, 0.5), (Identity(),))
        with pytest.raises(ValueError, match="add up to 1"):
            RevealedMixture((0.5, 0.6), (Identity(), Identity()))
        with pytest.raises(InvalidInput, match=r"weights=-0\.5"):
            RevealedMixture((1.5, -0.5), (Identity(), Identity()))
        with pytest.raises(InvalidInput, match=r"rate=1\.2"):
            Subsampled(Identity(), 1.2)


class TestHullAndMaximum:
    CURVES = (EpsilonDelta(2.0, 0.0), EpsilonDelta(0.1, 0.15), Gaussian(0.7))

    def test_hull_of_the_minimum(self) -> None:
        # closed forms of the three on a grid of 5e-6, steepest slope e^2
        grid = np.linspace(0.0, 1.0, 200_001)
        least = np.minimum(
            np.maximum(1.0 - np.exp(2.0) * grid, np.exp(-2.0) * (1.0 - grid)),
            np.maximum(np.maximum(0.0, 0.85 - np.exp(0.1) * grid), np.exp(-0.1) * (0.85 - grid)),
        )
        least = np.minimum(least, ndtr(-ndtri(grid) - 0.7))
        expected = oracles.lower_hull(grid, least, INNER)
        np.testing.assert_allclose(ConvexHullOfMinimum(self.CURVES)(INNER), expected, rtol=0.0, atol=5e-5)

    def test_delta_is_the_largest(self) -> None:
        epsilons = np.array([-1.0, 0.0, 0.05, 0.5, 1.5, 2.5])
        largest = np.max([curve.delta(epsilons) for curve in self.CURVES], axis=0)
        np.testing.assert_allclose(ConvexHullOfMinimum(self.CURVES).delta(epsilons), largest, rtol=1e-12, atol=1e-16)

    def test_symmetrised(self, alphas: np.ndarray) -> None:
        curve = FiniteOutcomes(np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.1, 0.8]))
        forward, backward = curve(alphas), curve.inverse()(alphas)
        assert not np.allclose(forward, backward)
        np.testing.assert_allclose(symmetrized_maximum(curve)(alphas), np.maximum(forward, backward), atol=1e-15)
        grid = np.linspace(0.0, 1.0, 20_001)
        both = [oracles.all_tests_hull(*pair, grid) for pair in ((curve.p, curve.q), (curve.q, curve.p))]
        least = oracles.lower_hull(grid, np.minimum(*both), alphas)
        np.testing.assert_allclose(symmetrized_minimum(curve)(alphas), least, atol=1e-4)
        # whichever dataset is called D
        lowest = symmetrized_minimum(curve)
        np.testing.assert_allclose(lowest(alphas), lowest.inverse()(alphas), atol=1e-12)


class TestEpsilonOfDelta:
    CURVES = (
        Gaussian(1.0),
        Gaussian(0.05),
        Subsampled(Gaussian(2.0), 0.01),
        RevealedMixture((0.5, 0.5), (Gaussian(1.0), Identity())),
    )

    @pytest.mark.parametrize("curve", CURVES, ids=repr)
    @pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9, 1e-13])
    def test_round_trip(self, curve: TradeOff, delta: float) -> None:
        epsilon = curve.epsilon(delta)
        if epsilon > 0.0:
            assert float(curve.delta(epsilon)) == pytest.approx(delta, rel=1e-6)
        else:
            assert curve.advantage() <= delta

    def test_a_value_from_the_literature(self) -> None:
        # G_1 at delta = 1e-5: 50-digit root of Balle and Wang's formula
        exact = mpmath.findroot(
            lambda e: (
                oracles.normal_cdf(-e + mpf(1) / 2) - mpmath.exp(e) * oracles.normal_cdf(-e - mpf(1) / 2) - mpf("1e-5")
            ),
            mpf(4),
        )
        assert Gaussian(1.0).epsilon(1e-5) == pytest.approx(float(exact), rel=1e-11)

    def test_infinite_and_zero(self) -> None:
        only_q = FiniteOutcomes(np.array([1.0, 0.0]), np.array([0.9, 0.1]))
        assert only_q.epsilon(0.05) == float("inf")
        assert only_q.epsilon(0.2) == 0.0

    def test_delta_zero_never_gives_a_wrong_number(self) -> None:
        # pure epsilon: 1 for randomised response, none for a Gaussian
        for curve, pure in ((EpsilonDelta(1.0), 1.0), (Gaussian(1.0), float("inf"))):
            try:
                epsilon = curve.epsilon(0.0)
            except InvalidInput:
                continue
            assert epsilon == pytest.approx(pure, rel=1e-9)

    @pytest.mark.parametrize("delta", [-0.1, 1.1, float("nan")])
    def test_bad_delta(self, delta: float) -> None:
        with pytest.raises(InvalidInput, match="delta="):
            Gaussian(1.0).epsilon(delta)


class TestSummaries:
    @pytest.mark.parametrize("seed", range(5))
    def test_advantage_is_total_variation(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        p, q = generator.dirichlet(np.ones(6)), generator.dirichlet(np.ones(6))
        assert FiniteOutcomes(p, q).advantage() == pytest.approx(0.5 * np.abs(p - q).sum(), rel=1e-12)

    def test_advantage_of_a_gaussian(self) -> None:
        assert Gaussian(1.4).advantage() == pytest.approx(2.0 * ndtr(0.7) - 1.0, rel=1e-13)

    @pytest.mark.parametrize("prior", [0.0, 0.01, 0.3, 0.5, 0.9, 1.0])
    def test_bayes_error(self, prior: float) -> None:
        p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
        least = np.minimum(prior * p, (1.0 - prior) * q).sum()
        assert FiniteOutcomes(p, q).bayes_error(prior) == pytest.approx(least, abs=1e-15)
        # Gaussian: threshold at (log odds)/mu + mu/2
        grid = np.linspace(-9.0, 10.0, 190_001)
        by_grid = np.min(prior * ndtr(-grid) + (1.0 - prior) * ndtr(grid - 1.0))
        assert Gaussian(1.0).bayes_error(prior) == pytest.approx(by_grid, abs=1e-8)

    def test_bayes_error_is_tied_to_the_advantage(self) -> None:
        for curve in (Gaussian(0.8), EpsilonDelta(1.0, 0.1)):
            assert curve.bayes_error() == pytest.approx(0.5 * (1.0 - curve.advantage()), rel=1e-12)

    def test_gdp_bounds_enclose(self) -> None:
        curve = Subsampled(Gaussian(1.0), 0.3)
        low, high = curve.gdp_bounds(least_error=1e-4)
        alpha = np.linspace(1e-3, 0.9, 50)
        assert (Gaussian(high)(alpha) <= curve(alpha) + 1e-9).all()
        assert (Gaussian(low)(alpha) >= curve(alpha) - 1e-9).all()
        assert low < high

    def test_gdp_bounds_where_everything_leaks(self) -> None:
        assert EpsilonDelta(0.0, 1.0).gdp_bounds() == (float("inf"), float("inf"))


def test_from_delta_recovers_the_curve() -> None:
    epsilons = np.linspace(-14.0, 14.0, 28_001)
    curve = Gaussian(1.0)
    recovered = from_delta(INNER[2:-1], epsilons, curve.delta(epsilons))
    exact = curve(INNER[2:-1])
    assert (recovered <= exact + 1e-12).all()
    np.testing.assert_allclose(recovered, exact, atol=1e-6)


@pytest.mark.parametrize("alpha", [-1e-9, 1.0 + 1e-9, float("nan"), [0.1, 2.0], "a"])
def test_alpha_outside_of_the_unit_interval(alpha: object) -> None:
    with pytest.raises(InvalidInput, match="alpha="):
        Gaussian(1.0)(alpha)  # type: ignore[arg-type]


def test_shapes() -> None:
    curve = RevealedMixture((0.5, 0.5), (Gaussian(1.0), Gaussian(2.0)))
    assert curve(0.5).shape == ()
    assert curve(np.full((2, 3), 0.5)).shape == (2, 3)
    assert curve(np.array([])).shape == (0,)
    assert float(curve(0.5)) == pytest.approx(float(curve([0.1, 0.5, 0.9])[1]), abs=1e-14)


def test_inverse_of_a_gaussian_is_itself() -> None:
    np.testing.assert_allclose(Gaussian(1.0).inverse()(INNER), Gaussian(1.0)(INNER), rtol=0.0, atol=1e-13)


def test_epsilon_is_the_least_where_delta_is_flat() -> None:
    """delta(eps) of f_(0.5, 1e-5) is 1e-5 from 0.5 on."""
    curve = EpsilonDelta(0.5, 1e-5)
    assert curve.epsilon(1e-5) == pytest.approx(0.5, rel=1e-6)
    assert curve.epsilon(1e-5, Side.BELOW) <= 0.5


def test_many_tiny_alphas_have_a_bound_from_below() -> None:
    """Beside tests whose e^t is no double; f of N(0, 1) against N(40, 1) in closed form."""
    alpha = np.logspace(-303.0, -1.0, 400)
    bound, exact = gaussian_pair(1, 40.0, 1.0).lower(alpha), ndtr(-ndtri(alpha) - 40.0)
    assert np.all(bound <= exact * (1.0 + 1e-9) + 1e-300)
    assert bound[0] > 0.9 * exact[0]


def test_a_line_without_its_slope_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far out the nearest test is that errs less than alpha: e^t is left out where it is no double."""

    def far_out(self: object, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full_like(alpha, -1e13), np.full_like(alpha, 1e13)

    monkeypatch.setattr(looked.Looked, "around", far_out)
    alpha = np.linspace(0.01, 0.99, 300)
    assert np.all(gaussian_pair(1, 1.0, 1.0).lower(alpha) <= Gaussian(1.0)(alpha))
