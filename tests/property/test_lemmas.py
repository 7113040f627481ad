"""The paper's lemmas and theorems, on random parameters."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import noisymean as nm
import oracles
import strategies
from effort import examples
from noisymean.laws.closed import Gaussian, Identity
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.hulls import symmetrized_maximum, symmetrized_minimum
from noisymean.laws.subsampled import RevealedMixture, Subsampled
from noisymean.tradeoff import TradeOff

# Rounding of two curves that are compared with one another.
ROUNDING = 1e-11

steps = strategies.log_integers(1, 10**6)
dimensions = strategies.log_integers(2, 10**7)
alphas = strategies.alpha_lists()


def ceiling(kind: Any, size: int, dimension: int, rate: Any = "0.3") -> TradeOff:
    curve = nm.ceiling(kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=1.0))
    assert curve is not None
    return curve


class TestTakeaways:
    @given(smaller=steps, larger=steps, dimension=dimensions, alpha=alphas)
    def test_lemma_number_of_data(self, smaller: int, larger: int, dimension: int, alpha: np.ndarray) -> None:
        smaller, larger = sorted((smaller, larger))
        assert (
            ceiling(nm.EASGM, smaller, dimension)(alpha) <= ceiling(nm.EASGM, larger, dimension)(alpha) + ROUNDING
        ).all()

    @given(size=steps, fewer=dimensions, more=dimensions, alpha=alphas, kind=st.sampled_from([nm.EASGM, nm.ASGM]))
    def test_lemma_dimension(self, size: int, fewer: int, more: int, alpha: np.ndarray, kind: Any) -> None:
        fewer, more = sorted((fewer, more))
        assert (ceiling(kind, size, more)(alpha) <= ceiling(kind, size, fewer)(alpha) + ROUNDING).all()

    @given(size=steps, dimension=dimensions, low=strategies.rates(), high=strategies.rates(), alpha=alphas)
    def test_lemma_sample_ratio(
        self, size: int, dimension: int, low: Fraction, high: Fraction, alpha: np.ndarray
    ) -> None:
        low, high = sorted((low, high))
        at_high, at_low = (ceiling(nm.ASGM, size, dimension, rate)(alpha) for rate in (high, low))
        assert (at_high <= at_low + ROUNDING).all()

    @given(size=steps, rate=strategies.rates())
    def test_theorem_asgm_flaws(self, size: int, rate: Fraction) -> None:
        # the limit of many dimensions: (1 - q + q (1-q)^N) Id
        alpha, q = np.array([0.1, 0.5, 0.9]), float(rate)
        curve = ceiling(nm.ASGM, min(size, 1000), 10**12, rate)(alpha)
        np.testing.assert_allclose(curve, (1.0 - q + q * (1.0 - q) ** min(size, 1000)) * (1.0 - alpha), atol=1e-9)

    @given(size=steps)
    def test_theorem_easgm_flaws(self, size: int) -> None:
        assert (ceiling(nm.EASGM, min(size, 1000), 10**12)(np.array([0.01, 0.5])) <= 1e-9).all()


class TestGaussianPairTheorems:
    @given(
        dimension=strategies.log_integers(1, 10**5),
        small=st.floats(0.0, 6.0),
        large=st.floats(0.0, 6.0),
        log_scale=strategies.log_scales(-1.5, -1e-9),
        alpha=alphas,
    )
    def test_theorem_bound(
        self, dimension: int, small: float, large: float, log_scale: float, alpha: np.ndarray
    ) -> None:
        """The curve falls with the shift, s < 1 (the paper proves one dimension; tensoring gives the rest)."""
        small, large = sorted((small, large))
        near, far = (gaussian_pair(dimension, shift, log_scale=log_scale)(alpha) for shift in (small, large))
        assert (far <= near + one_dimension(dimension)).all()

    @given(
        dimension=strategies.log_integers(1, 10**5),
        narrow=strategies.log_scales(-1.5, 0.0),
        wide=strategies.log_scales(-1.5, 0.0),
        alpha=alphas,
    )
    def test_theorem_bound_fix_variance(self, dimension: int, narrow: float, wide: float, alpha: np.ndarray) -> None:
        narrow, wide = sorted((narrow, wide))
        lower, upper = (gaussian_pair(dimension, 0.0, log_scale=scale)(alpha) for scale in (narrow, wide))
        assert (lower <= upper + one_dimension(dimension)).all()


def on_a_table(grid: np.ndarray, table: np.ndarray, alpha: float) -> float:
    return float(np.interp(alpha, grid, table))


def one_dimension(dimension: int) -> float:
    """Near alpha = 0 a single degree of freedom is known to 1e-8 only: see test_few_dimensions_at_small_alpha."""
    return ROUNDING if dimension > 1 else 2e-8


class TestFullSampling:
    @given(
        size=strategies.log_integers(1, 10**5),
        dimension=strategies.log_integers(2, 10**6),
        sigma=strategies.sigmas,
        alpha=alphas,
    )
    def test_easgm_is_asgm_and_tight(self, size: int, dimension: int, sigma: float, alpha: np.ndarray) -> None:
        arguments: dict[str, Any] = {
            "dataset_size": size,
            "dimension": dimension,
            "sample_rate": 1,
            "noise_multiplier": sigma,
        }
        easgm, asgm = nm.EASGM(**arguments), nm.ASGM(**arguments)
        guarantee = nm.guarantee(easgm)(alpha)
        np.testing.assert_allclose(guarantee, nm.guarantee(asgm)(alpha), rtol=0.0, atol=ROUNDING)
        # tight: the aligned pair attains it
        np.testing.assert_allclose(nm.leakage(easgm).upper(alpha), guarantee, rtol=0.0, atol=2e-11)
        # floor(N q) = N
        np.testing.assert_allclose(nm.guarantee(nm.FEASGM(**arguments))(alpha), guarantee, rtol=0.0, atol=ROUNDING)


class TestFloor:
    @given(mechanism=strategies.mechanisms(nm.FEASGM, dims=strategies.log_integers(1, 10**4)), alpha=alphas)
    def test_feasgm_without_a_step_is_sgm(self, mechanism: Any, alpha: np.ndarray) -> None:
        before, after = mechanism.floors
        claimed = nm.claimed(mechanism)(alpha)
        if before == after or before == 0:
            np.testing.assert_allclose(nm.guarantee(mechanism)(alpha), claimed, rtol=0.0, atol=1e-14)
            np.testing.assert_allclose(nm.leakage(mechanism).upper(alpha), claimed, rtol=0.0, atol=1e-11)
            assert nm.ceiling(mechanism) is None
        else:
            assert after == before + 1
            assert nm.ceiling(mechanism) is not None


class TestMixtureLemmas:
    @examples(25)
    @given(
        curves=st.lists(strategies.simple_curves(), min_size=2, max_size=3),
        shares=st.lists(st.integers(1, 10), min_size=3, max_size=3),
        alpha=st.floats(0.01, 0.99),
    )
    def test_joint_concavity_equals_min_over_allocations(
        self, curves: list[TradeOff], shares: list[int], alpha: float
    ) -> None:
        """One threshold for all components (Lemma Jensen) against a search over all allocations (Lemma min_equal)."""
        total = sum(shares[: len(curves)])
        weights = tuple(share / total for share in shares[: len(curves)])
        by_threshold = float(RevealedMixture(weights, tuple(curves))(alpha))
        # a fine table of each component keeps the search off the package's inversion: chords lie above a convex curve
        grid = np.concatenate([[0.0], np.logspace(-9, -2, 300), np.linspace(0.01, 1.0, 10_001)[1:]])
        tables = [curve(grid) for curve in curves]
        by_search = oracles.least_over_allocations(
            weights, [partial(on_a_table, grid, table) for table in tables], alpha
        )
        assert by_threshold <= by_search + 1e-8
        # a kink between two points of the table, 1e-4 apart, costs that times half the change of slope
        assert by_threshold >= by_search - 5e-4

    @given(
        curves=st.lists(strategies.simple_curves(), min_size=2, max_size=3),
        shares=st.lists(st.integers(1, 10), min_size=3, max_size=3),
        alpha=alphas,
    )
    def test_lemma_upper_bound(self, curves: list[TradeOff], shares: list[int], alpha: np.ndarray) -> None:
        total = sum(shares[: len(curves)])
        weights = tuple(share / total for share in shares[: len(curves)])
        straight = sum(w * curve(alpha) for w, curve in zip(weights, curves, strict=True))
        assert (RevealedMixture(weights, tuple(curves))(alpha) <= straight + 1e-8).all()

    @given(base=strategies.simple_curves(), rate=st.floats(0.0, 1.0), alpha=alphas)
    def test_subsampled_is_the_straight_mixture(self, base: TradeOff, rate: float, alpha: np.ndarray) -> None:
        expected = (1.0 - rate) * (1.0 - alpha) + rate * base(alpha)
        np.testing.assert_allclose(Subsampled(base, rate)(alpha), expected, rtol=0.0, atol=1e-13)

    @given(base=strategies.simple_curves(), rate=st.floats(0.01, 0.99), alpha=alphas)
    def test_revealing_membership_never_helps_privacy(self, base: TradeOff, rate: float, alpha: np.ndarray) -> None:
        revealed = RevealedMixture((1.0 - rate, rate), (Identity(), base))
        assert (revealed(alpha) <= Subsampled(base, rate)(alpha) + 1e-8).all()


class TestCurvesInGeneral:
    @given(curve=strategies.simple_curves(), alpha=alphas)
    def test_shape(self, curve: TradeOff, alpha: np.ndarray) -> None:
        values = curve(alpha)
        assert (values >= 0.0).all()
        assert (values <= 1.0 - alpha + ROUNDING).all()
        assert (np.diff(values) <= 1e-9).all()
        for left, right in zip(alpha, alpha[1:], strict=False):
            middle = float(curve(0.5 * (left + right)))
            assert middle <= 0.5 * float(curve(left) + curve(right)) + 1e-8

    @given(pair=strategies.outcomes(), alpha=alphas)
    def test_finite_outcomes_against_every_test(self, pair: tuple[np.ndarray, np.ndarray], alpha: np.ndarray) -> None:
        exact = oracles.all_tests_hull(*pair, alpha)
        curve = FiniteOutcomes(*pair)
        np.testing.assert_allclose(curve(alpha), exact, rtol=0.0, atol=1e-10)
        assert (curve.lower(alpha) <= exact + 1e-14).all()
        assert (curve.upper(alpha) >= exact - 1e-14).all()

    @given(pair=strategies.outcomes(), epsilon=st.floats(-3.0, 3.0))
    def test_delta_is_the_hockey_stick(self, pair: tuple[np.ndarray, np.ndarray], epsilon: float) -> None:
        p, q = pair
        exact = np.maximum(q - np.exp(epsilon) * p, 0.0).sum()
        assert float(FiniteOutcomes(p, q).delta(epsilon)) == pytest.approx(exact, abs=1e-13)

    @given(curve=strategies.simple_curves(), alpha=alphas)
    def test_symmetrised(self, curve: TradeOff, alpha: np.ndarray) -> None:
        both = np.stack([curve(alpha), curve.inverse()(alpha)])
        np.testing.assert_allclose(symmetrized_maximum(curve)(alpha), both.max(axis=0), rtol=0.0, atol=1e-9)
        least = symmetrized_minimum(curve)
        assert (least(alpha) <= both.min(axis=0) + 1e-8).all()
        np.testing.assert_allclose(least(alpha), least.inverse()(alpha), rtol=0.0, atol=1e-7)

    @given(
        dimension=st.integers(2, 50),
        shift=st.floats(0.0, 2.0),
        log_scale=strategies.log_scales(-0.5, 0.5),
        count=st.integers(1, 9),
    )
    def test_power_is_repetition(self, dimension: int, shift: float, log_scale: float, count: int) -> None:
        """delta of a product is at least that of a part, and the power of a pair is the pair of vectors laid end to end."""
        assume(log_scale != 0.0)
        alpha = np.array([0.02, 0.3, 0.8])
        pair = gaussian_pair(dimension, shift, log_scale=log_scale)
        longer = gaussian_pair(dimension * count, shift * np.sqrt(count), log_scale=log_scale)
        law = pair.power(count)
        assert law is not None
        power = law.one_round()
        np.testing.assert_allclose(power(alpha), longer(alpha), rtol=1e-10, atol=1e-14)
        assert (power(alpha) <= pair(alpha) + ROUNDING).all()

    @given(mu=st.floats(0.01, 5.0), count=st.integers(1, 50), alpha=alphas)
    def test_power_of_a_gaussian(self, mu: float, count: int, alpha: np.ndarray) -> None:
        expected = Gaussian(mu * np.sqrt(count))(alpha)
        np.testing.assert_allclose(Gaussian(mu).power(count)(alpha), expected, rtol=1e-12, atol=1e-300)
