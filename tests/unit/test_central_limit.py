"""central_limit: kl, kappa_2, kappa_3 by their definitions, and the inequality they serve."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mpf

import oracles
from noisymean.central_limit import BERRY_ESSEEN, central_limit
from noisymean.laws.closed import Gaussian
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.hulls import symmetrized_maximum

STEPS = (1, 2, 4, 999, 59_999)


@pytest.mark.parametrize("step", STEPS)
def test_functionals_against_their_definitions(step: int) -> None:
    # integrals of powers of log|bar f'(alpha)| over alpha, 30 digits (tests/oracles.py)
    exact = oracles.functionals_of_symmetrised(step)
    computed = central_limit(step, copies=1)
    for name in ("kl", "kappa2", "kappa3"):
        reference = getattr(exact, name)
        assert abs(mpf(getattr(computed, name)) / reference - 1) < 1e-13, name


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("copies", [1, 99, 10**6, 10**12])
def test_mu_and_gamma_follow_from_them(step: int, copies: int) -> None:
    # Dong, Roth and Su 2022, Theorem 5, for equal summands
    limit = central_limit(step, copies)
    variance = copies * (limit.kappa2 - limit.kl**2)
    assert limit.mu == pytest.approx(2.0 * copies * limit.kl / np.sqrt(variance), rel=1e-12)
    assert limit.gamma == pytest.approx(BERRY_ESSEEN * copies * limit.kappa3 / variance**1.5, rel=1e-12)
    assert BERRY_ESSEEN == 0.56


@pytest.mark.parametrize(("step", "copies"), [(1, 3_000), (4, 10_000), (999, 20_000), (999, 10**6), (59_999, 10**9)])
def test_the_inequality_holds_for_the_exact_curve(step: int, copies: int) -> None:
    limit = central_limit(step, copies)
    assert limit.gamma < 0.5, "pick a case in which the theorem says something"
    alpha = np.linspace(0.0, 1.0, 1001)
    bound = limit(alpha)
    defined = ~np.isnan(bound)
    assert np.array_equal(defined, (alpha >= limit.gamma) & (alpha <= 1.0 - limit.gamma))
    # f^n <= bar f^n <= G_mu(alpha - gamma) + gamma, in both directions as bar f is symmetric
    exact = gaussian_pair(copies, 0.0, log_scale=-float(np.log1p(1.0 / step)))
    assert (symmetrized_maximum(exact)(alpha[defined]) <= bound[defined] + 1e-12).all()


def test_where_gamma_is_too_large_nothing_is_claimed() -> None:
    limit = central_limit(4, copies=1)
    assert limit.gamma >= 0.5
    assert np.isnan(limit(np.linspace(0.0, 1.0, 11))).all()


def test_the_value_is_the_formula() -> None:
    limit = central_limit(999, 10**6)
    for alpha in (0.2, 0.5, 0.8):
        expected = float(Gaussian(limit.mu)(alpha - limit.gamma)) + limit.gamma
        assert float(limit(np.array([alpha]))[0]) == pytest.approx(expected, rel=1e-13)
        mixed = central_limit(999, 10**6, rate=0.3)(np.array([alpha]))[0]
        assert float(mixed) == pytest.approx(0.3 * expected + 0.7 * (1.0 - alpha), rel=1e-13)


def test_gamma_falls_and_mu_rises_with_the_dimension() -> None:
    limits = [central_limit(99, copies) for copies in (10, 1_000, 100_000)]
    assert sorted(limit.mu for limit in limits) == [limit.mu for limit in limits]
    assert sorted((limit.gamma for limit in limits), reverse=True) == [limit.gamma for limit in limits]
    # both by the square root of the number of copies
    assert limits[1].mu / limits[0].mu == pytest.approx(10.0, rel=1e-12)
    assert limits[0].gamma / limits[1].gamma == pytest.approx(10.0, rel=1e-12)
