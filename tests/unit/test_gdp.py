"""mu-GDP of a run: below the curve at every error rate, no more than is needed, and a regret that is never too small."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

import many_rounds_oracles
import noisymean as nm
from noisymean import gdp
from noisymean.gdp import LARGEST_MU, MOST_ACCOUNTS, SLACK, SMALL_REGRET, Deltas, GaussianDP, delta_of, fit, gaussian_dp
from oracles import lower_hull
from sampling_oracle import gaussian_delta, gaussian_epsilon
from truth import Configuration, Setting, truth

Array = np.ndarray
ALPHA = np.concatenate([np.logspace(-14, -3, 45), np.linspace(0.002, 0.998, 499), 1.0 - np.logspace(-3, -9, 13)])


def gaussian_curve(mu: float, alpha: Array) -> Array:
    """T(N(0, 1), N(mu, 1)), by the distribution functions."""
    return np.asarray(ndtr(-ndtri(alpha) - mu))


def least_mu_at(epsilons: Array, deltas: Array) -> float:
    """What no mu that is right can be smaller than, from deltas at some epsilons."""

    def lacking(mu: float) -> float:
        return max(d - SLACK - gaussian_delta(mu, e) for e, d in zip(epsilons.tolist(), deltas.tolist(), strict=True))

    return float(brentq(lacking, 1e-6, LARGEST_MU, xtol=1e-9))


def regret_at(mu: float, epsilons: Array, deltas: Array) -> float:
    """What no regret that is right can be smaller than."""
    each = zip(epsilons.tolist(), deltas.tolist(), strict=True)
    return max((gaussian_delta(mu, e) - d) / (1.0 + math.exp(e)) for e, d in each)


# --- laws on a few outcomes: every test is known --------------------------------------------------------------------------------


def two_laws(seed: int) -> tuple[Array, Array]:
    """Two laws on three to nine outcomes that both may have, some of them nearly equal and some far apart."""
    rng = np.random.default_rng(seed)
    size, spread = int(rng.integers(3, 10)), float(rng.choice([0.1, 0.5, 1.5, 3.0]))
    p = rng.dirichlet(np.ones(size)) + 1e-6
    q = p * np.exp(rng.normal(0.0, spread, size))
    return p / p.sum(), q / q.sum()


def worse_delta(p: Array, q: Array) -> Callable[[float], float]:
    """delta of the worse direction."""

    def found(epsilon: float) -> float:
        s = math.exp(epsilon)
        return float(max(np.maximum(q - s * p, 0.0).sum(), np.maximum(p - s * q, 0.0).sum()))

    return found


class LeastCurve:
    """The convex curve below those of both directions, from the errors of all tests of either."""

    def __init__(self, p: Array, q: Array) -> None:
        tests = np.array(list(itertools.product((0.0, 1.0), repeat=p.size)))
        false_alarms, missed = tests @ p, (1.0 - tests) @ q
        self.x, self.y = np.concatenate([false_alarms, missed]), np.concatenate([missed, false_alarms])

    def __call__(self, alpha: Array) -> Array:
        return lower_hull(self.x, self.y, alpha)


def exactly(delta: Callable[[float], float]) -> Callable[[float], Deltas]:
    return lambda epsilon: Deltas(delta(epsilon), delta(epsilon))


@pytest.mark.parametrize("seed", range(40))
def test_of_finite_laws_it_is_below_the_curve_of_every_test_and_close(seed: int) -> None:
    p, q = two_laws(seed)
    delta, most = worse_delta(p, q), float(np.abs(np.log(q / p)).max())
    found = fit(exactly(delta), most)
    assert found is not None
    mu, regret = found
    # all 2^m tests know nothing of deltas
    curve = LeastCurve(p, q)
    assert np.all(curve(ALPHA) >= gaussian_curve(mu, ALPHA) - SLACK)
    epsilons = np.linspace(0.0, most, 400)
    deltas = np.array([delta(one) for one in epsilons.tolist()])
    assert mu <= least_mu_at(epsilons, deltas) * 1.02
    # the definition by error rates, Gomez et al.: the least kappa with f(alpha + kappa) - kappa <= G_mu(alpha)
    shift = least_shift(curve, mu)
    assert shift - 1e-9 <= regret <= shift + 2e-3
    assert regret_at(mu, epsilons, deltas) <= regret


def least_shift(curve: LeastCurve, mu: float) -> float:
    """By bisection, on the grid of error rates."""
    below = gaussian_curve(mu, ALPHA)

    def enough(kappa: float) -> bool:
        return bool(np.all(curve(np.minimum(ALPHA + kappa, 1.0)) - kappa <= below))

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return low


@pytest.mark.parametrize("seed", range(20))
def test_what_the_bounds_do_not_know_makes_mu_and_regret_larger(seed: int) -> None:
    p, q = two_laws(seed)
    delta, most = worse_delta(p, q), float(np.abs(np.log(q / p)).max())
    exact = fit(exactly(delta), most)

    def loose(epsilon: float) -> Deltas:
        known = delta(epsilon)
        # in no order, as those of several proofs may be
        return Deltas(
            known * (0.7 + 0.2 * math.sin(9.0 * epsilon)), min(known * (1.3 + 0.2 * math.cos(7.0 * epsilon)), 1.0)
        )

    found = fit(loose, most)
    assert exact is not None
    assert found is not None
    mu, regret = found
    assert np.all(LeastCurve(p, q)(ALPHA) >= gaussian_curve(mu, ALPHA) - SLACK)
    epsilons = np.linspace(0.0, most, 400)
    deltas = np.array([delta(one) for one in epsilons.tolist()])
    assert regret_at(mu, epsilons, deltas) <= regret
    # and not without limit
    assert mu <= 3.0 * exact[0]


@pytest.mark.parametrize("seed", range(60))
def test_the_regret_of_few_loose_points_is_not_below_that_of_the_curve(seed: int) -> None:
    """Lines from both sides, whose ends are known from above and below only: none is above delta."""
    p, q = two_laws(seed)
    delta, most = worse_delta(p, q), float(np.abs(np.log(q / p)).max())
    rng = np.random.default_rng(seed)
    epsilon = np.concatenate([[0.0], np.sort(rng.uniform(0.0, most, 4)), [most]])
    exact = np.array([delta(one) for one in epsilon.tolist()])
    # every other bound is tight, which is where a line with a wrong slope would be above the curve
    tight = rng.integers(0, 2, 6).astype(bool)
    lower = np.where(tight, exact, exact * rng.uniform(0.0, 0.9, 6))
    upper = np.where(rng.integers(0, 2, 6).astype(bool), exact, np.minimum(exact * rng.uniform(1.1, 2.0, 6), 1.0))
    points = gdp._known(
        {e: Deltas(low, high) for e, low, high in zip(epsilon.tolist(), lower.tolist(), upper.tolist(), strict=True)},
        SLACK,
    )
    at = np.linspace(0.0, most, 600)
    deltas = np.array([delta(one) for one in at.tolist()])
    for mu in (0.3, 1.0, 3.0):
        for i, part in enumerate(gdp._parts(points, mu)):
            inside = (at >= epsilon[i]) & (at <= epsilon[i + 1])
            if inside.any():
                assert part.most >= regret_at(mu, at[inside], deltas[inside]) - 1e-12


def test_where_proofs_say_nothing_at_epsilon_0_symmetry_does() -> None:
    """Randomised response with e^eps = 3: delta(0) = 1/2, and alpha = beta = 1/4 is its only corner (Wasserman and Zhou 2010)."""
    response = np.array([0.75, 0.25])
    delta = worse_delta(response, response[::-1])

    def weak(epsilon: float) -> Deltas:
        known = delta(epsilon)
        return Deltas(known, 1.0 if epsilon == 0.0 else known)

    found = fit(weak, math.log(3.0))
    assert found is not None
    # G_mu has to pass below that corner
    corner = -2.0 * float(ndtri(0.25))
    assert corner * (1.0 - 1e-8) <= found[0] <= corner * 1.01


# --- Gaussian curves --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.4, 1.0, 3.0, 6.0, 10.0])
def test_of_a_gaussian_curve_it_is_that_curve(mu: float) -> None:
    asked = []

    def profile(epsilon: float) -> Deltas:
        asked.append(epsilon)
        return Deltas(gaussian_delta(mu, epsilon), gaussian_delta(mu, epsilon))

    found = fit(profile, gaussian_epsilon(mu, 0.5 * SLACK))
    assert found is not None
    # as much smaller as the slack allows where delta is steepest in mu
    assert mu - 3.0 * SLACK / 0.3 <= found[0] <= mu * 1.01
    assert found[1] <= 2e-3
    assert len(asked) == len(set(asked)) <= MOST_ACCOUNTS


def test_delta_of_a_gaussian_curve_is_that_of_the_distribution_functions() -> None:
    for mu in (0.01, 1.0, 12.0):
        epsilons = np.linspace(0.0, 8.0 * mu + 0.5 * mu * mu, 50)
        closed = [gaussian_delta(mu, one) for one in epsilons.tolist()]
        assert delta_of(mu, epsilons) == pytest.approx(closed, rel=1e-9, abs=1e-16)


@pytest.mark.parametrize(("largest", "what"), [(300.0, 0.9), (5_000.0, 0.999), (1e5, 1.0)])
def test_there_is_none_where_it_would_say_nothing(largest: float, what: float) -> None:
    """Nothing or nearly all of it is known up to an epsilon far out, where e^eps may be no double any more."""
    assert fit(lambda epsilon: Deltas(0.0, what if epsilon < largest else 0.0), largest) is None
    assert fit(lambda epsilon: Deltas(what, what) if epsilon < largest else Deltas(0.0, 0.0), largest) is None


def test_where_hardly_anything_is_lost_there_is_next_to_none() -> None:
    found = fit(lambda _: Deltas(0.0, 0.4 * SLACK), 0.0)
    assert found is not None
    assert found[0] <= 1e-6
    assert found[1] <= 1e-6


# --- runs -------------------------------------------------------------------------------------------------------------------


def test_composed_gaussians_have_a_closed_form_and_no_regret() -> None:
    """Dong, Roth and Su 2022, Corollary 3.3: squares add; rounded up, exactly."""
    schedules = [[(0.3, 7)], [(1.1, 100)], [(7.0, 3), (0.9, 11)], [(math.pi, 12_345), (1e9, 1), (123.456, 10)]]
    for schedule in schedules:
        run = [(nm.SGM(sample_rate=1, noise_multiplier=sigma), steps) for sigma, steps in schedule]
        found = gaussian_dp(nm.account(run, delta=1e-5))
        squares = sum(Fraction(steps) / Fraction(sigma) ** 2 for sigma, steps in schedule)
        assert found.mu is not None
        assert squares <= Fraction(found.mu) ** 2 <= squares * (1 + Fraction(1, 10**15))
        assert (found.regret, found.slack, found.everywhere, found.fits) == (0.0, 0.0, found.mu, True)


@pytest.mark.parametrize(("rate", "sigma", "steps"), [(0.01, 1.0, 1000), (0.2, 3.0, 300), (0.05, 2.0, 100)])
def test_of_the_noisy_sum_it_is_sound_and_close_by_another_integral(rate: float, sigma: float, steps: int) -> None:
    found = gaussian_dp(nm.account(nm.SGM(sample_rate=rate, noise_multiplier=sigma), steps=steps, delta=1e-5))
    assert found.mu is not None
    assert found.regret is not None
    rounds = [(steps, many_rounds_oracles.subsampled_gaussian(rate, sigma))]
    epsilons = np.linspace(0.02, gaussian_epsilon(found.mu, 2.0 * SLACK), 40)
    deltas = np.array(
        [max(many_rounds_oracles.delta(rounds, one, reverse=way) for way in (False, True)) for one in epsilons.tolist()]
    )
    # the oracle is good to some eight digits
    assert all(
        d <= gaussian_delta(found.mu, e) * (1.0 + 1e-7) + SLACK
        for e, d in zip(epsilons.tolist(), deltas.tolist(), strict=True)
    )
    assert found.mu <= least_mu_at(epsilons, deltas) * 1.01
    seen = regret_at(found.mu, epsilons, deltas)
    assert seen - 1e-9 <= found.regret <= seen * 1.1 + 5e-4
    # no less than without the slack, which is what sampling does not help against
    assert found.everywhere == pytest.approx(math.sqrt(steps) / sigma, rel=1e-12)


def test_two_rounds_to_25_digits() -> None:
    rate, sigma = 0.1, 1.0
    found = gaussian_dp(nm.account(nm.SGM(sample_rate=rate, noise_multiplier=sigma), steps=2, delta=1e-5))
    assert found.mu is not None
    assert found.regret is not None
    for epsilon in (0.1, 0.5, 1.5, 3.0, 5.0):
        delta = float(max(many_rounds_oracles.two_subsampled_rounds(rate, sigma, epsilon)))
        assert delta <= gaussian_delta(found.mu, epsilon) + SLACK
        assert (gaussian_delta(found.mu, epsilon) - delta) / (1.0 + math.exp(epsilon)) <= found.regret


def test_of_a_noisy_mean_it_covers_what_every_known_pair_loses() -> None:
    """Both neighbours, both directions: delta of explicit pairs by cells and transforms, from below."""
    size, rate, sigma, steps = 1_000, Fraction(1, 20), 1.0, 100
    run = nm.EASGM(dataset_size=size, dimension=1_000, sample_rate=rate, noise_multiplier=sigma)
    found = gaussian_dp(nm.account(run, steps=steps, delta=1e-5))
    assert found.mu is not None
    epsilons = np.linspace(0.0, gaussian_epsilon(found.mu, 1e-7), 25)
    lost = np.zeros(25)
    for smaller in (size - 1, size):
        setting = Setting("easgm", smaller, 1_000, rate, None, sigma, steps, 1e-7)
        for pair in (Configuration(0, 1.0), Configuration(1, 1.0, orthogonal=True)):
            it = truth(setting, pair)
            for backward in (False, True):
                lost = np.maximum(lost, [it.delta(one, backward=backward)[0] for one in epsilons.tolist()])
    assert np.all(lost <= delta_of(found.mu, epsilons) + SLACK)
    # what is guaranteed is not what leaks, but not far from it
    assert found.mu <= 1.1 * least_mu_at(epsilons, lost)


def test_neighbours_are_those_of_the_account() -> None:
    """-C u in place of C u moves the mean by 2 C; over a constant and all records that is G of 2 sqrt(T)/sigma."""
    whole = nm.SGM(sample_rate=1, noise_multiplier=10)
    replaced = gaussian_dp(nm.account(whole, steps=25, delta=1e-5, adjacency=nm.Adjacency.REPLACE_ONE))
    assert replaced.mu is not None
    assert replaced.mu >= 1.0 - 1e-6
    assert replaced.everywhere is None
    zeroed = gaussian_dp(nm.account(whole, steps=25, delta=1e-5, adjacency=nm.Adjacency.ZERO_OUT))
    assert zeroed == GaussianDP(0.5, 0.0, 0.0, 0.5)
    # of a dataset with fewer records one more is a larger part
    run = nm.EASGM(dataset_size=5, dimension=100, sample_rate=1, noise_multiplier=5)
    larger, both = (gaussian_dp(nm.account(run, steps=1, delta=1e-5, pair=one)).mu for one in (nm.Pair.LARGER, None))
    assert larger is not None
    assert both is not None
    assert both > 1.05 * larger


@pytest.mark.parametrize(
    ("mechanism", "steps", "adjacency"),
    [
        (nm.SGM(sample_rate=0.05, noise_multiplier=2), 200, nm.Adjacency.REPLACE_ONE),
        (nm.EASGM(dataset_size=50, dimension=20, sample_rate=1, noise_multiplier=5), 3, None),
        (nm.SGM(sample_rate=0.1, noise_multiplier=2, sampling="fixed-size", dataset_size=50, batch_size=5), 1, None),
    ],
)
def test_between_the_points_that_were_asked_it_contradicts_no_account(
    mechanism: nm.Mechanism, steps: int, adjacency: nm.Adjacency | None
) -> None:
    """What leaks is not above mu, and the regret is not below what the guarantee leaves of it."""
    found = gaussian_dp(nm.account(mechanism, steps=steps, delta=1e-5, adjacency=adjacency))
    assert found.mu is not None
    assert found.regret is not None
    for epsilon in (np.array([0.013, 0.11, 0.37, 0.71, 0.93]) * gaussian_epsilon(found.mu, SLACK)).tolist():
        answer = nm.account(mechanism, steps=steps, epsilon=epsilon, adjacency=adjacency)
        delta = gaussian_delta(found.mu, epsilon)
        assert answer.leakage.delta is not None
        assert answer.guarantee.delta is not None
        assert answer.leakage.delta <= delta + SLACK
        assert (delta - answer.guarantee.delta) / (1.0 + math.exp(epsilon)) <= found.regret


def test_it_is_the_same_whichever_of_epsilon_and_delta_was_given() -> None:
    mechanism = nm.SGM(sample_rate=0.01, noise_multiplier=1)
    at_delta, at_epsilon = (
        gaussian_dp(nm.account(mechanism, steps=1, delta=1e-5)),
        gaussian_dp(nm.account(mechanism, steps=1, epsilon=1.0)),
    )
    assert at_delta == at_epsilon
    assert at_delta.mu is not None


LOADER = nm.OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1)
LARGE = nm.EASGM(dataset_size=10, dimension=10**12, sample_rate="1/10", noise_multiplier=1)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        # epsilon is about 3,000: e^eps is no double
        (lambda: nm.account(LOADER, steps=1000, delta=1e-5), "none up to 12.7 is known to hold"),
        (lambda: nm.account(LARGE, steps=1, delta=1e-5), "no guarantee is known"),
        (lambda: nm.account(LARGE, steps=1, epsilon=1.0), "no finite ε is guaranteed"),
        (lambda: nm.account(nm.SGM(sample_rate=0.1, noise_multiplier=1), steps=1, delta=1e-10), "too close to that"),
    ],
)
def test_where_there_is_none_it_says_why(answer: Callable[[], nm.Account], reason: str) -> None:
    found = gaussian_dp(answer())
    assert (found.mu, found.regret, found.fits) == (None, None, False)
    assert reason in str(found.why)


def test_the_largest_is_where_both_error_rates_are_the_slack() -> None:
    assert gaussian_curve(LARGEST_MU, np.array([SLACK])) == pytest.approx([SLACK], rel=1e-6)


def test_what_fits_is_what_gomez_and_others_advise() -> None:
    assert SMALL_REGRET == 1e-2
    assert GaussianDP(1.0, 0.0099).fits
    assert not GaussianDP(1.0, 0.01).fits


def test_it_is_close_to_what_gdpnum_documents() -> None:
    """github.com/interpretable-dp/gdpnum, README: sigma = 9.4, q = 0.328, 2,000 steps."""
    found = gaussian_dp(nm.account(nm.SGM(sample_rate=0.328, noise_multiplier=9.4), steps=2000, delta=1e-5))
    assert found.mu == pytest.approx(1.5685621993129137, rel=5e-3)
    assert found.regret == pytest.approx(0.00102, abs=1e-3)
    assert found.fits


def test_progress_is_told_for_every_account() -> None:
    told: list[int] = []
    gaussian_dp(nm.account(nm.SGM(sample_rate=0.5, noise_multiplier=1), steps=1, delta=1e-5), lambda: told.append(1))
    assert 13 <= len(told) <= MOST_ACCOUNTS
