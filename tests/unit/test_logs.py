"""numerics.logs against 50 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from noisymean.numerics.logs import log1mexp, log1pmx, log_difference, log_of_sum, log_weighted_sum, x_minus_arctan

FULL_PRECISION = 4e-15


def relative_error(computed: np.ndarray, reference: list[mpf]) -> float:
    return max(float(abs(mpf(float(c)) - r) / abs(r)) for c, r in zip(computed, reference, strict=True))


TINY_TO_LARGE = np.concatenate([np.logspace(-150, -1, 60), np.linspace(0.1, 0.15, 21), np.logspace(-0.8, 12, 60)])


def test_log1pmx() -> None:
    x = np.concatenate([TINY_TO_LARGE, -TINY_TO_LARGE[TINY_TO_LARGE < 1.0], [-0.999999, -1.0 + 2.0**-53]])
    with mpmath.workdps(350):
        reference = [mpmath.log1p(mpf(v)) - mpf(v) for v in x.tolist()]
        assert relative_error(log1pmx(x), reference) < FULL_PRECISION
    assert log1pmx(0.0) == 0.0
    assert log1pmx(-1.0) == -np.inf


def test_log1pmx_does_not_depend_on_its_neighbours() -> None:
    # the number of series terms is chosen from the largest element of the array
    alone = float(log1pmx(np.array([0.11]))[0])
    assert float(log1pmx(np.array([1e-12, 0.11, 3.0]))[1]) == pytest.approx(alone, rel=1e-15)


def test_x_minus_arctan() -> None:
    positive = TINY_TO_LARGE[TINY_TO_LARGE > 1e-90]
    x = np.concatenate([positive, -positive])
    with mpmath.workdps(350):
        reference = [mpf(v) - mpmath.atan(mpf(v)) for v in x.tolist()]
        # just outside of the series' radius, 1/8, the direct formula loses the factor 3/x^2 = 192: two digits of an arctan, which
        # is good to half a unit in its last place, to a whole one before numpy 2
        ulp = 2.0**-53 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 2.0**-52
        assert relative_error(x_minus_arctan(x), reference) < 192 * ulp


def test_log1mexp() -> None:
    x = -np.concatenate([np.logspace(-300, -1, 80), np.linspace(0.5, 0.8, 31), np.logspace(0, 2.84, 40)])
    with mpmath.workdps(700):
        reference = [mpmath.log(-mpmath.expm1(mpf(v))) for v in x.tolist()]
        assert relative_error(log1mexp(x), reference) < FULL_PRECISION
    assert log1mexp(0.0) == -np.inf
    assert log1mexp(-np.inf) == 0.0


def test_log_difference() -> None:
    cases = [(0.0, -1.0), (-5.0, -5.0 - 1e-9), (-700.0, -701.0), (3.0, -800.0), (-1e-12, -40.0)]
    with mpmath.workdps(400):
        for larger, smaller in cases:
            reference = mpmath.log(mpmath.exp(mpf(larger)) - mpmath.exp(mpf(smaller)))
            assert abs(mpf(float(log_difference(larger, smaller))) - reference) < 1e-15 * (1 + abs(reference))
    assert log_difference(-2.0, -2.0) == -np.inf
    assert log_difference(-3.0, -2.0) == -np.inf
    assert log_difference(-2.0, -np.inf) == -2.0
    assert log_difference(-np.inf, -np.inf) == -np.inf


def test_log_weighted_sum() -> None:
    weights, values = [0.2, 0.5, 0.3, 0.0], [[-1000.0, 0.0], [-1001.0, -3.0], [-np.inf, -800.0], [5.0, 5.0]]
    with np.errstate(divide="ignore"):
        computed = log_weighted_sum(np.log(weights), np.array(values))
    for column, result in enumerate(computed.tolist()):
        terms = [mpf(w) * mpmath.exp(mpf(row[column])) for w, row in zip(weights, values, strict=True)]
        assert abs(mpf(result) - mpmath.log(sum(terms))) < 1e-13
    assert log_weighted_sum(np.zeros(2), np.full((2, 3), -np.inf)).tolist() == [-np.inf] * 3


@pytest.mark.parametrize("scale", [0.02, 1.0, 40.0])
@pytest.mark.parametrize("count", [3, 700])
def test_log_of_sum(count: int, scale: float) -> None:
    """Bumps of one scale, weights over many decades and one of none: all terms at 30 digits, though most are left out."""
    generator = np.random.default_rng(count)
    means, logs = np.sort(generator.uniform(-9.0, 9.0, count)), generator.uniform(-60.0, 0.0, count)
    logs[1] = -np.inf

    def terms(x: np.ndarray, which: slice) -> np.ndarray:
        return np.asarray(logs[which] - 0.5 * np.square((x[:, None] - means[which]) / scale))

    x = np.linspace(-14.0, 14.0, 4_001)
    computed = log_of_sum(x, count, terms)
    with mpmath.workdps(30):
        for i in range(0, x.size, 160):
            z = [(mpf(float(x[i])) - mpf(m)) / mpf(scale) for m in means.tolist()]
            total = sum(mpmath.exp(mpf(w) - t * t / 2) for w, t in zip(logs.tolist(), z, strict=True))
            exact = mpmath.log(total)
            assert abs(mpf(float(computed[i])) - exact) < 1e-14 * (10 + abs(exact))
