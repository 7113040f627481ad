"""one_round: every curve against its own theorem, evaluated independently; check points; errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr, ndtri

import noisymean as nm
import oracles
from noisymean.laws.gaussian import GaussianPairs
from noisymean.laws.subsampled import Subsampled
from noisymean.numerics import binomial
from noisymean.proofs import batch_shift

KINDS = (nm.EASGM, nm.ASGM, nm.FEASGM)


def build(kind: Any, size: int, dimension: int, rate: Any, sigma: float) -> Any:
    return kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)


class TestCheckPoint:
    """N = 4, n = 20, q = 0.7, sigma = 2 at alpha = 0.5: the point at which the four kinds of curve were first told apart."""

    MECHANISM = build(nm.ASGM, 4, 20, 0.7, 2.0)

    def test_claimed(self) -> None:
        # closed form: 0.7 Phi(-1/2) + 0.3 * 0.5 = 0.36598
        expected = mpf("0.7") * oracles.normal_cdf(mpf(-1) / 2) + mpf("0.15")
        assert abs(mpf(float(nm.claimed(self.MECHANISM)(0.5))) - expected) < 1e-15
        assert float(expected) == pytest.approx(0.366, abs=5e-4)

    def test_guarantee(self) -> None:
        # 50 digits: the threshold at which alpha(t) is 1/2, then beta(t)
        def point(t: mpf) -> oracles.Point:
            return oracles.averaged_point(20, 4, Fraction(7, 10), 2, t)

        t = mpmath.findroot(lambda v: point(v).alpha - mpf("0.5"), (mpf(-1), mpf("-0.5")), solver="anderson", tol=1e-30)
        exact = point(t).beta
        assert abs(mpf(float(nm.guarantee(self.MECHANISM)(0.5))) - exact) < 1e-13
        assert float(exact) == pytest.approx(0.032, abs=5e-4)

    def test_revealing_the_batch_only(self) -> None:
        # (1-q) Id + q f with f the mixture over sizes of T(N(0,I), N(2k/((k+1) sigma), (k/(k+1))^2 I)), k = 0 being G_{1/sigma}
        parts = oracles.averaged_components(4, Fraction(7, 10), 2)
        t = mpmath.findroot(
            lambda v: oracles.mixture_point(20, parts, v).alpha - mpf("0.5"),
            (mpf(-1), mpf("-0.5")),
            solver="anderson",
            tol=1e-30,
        )
        exact = mpf("0.15") + mpf("0.7") * oracles.mixture_point(20, parts, t).beta
        assert float(exact) == pytest.approx(0.155, abs=5e-4)
        weights, shifts, scales = (np.array([float(v) for v in column]) for column in zip(*parts, strict=True))
        computed = Subsampled(GaussianPairs(20, weights, shifts, np.log(scales)), 0.7)
        assert abs(mpf(float(computed(0.5))) - exact) < 1e-13
        assert float(nm.guarantee_tight(self.MECHANISM).lower(0.5)) >= float(exact) - 1e-12

    def test_the_best_attack_on_an_explicit_pair(self) -> None:
        # 0.211 by an independent simulation of the optimal attack (tests/statistical); here only that we are not above it
        leaked = float(nm.leakage(self.MECHANISM).upper(0.5))
        assert leaked == pytest.approx(0.211, abs=2e-3)
        assert float(nm.guarantee_tight(self.MECHANISM).lower(0.5)) <= leaked


class TestClaimed:
    @pytest.mark.parametrize("kind", [*KINDS, nm.SGM])
    def test_is_the_same_for_all(self, kind: Any, alphas: np.ndarray) -> None:
        mechanism = build(kind, 50, 300, 0.2, 1.5)
        expected = 0.2 * ndtr(-ndtri(alphas) - 1.0 / 1.5) + 0.8 * (1.0 - alphas)
        np.testing.assert_allclose(nm.claimed(mechanism)(alphas), expected, rtol=0.0, atol=1e-14)


class TestGuarantee:
    @pytest.mark.parametrize(
        ("size", "dimension", "rate", "sigma"),
        [
            (1, 1, "1/2", 1),
            (2, 3, "9/10", 2),
            (4, 20, "7/10", 2),
            (10, 100, "1/10", 1),
            (5, 1_000, "1/3", 10),
            (3, 2, "1", 1),
        ],
    )
    @pytest.mark.parametrize("kind", [nm.EASGM, nm.ASGM])
    def test_against_the_theorem_batch_by_batch(
        self, kind: Any, size: int, dimension: int, rate: str, sigma: int
    ) -> None:
        """Every one of the 2^N batches, as the paper writes it: no collapse to sizes, 50 digits."""
        q = mpf(Fraction(rate).numerator) / Fraction(rate).denominator
        parts = []
        for batch in oracles.batches(size):
            k = len(batch)
            weight = q**k * (1 - q) ** (size - k)
            if kind is nm.EASGM:
                scale = mpf(size) / (size + 1)
                parts.append(oracles.Component((1 - q) * weight, mpf(k) / ((size + 1) * sigma), scale))
                parts.append(oracles.Component(q * weight, mpf(size + k) / ((size + 1) * sigma), scale))
            else:
                parts.append(oracles.Component((1 - q) * weight, mpf(0), mpf(1)))
                shift = mpf(2 * k) / ((k + 1) * sigma) if k else mpf(1) / sigma
                parts.append(oracles.Component(q * weight, shift, mpf(k) / (k + 1) if k else mpf(1)))
        # batches of one size are equal: add their weights up before the slow part
        merged: dict[tuple[mpf, mpf], mpf] = {}
        for part in parts:
            merged[part.shift, part.scale] = merged.get((part.shift, part.scale), mpf(0)) + part.weight
        parts = [oracles.Component(w, m, s) for (m, s), w in merged.items() if w > 0]
        curve = nm.guarantee(build(kind, size, dimension, rate, float(sigma)))
        for t in (-0.8, 0.1, 1.0):
            alpha, beta = oracles.at_float(oracles.mixture_point(dimension, parts, t))
            if 1e-12 < alpha < 1.0 - 1e-12:
                assert abs(mpf(float(curve(alpha))) - beta) <= 1e-10
                assert mpf(float(curve.lower(alpha))) <= beta + mpf(10) ** -15

    @pytest.mark.parametrize(("size", "rate"), [(9, "0.1"), (10, "0.1"), (140_200, "0.005"), (0, "0.4"), (0, "1")])
    def test_feasgm_without_a_step_is_sgm(self, size: int, rate: str, alphas: np.ndarray) -> None:
        mechanism = build(nm.FEASGM, size, 1_000, rate, 1.0)
        expected = nm.claimed(mechanism)(alphas)
        curves = nm.curve(mechanism, alphas)
        np.testing.assert_allclose(curves.guarantee, expected, rtol=0.0, atol=1e-11)
        np.testing.assert_allclose(curves.guarantee_tight, expected, rtol=0.0, atol=1e-11)
        np.testing.assert_allclose(curves.leakage, expected, rtol=0.0, atol=1e-11)
        assert curves.ceiling is None
        assert curves.ceiling_clt is None
        assert not curves.violated.any()

    def test_feasgm_with_a_step_is_easgm_with_its_floor(self) -> None:
        # K = 2 -> 3 at N = 5, q = 1/2: Theorem FEASGM is EASGM_HIGH with K for N in shift and scale
        curve = nm.guarantee(build(nm.FEASGM, 5, 30, "1/2", 1.0))
        parts = oracles.expected_components(5, Fraction(1, 2), 1, 2)
        for t in (-2.0, -0.5, 0.5, 2.0):
            alpha, beta = oracles.at_float(oracles.mixture_point(30, parts, t))
            assert abs(mpf(float(curve(alpha))) - beta) < 1e-12

    def test_sgm(self, alphas: np.ndarray) -> None:
        mechanism = nm.SGM(sample_rate=0.3, noise_multiplier=0.8)
        curves = nm.curve(mechanism, alphas)
        np.testing.assert_allclose(curves.guarantee, curves.claimed, rtol=0.0, atol=1e-11)
        np.testing.assert_allclose(curves.leakage, curves.claimed, rtol=0.0, atol=1e-11)


class TestCeiling:
    @pytest.mark.parametrize(("size", "dimension"), [(1, 2), (4, 100), (999, 10_001), (59_999, 1_485_217)])
    def test_easgm(self, size: int, dimension: int) -> None:
        """T(P^(n-1), Q_N^(n-1)): two central chi-square laws, 50 digits."""
        curve = nm.ceiling(build(nm.EASGM, size, dimension, 0.005, 10.0))
        part = [oracles.Component(mpf(1), mpf(0), mpf(size) / (size + 1))]
        spread = float(np.sqrt(0.5 * dimension)) / size
        assert curve is not None
        for z in (-2.0, -0.5, 0.3, 0.9):
            alpha, beta = oracles.at_float(oracles.mixture_point(dimension - 1, part, z * spread))
            if 0.0 < alpha < 1.0:
                assert abs(mpf(float(curve(alpha))) - beta) < 1e-10
                assert mpf(float(curve.lower(alpha))) <= beta <= mpf(float(curve.upper(alpha)))

    @pytest.mark.parametrize("rate", ["0.7", "0.005", "1"])
    def test_asgm_mixes_in_the_identity(self, rate: str, alphas: np.ndarray) -> None:
        size, q = 4, float(Fraction(rate))
        mixed, inner = nm.ceiling(build(nm.ASGM, size, 50, rate, 1.0)), nm.ceiling(build(nm.EASGM, size, 50, rate, 1.0))
        weight = q - q * (1.0 - q) ** size
        assert mixed is not None
        assert inner is not None
        expected = weight * inner(alphas) + (1.0 - weight) * (1.0 - alphas)
        np.testing.assert_allclose(mixed(alphas), expected, rtol=0.0, atol=1e-14)

    def test_one_dimension_leaves_nothing_to_see(self, alphas: np.ndarray) -> None:
        curve = nm.ceiling(build(nm.EASGM, 4, 1, 0.5, 1.0))
        assert curve is not None
        np.testing.assert_allclose(curve(alphas), 1.0 - alphas, atol=1e-15)
        assert nm.ceiling_clt(build(nm.EASGM, 4, 1, 0.5, 1.0)) is None

    def test_an_empty_dataset_has_none(self) -> None:
        assert nm.ceiling(build(nm.ASGM, 0, 10, 0.5, 1.0)) is None
        assert nm.ceiling_clt(build(nm.ASGM, 0, 10, 0.5, 1.0)) is None

    def test_feasgm_uses_its_floor(self, alphas: np.ndarray) -> None:
        floor, whole = nm.ceiling(build(nm.FEASGM, 5, 30, "1/2", 1.0)), nm.ceiling(build(nm.EASGM, 2, 30, "1/2", 1.0))
        assert floor is not None
        assert whole is not None
        np.testing.assert_allclose(floor(alphas), whole(alphas), rtol=1e-13)


class TestPerPair:
    ROWS = np.array([[0.6, 0.0, 0.8], [-0.5, 0.5, 0.1], [0.0, -1.0, 0.0], [0.3, 0.3, -0.2]])

    def exact_components(self, kind: Any, rows: np.ndarray, rate: str, sigma: float) -> list[oracles.Component]:
        """Eq. lower_bound_EASGM, Low_ASGM, per_pair_FEASGM: one component for each batch and membership, in exact arithmetic."""
        vectors = [[mpf(v) for v in row] for row in rows.tolist()]
        size = len(vectors) - 1
        q = mpf(Fraction(rate).numerator) / Fraction(rate).denominator
        step = size if kind is nm.EASGM else int(size * Fraction(rate))

        def length(multiple: mpf, batch: tuple[int, ...]) -> mpf:
            total = [multiple * new - mp.fsum(vectors[i][axis] for i in batch) for axis, new in enumerate(vectors[-1])]
            return mpmath.sqrt(mp.fsum(v * v for v in total))

        parts = []
        for batch in oracles.batches(size):
            k = len(batch)
            weight = q**k * (1 - q) ** (size - k)
            if kind is nm.ASGM:
                parts.append(oracles.Component((1 - q) * weight, mpf(0), mpf(1)))
                shift = length(mpf(k), batch) / ((k + 1) * mpf(sigma)) if k else length(mpf(1), ()) / mpf(sigma)
                parts.append(oracles.Component(q * weight, shift, mpf(k) / (k + 1) if k else mpf(1)))
            else:
                scale = mpf(step) / (step + 1)
                parts.append(
                    oracles.Component((1 - q) * weight, length(mpf(0), batch) / ((step + 1) * mpf(sigma)), scale)
                )
                parts.append(oracles.Component(q * weight, length(mpf(step), batch) / ((step + 1) * mpf(sigma)), scale))
        return [part for part in parts if part.weight > 0]

    @pytest.mark.parametrize("rate", ["1/2", "3/4", "1"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_against_all_batches(self, kind: Any, rate: str) -> None:
        parts = self.exact_components(kind, self.ROWS, rate, 1.5)
        curve = nm.per_pair(build(kind, 3, 3, rate, 1.5), self.ROWS)
        compared = 0
        for t in (-0.6, -0.1, 0.1, 0.4):
            alpha, beta = oracles.at_float(oracles.mixture_point(3, parts, t))
            if 1e-9 < alpha < 1.0 - 1e-9:
                compared += 1
                assert abs(mpf(float(curve(alpha))) - beta) < 1e-10
        assert compared >= 3

    def test_gram_matrix_is_enough(self) -> None:
        mechanism = build(nm.EASGM, 3, 3, 0.5, 1.0)
        alpha = np.linspace(0.05, 0.95, 7)
        from_rows, from_gram = nm.per_pair(mechanism, self.ROWS), nm.per_pair(mechanism, gram=self.ROWS @ self.ROWS.T)
        np.testing.assert_allclose(from_rows(alpha), from_gram(alpha), rtol=1e-12)

    def test_no_step_is_a_smaller_gaussian(self, alphas: np.ndarray) -> None:
        # floor(9 * 0.1) = 0 -> 1: SGM with the new record's own norm
        rows = np.zeros((10, 2))
        rows[-1] = [0.3, 0.4]
        expected = 0.1 * ndtr(-ndtri(alphas) - 0.5 / 2.0) + 0.9 * (1.0 - alphas)
        np.testing.assert_allclose(nm.per_pair(build(nm.FEASGM, 9, 2, "0.1", 2.0), rows)(alphas), expected, atol=1e-13)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("length", [1e-12, 1e-45, 0.0])
    def test_a_new_record_without_weight(self, kind: Any, length: float) -> None:
        # nothing but the denominator can tell: the curve at length 0, for every smaller length too
        rows = np.zeros((4, 2))
        rows[-1, 0] = length
        alpha = np.array([0.01, 0.3, 0.8])
        mechanism = build(kind, 3, 2, "1/2", 1.0)
        nothing = nm.per_pair(mechanism, np.zeros((4, 2)))(alpha)
        np.testing.assert_allclose(nm.per_pair(mechanism, rows)(alpha), nothing, rtol=0.0, atol=1e-10)

    def test_twenty_records_and_no_more(self) -> None:
        # 2^20 batches: compressed to a lower bound, still at least the guarantee
        rows = np.random.default_rng(3).standard_normal((21, 4))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        mechanism = build(nm.EASGM, 20, 4, 0.5, 1.0)
        alpha = np.array([0.1, 0.5])
        assert (nm.per_pair(mechanism, rows).lower(alpha) >= nm.guarantee(mechanism).lower(alpha) - 1e-12).all()
        with pytest.raises(nm.Undefined) as caught:
            nm.per_pair(build(nm.ASGM, 21, 4, 0.5, 1.0), np.zeros((22, 4)))
        line = str(caught.value)
        assert line.startswith("dataset_size=21: must be <= 20")
        assert all(name in line for name in ("guarantee", "ceiling", "leakage"))
        assert "\n" not in line

    def test_compression_is_on_the_safe_side_and_close(self) -> None:
        """Shifts merged to the largest of their bin: below the exact mixture, by little (13 records: 8192 batches > 4096)."""
        rows = np.random.default_rng(11).standard_normal((14, 3))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        compressed = nm.per_pair(build(nm.EASGM, 13, 3, 0.5, 1.0), rows)
        subsets = np.array([[(i >> r) & 1 for r in range(13)] for i in range(2**13)], dtype=float)
        sums = subsets @ rows[:-1]
        shifts = np.concatenate([np.linalg.norm(sums, axis=1), np.linalg.norm(13.0 * rows[-1] - sums, axis=1)]) / 14.0
        full = GaussianPairs(3, np.full(2**14, 0.5**14), shifts, np.full(2**14, float(np.log(13 / 14))))
        # points of the full mixture's curve, without inverting it
        tails = full.tails(np.array([-0.5, 0.0, 0.12]))
        alpha, beta = np.exp(tails.p_above), np.exp(tails.q_below)
        assert (compressed(alpha) <= beta + 1e-12).all()
        np.testing.assert_allclose(compressed(alpha), beta, atol=2e-4)

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            ({}, "gradients=None: must be given, or gram"),
            ({"gradients": np.zeros((4, 3)), "gram": np.zeros((4, 4))}, "gram=.*left out where gradients are given"),
            ({"gradients": np.zeros((3, 3))}, "gradients=.?3 rows.*4 rows"),
            ({"gradients": 2.0 * np.ones((4, 3))}, "gradients=.?norm .*clip them"),
            ({"gradients": np.zeros(4)}, "gradients=.?shape"),
            ({"gram": np.zeros((4, 3))}, "gradients=.?shape"),
            ({"gradients": np.full((4, 3), np.nan)}, "gradients=nan"),
        ],
    )
    def test_bad_gradients(self, arguments: dict[str, Any], named: str) -> None:
        with pytest.raises(nm.InvalidInput, match=named):
            nm.per_pair(build(nm.EASGM, 3, 3, 0.5, 1.0), **arguments)


class TestCurves:
    @pytest.mark.parametrize("kind", KINDS)
    def test_arrays_line_up(self, kind: Any) -> None:
        curves = nm.curve(build(kind, 19, 100, 0.1, 1.0), points=11)
        assert curves.alpha.tolist() == np.linspace(0.0, 1.0, 11).tolist()
        for name in ("claimed", "guarantee", "guarantee_tight", "ceiling", "ceiling_clt", "leakage"):
            assert getattr(curves, name).shape == (11,), name
        assert curves.pair in {pair.datasets for pair in nm.leakage(curves.mechanism).pairs}

    def test_agrees_with_each_curve_alone(self) -> None:
        mechanism = build(nm.ASGM, 19, 100, 0.4, 1.0)
        alpha = np.array([0.05, 0.3, 0.9])
        curves = nm.curve(mechanism, alpha)
        ceiling, limit = nm.ceiling(mechanism), nm.ceiling_clt(mechanism)
        assert ceiling is not None
        assert limit is not None
        np.testing.assert_array_equal(curves.guarantee, nm.guarantee(mechanism).lower(alpha))
        np.testing.assert_array_equal(curves.guarantee_tight, nm.guarantee_tight(mechanism).lower(alpha))
        np.testing.assert_array_equal(curves.leakage, nm.leakage(mechanism).upper(alpha))
        np.testing.assert_array_equal(curves.ceiling, ceiling.upper(alpha))
        np.testing.assert_array_equal(curves.ceiling_clt, limit(alpha))

    def test_one_alpha_is_a_list_of_one(self) -> None:
        assert nm.curve(build(nm.EASGM, 3, 10, 0.5, 1.0), 0.5).guarantee.shape == (1,)

    def test_violations_are_proved_where_leakage_is_below_the_claim(self) -> None:
        # large n against N: the denominator gives everything away
        curves = nm.curve(build(nm.EASGM, 10, 100_000, 0.01, 10.0), points=21)
        inner = (curves.alpha > 0.0) & (curves.alpha < 1.0)
        assert curves.violated[inner].all()
        assert float(curves.leakage[10]) < 1e-6 < 0.4 < float(curves.claimed[10])

    @pytest.mark.parametrize("alpha", [-0.1, [0.5, 1.1], float("nan"), "half"])
    def test_bad_alpha(self, alpha: Any) -> None:
        with pytest.raises(nm.InvalidInput, match="alpha="):
            nm.curve(build(nm.EASGM, 3, 10, 0.5, 1.0), alpha)

    @pytest.mark.parametrize("points", [1, 0, -3, 10**7])
    def test_bad_number_of_points(self, points: int) -> None:
        with pytest.raises(nm.InvalidInput, match="points="):
            nm.curve(build(nm.EASGM, 3, 10, 0.5, 1.0), points=points)

    # a curve that turns on each of its batch sizes, and one whose false negatives are next to none
    @pytest.mark.parametrize(
        "mechanism",
        [
            build(nm.EASGM, 30, 2_000, 0.2, 1.0),
            build(nm.EASGM, 89, 19_275, 0.699, 6.69),
            build(nm.FEASGM, 2_000, 100_000, 0.05, 10.0),
        ],
    )
    def test_many_alphas_are_the_same_as_few(self, mechanism: nm.Mechanism) -> None:
        many, few = nm.curve(mechanism, points=1001), nm.curve(mechanism, np.linspace(0.0, 1.0, 101))
        # the lines and chords of tests nearby serve many alphas: to the safe side, and by hardly anything
        assert many.guarantee is not None
        assert few.guarantee is not None
        assert (many.guarantee[::10] <= few.guarantee + 1e-12).all()
        np.testing.assert_allclose(many.guarantee[::10], few.guarantee, rtol=1e-3, atol=2e-6)
        claimed = (many.claimed_ends[1][::10], few.claimed_ends[1])
        assert (claimed[0] >= claimed[1] - 1e-12).all()
        np.testing.assert_allclose(*claimed, rtol=0.0, atol=2e-6)
        # with many alphas a pair that never wins by more than a thousandth may be left out: still sound, hardly weaker
        assert (many.leakage[::10] >= few.leakage - 1e-12).all()
        np.testing.assert_allclose(many.leakage[::10], few.leakage, rtol=2e-3, atol=1e-9)


@pytest.mark.thin(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 1e3, 1e6, 1e9])
@pytest.mark.parametrize(
    ("size", "dimension", "rate"), [(2, 1, 0.5), (3, 2, "0.999999"), (100, 65, 0.9), (100, 10**6, 0.01)]
)
def test_extreme_noise(kind: Any, sigma: float, size: int, dimension: int, rate: Any) -> None:
    """No warning (they are errors here), no crash, and the curves in their order."""
    alpha = np.array([1e-3, 0.01, 0.2, 0.5, 0.9, 1.0])
    curves = nm.curve(build(kind, size, dimension, rate, sigma), alpha)
    for values in (curves.claimed, curves.guarantee, curves.guarantee_tight, curves.leakage):
        assert np.isfinite(values).all()
        assert ((values >= 0.0) & (values <= 1.0 - alpha + 5e-12)).all()
    assert (curves.guarantee <= curves.guarantee_tight).all()
    assert (curves.guarantee_tight <= curves.leakage + 1e-14).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [0.05, 1.0, 50.0])
def test_without_false_alarms_nothing_is_found(kind: Any, sigma: float) -> None:
    # both datasets can produce every output, so T(0) = 1 on every curve
    curves = nm.curve(build(kind, 30, 50, 0.5, sigma), [0.0])
    for values in (curves.claimed, curves.guarantee, curves.guarantee_tight, curves.leakage):
        assert float(values[0]) == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", ["1e-9", "1e-15", "0.999999999999"])
def test_extreme_rates(kind: Any, rate: str) -> None:
    alpha = np.array([0.01, 0.5, 1.0])
    curves = nm.curve(build(kind, 50, 100, rate, 1.0), alpha)
    assert (curves.guarantee <= curves.guarantee_tight).all()
    assert (curves.guarantee_tight <= curves.leakage + 1e-14).all()


@pytest.mark.parametrize("dimension", [8, 12, 16, 24])
@pytest.mark.parametrize(
    ("size", "rate", "sigma"), [(851, "0.0493", 7.95), (486, "0.1531", 12.7), (182, "0.2954", 14.67)]
)
def test_sums_over_sizes_are_as_good_as_charged(dimension: int, size: int, rate: str, sigma: float) -> None:
    """Against all sizes one by one. In few dimensions no polynomial in the size follows the loss."""
    mechanism = build(nm.EASGM, size, dimension, rate, sigma)
    used = batch_shift(mechanism, size, 0.0)
    every = binomial.enumerated(size, mechanism.q)
    shifts = every.sizes / ((size + 1) * sigma)
    exact = GaussianPairs(dimension, every.weights, shifts, np.full_like(shifts, used.log_scales[0]))
    t = np.linspace(-6.0, 6.0, 97) * np.sqrt(2.0 * dimension) / size
    lines = []
    for curve in (used, exact):
        tails = curve.tails(t)
        lines.append(np.exp(tails.q_below) + np.exp(t + tails.p_above))
    charged = used.slack * np.minimum(1.0, np.exp(t)) + used.relative_error * lines[0]
    assert np.all(lines[0] - lines[1] <= charged)
