"""numerics.binomial against mpmath and against plain enumeration."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.special import ndtr

from noisymean.numerics import binomial


def exact_pmf(size: int, count: int, rate: float) -> mpf:
    q = mpf(rate)
    log_mass = (
        mpmath.loggamma(count + 1)
        - mpmath.loggamma(size + 1)
        - mpmath.loggamma(count - size + 1)
        + size * mpmath.log(q)
        + (count - size) * mpmath.log1p(-q)
    )
    return mpmath.exp(log_mass)


@pytest.mark.parametrize(
    ("count", "rate"),
    [
        (1, 0.3),
        (2, 0.9),
        (7, 0.5),
        (31, 1e-3),
        (1000, 0.7),
        (59_999, 0.005),
        (10**6, 0.999),
        (10**9, 1e-3),
        (10**9, 0.5),
    ],
)
def test_pmf(count: int, rate: float) -> None:
    mean, deviation = count * rate, np.sqrt(count * rate * (1.0 - rate))
    wanted = {round(mean + z * deviation) for z in (-8.0, -5.0, -2.0, -0.5, 0.0, 1.0, 3.0, 6.0, 8.0)} | {0, 1, count}
    sizes = sorted(size for size in wanted if 0 <= size <= count)
    computed = binomial.pmf(np.array(sizes, dtype=float), count, rate)
    with mpmath.workdps(60):
        for size, mass in zip(sizes, computed.tolist(), strict=True):
            exact = exact_pmf(size, count, rate)
            # count * rate is rounded to a double: eight deviations out that is worth 8 ulp(mean)/deviation
            allowed = 1e-13 + 8.0 * np.spacing(max(mean, 1.0)) / max(deviation, 1.0)
            assert exact < mpf(10) ** -300 or abs(mpf(mass) / exact - 1) < allowed


def test_degenerate_laws() -> None:
    assert binomial.pmf(np.array([0.0, 4.0, 5.0]), 5, 1.0).tolist() == [0.0, 0.0, 1.0]
    assert binomial.pmf(np.array([0.0]), 0, 0.3).tolist() == [1.0]
    for count, rate, only in ((5, 1.0, 5.0), (0, 0.3, 0.0)):
        nodes = binomial.nodes(count, rate, roughness=1.0)
        kept = nodes.weights > 0.0
        assert nodes.sizes[kept].tolist() == [only]
        assert nodes.weights[kept].tolist() == [1.0]


@pytest.mark.parametrize(("count", "rate"), [(50, 0.5), (1000, 0.01), (10**5, 0.005), (10**6, 0.9)])
def test_outside_of_the_effective_range_there_is_nothing(count: int, rate: float) -> None:
    first, last = binomial.effective_range(count, rate)
    assert 0 <= first <= last <= count
    with mpmath.workdps(60):
        outside = mpf(0)
        for start, ratio in ((first - 1, -1), (last + 1, 1)):
            # sum outwards until nothing is left
            size = start
            while 0 <= size <= count:
                mass = exact_pmf(size, count, rate)
                outside += mass
                if mass < mpf(10) ** -40:
                    break
                size += ratio
        assert outside < mpf(10) ** -18


def test_enumerated_weights_add_up() -> None:
    for count, rate in ((3, 0.2), (10_000, 0.3), (59_999, 0.005)):
        nodes = binomial.enumerated(count, rate)
        assert float(nodes.weights.sum()) == pytest.approx(1.0, abs=2e-13)
        assert float(nodes.weights @ nodes.sizes) == pytest.approx(count * rate, rel=1e-12)


class TestGaussRule:
    CASES = ((2_000, 0.3), (59_999, 0.005), (10**6, 0.5), (10**9, 1e-3))

    @pytest.mark.parametrize(("count", "rate"), CASES)
    @pytest.mark.parametrize("roughness", [0.003, 0.1, 0.5, 1.0])
    def test_is_used_and_agrees_with_enumeration(self, count: int, rate: float, roughness: float) -> None:
        short, full = binomial.nodes(count, rate, roughness), binomial.enumerated(count, rate)
        assert short.sizes.size < full.sizes.size / 2
        mean, deviation = count * rate, binomial.deviation(count, rate)
        for offset in (-3.0, -1.0, 0.0, 0.5, 2.5):
            for sign in (-1.0, 1.0):

                def tail(sizes: np.ndarray, slope: float = sign * roughness, at: float = offset) -> np.ndarray:
                    return ndtr(at + slope * (sizes - mean) / deviation)

                difference = short.weights @ tail(short.sizes) - full.weights @ tail(full.sizes)
                assert abs(float(difference)) <= short.slack + full.slack + 2e-14

    @pytest.mark.parametrize(("count", "rate"), CASES)
    def test_integrates_polynomials(self, count: int, rate: float) -> None:
        # central moments of the binomial law: closed forms
        nodes = binomial.nodes(count, rate, roughness=0.1)
        z = (nodes.sizes - count * rate) / binomial.deviation(count, rate)
        skewness = (1 - 2 * rate) / binomial.deviation(count, rate)
        kurtosis = 3.0 + (1 - 6 * rate * (1 - rate)) / (count * rate * (1 - rate))
        for power, moment in ((0, 1.0), (1, 0.0), (2, 1.0), (3, skewness), (4, kurtosis)):
            assert float(nodes.weights @ z**power) == pytest.approx(moment, abs=3e-12)

    def test_nodes_stay_where_sizes_are(self) -> None:
        for count, rate in self.CASES:
            sizes = binomial.nodes(count, rate, roughness=0.5).sizes
            assert sizes.min() >= 0.0
            assert sizes.max() <= count

    @pytest.mark.parametrize("roughness", [10.0, 1e3, 1e9, 1e20])
    def test_rough_functions_are_enumerated(self, roughness: float) -> None:
        nodes = binomial.nodes(300, 0.4, roughness)
        assert np.array_equal(nodes.sizes, np.round(nodes.sizes))
        assert float(nodes.weights.sum()) == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize(
    ("count", "rate", "steepness"), [(10**6, 0.3, 1e-3), (4 * 10**6, 0.05, 5e-4), (10**5, 0.5, 2e-3)]
)
def test_every_mth_size(count: int, rate: float, steepness: float) -> None:
    """A sum over fewer sizes is the sum over all of them, where a threshold moves slowly with the size."""
    few, every = binomial.lattice(count, rate, steepness), binomial.enumerated(count, rate, binomial.NEVER_MISSED)
    assert few.sizes.size < 0.6 * every.sizes.size
    for offset in (-3.0, 0.0, 0.7):
        sums = [
            float(nodes.weights @ ndtr(offset + steepness * (nodes.sizes - count * rate))) for nodes in (few, every)
        ]
        assert sums[0] == pytest.approx(sums[1], rel=3e-13)


@pytest.mark.parametrize(
    ("count", "rate", "sigma"), [(10_000, 0.5, 20.0), (140_199, 0.005, 10.0), (10**7, 0.01, 300.0)]
)
def test_a_lattice_that_may_miss_more_has_fewer_sizes(count: int, rate: float, sigma: float) -> None:
    """Off by no more than was asked for: where every term is below it, down to there."""
    few, every = binomial.lattice(count, rate, 1.0 / sigma, 1e-30), binomial.enumerated(count, rate, 1e-45)
    assert few.sizes.size < 0.5 * every.sizes.size
    deviation = np.hypot(binomial.deviation(count, rate), sigma)
    for deviations in (-12.0, -9.0, -3.0, 0.0, 6.0):
        at = count * rate + deviations * deviation
        sums = [float(nodes.weights @ ndtr((at - nodes.sizes) / sigma)) for nodes in (few, every)]
        assert abs(sums[0] - sums[1]) <= 1e-30 + 3e-13 * sums[1]


def test_where_a_threshold_moves_fast_every_size_is_taken() -> None:
    assert (
        binomial.lattice(10**5, 0.5, 0.5).sizes.size
        == binomial.enumerated(10**5, 0.5, binomial.NEVER_MISSED).sizes.size
    )
