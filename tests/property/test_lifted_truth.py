"""No set of gradients leaks more than the lift says: truth from below (tests/lift_oracle.py) against upper bounds.

A run is drawn from its number, up to 30 records and 5 rounds in one or two dimensions, whatever moves between the neighbours
(tests/lift_cases.py), and judged on five sets of gradients: 50 runs with 250 sets in `make test`, 2,000 runs with 10,000 sets in `make test-all`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import noisymean as nm
import truth as line_truth
from lift_cases import Case, adaptive_faults, drawn, faults, lifted, refuted
from lift_oracle import Gradients, Moved, Truth, adaptive_truth, families, gradients_of, tradeoff, truth
from noisymean import lifted as the_theorem
from noisymean.accountant import Question, guaranteed_one_way
from noisymean.laws.coins import Block, fair
from noisymean.laws.gaussian import gaussian_pair
from noisymean.lift import Cells
from noisymean.planned import Moving
from noisymean.runs import Run
from noisymean.tradeoff import Side

DIRECTIONS = (False, True)
FEW, MANY = 50, 2000


def assert_none(found: Iterable[str]) -> None:
    told = list(found)
    assert not told, "\n".join([f"{len(told)} faults", *told])


@pytest.mark.parametrize("number", range(FEW))
def test_no_gradients_leak_more_than_the_lift_says(number: int) -> None:
    assert_none(faults(number, thorough=False))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(MANY // 20))
def test_no_gradients_of_many_more_runs_leak_more(block: int) -> None:
    assert_none(fault for number in range(20 * block, 20 * block + 20) for fault in faults(number))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, 400, 8))
def test_nor_do_they_whatever_is_asked(number: int) -> None:
    """Both directions, three deltas, delta at an epsilon, f(alpha), and the best of all proofs."""
    assert_none(faults(number, thorough=True))


@pytest.mark.parametrize("number", [3, 15])
def test_gradients_may_follow_what_was_released(number: int) -> None:
    assert_none(adaptive_faults(number))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100))
def test_gradients_may_follow_what_was_released_in_many_more_runs(number: int) -> None:
    assert_none(adaptive_faults(number))


@pytest.mark.parametrize("backward", DIRECTIONS)
@pytest.mark.parametrize("with_a_sum", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [6, 25])
def test_a_schedule_leaks_no_more_than_it_says(size: int, with_a_sum: bool, backward: bool) -> None:
    """Segments of other rates and noises, and one that does not move: the sum of independent losses."""
    shrink = size / (size + 1)
    told = [(0.2, 1.5, 2), (0.4, 3.0, 1)]
    common: dict[str, Any] = {"dataset_size": size, "dimension": 1}
    run: list[tuple[Any, int]] = [
        (nm.EASGM(sample_rate=rate, noise_multiplier=sigma, **common), steps) for rate, sigma, steps in told
    ]
    moves = [(Moved(rate, rate, shrink, shrink, sigma), steps) for rate, sigma, steps in told]
    if with_a_sum:
        run.append((nm.SGM(sample_rate=0.3, noise_multiplier=2.0, **common), 1))
        moves.append((Moved(0.3, 0.3, 1.0, 1.0, 2.0), 1))
    generator = np.random.default_rng(0)
    for delta in (1e-2, 1e-5):
        if with_a_sum:
            epsilon = guaranteed_one_way(Run.of(run, None), Question(delta), reverse=backward).value
        else:
            rounds = the_theorem.LiftedRounds(tuple(Moving(one, steps) for one, steps in run))
            epsilon = (rounds.inverse() if backward else rounds).epsilon(delta, Side.ABOVE)
        for family in families(size, 1):
            gradients = gradients_of(family, size, 1, generator)
            parts = [
                (steps, axis.losses(backward=backward)) for moved, steps in moves for axis in gradients.axes(moved)
            ]
            assert Truth([parts]).delta(epsilon) <= delta, (family, delta, Truth([parts]).epsilon(delta), epsilon)


# --- the test has teeth: without coins, or with half of their variance, it fails -------------------------------------------


def of_easgm(size: int, dimension: int, rate: float, sigma: float, steps: int, families: tuple[str, ...]) -> Case:
    mechanism = nm.EASGM(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    generator = np.random.default_rng(0)
    shrink = size / (size + 1)
    sets = tuple((name, gradients_of(name, size, dimension, generator)) for name in families)
    return Case(0, mechanism, Moved(rate, rate, shrink, shrink, sigma), steps, sets)


def violations(case: Case, delta: float, *, backward: bool) -> list[str]:
    told = {"lift": lifted(case, backward=backward).epsilon(delta, Side.ABOVE)}
    assert math.isfinite(told["lift"])
    return list(refuted(case, told, delta, backward=backward))


OPPOSED = ("zero", "opposed")


@pytest.mark.parametrize("backward", DIRECTIONS)
@pytest.mark.parametrize(
    ("case", "delta"),
    [
        (of_easgm(30, 1, 0.5, 2.0, 3, OPPOSED), 1e-2),
        (of_easgm(20, 1, 0.5, 3.0, 5, OPPOSED), 1e-5),
        (of_easgm(30, 1, 0.2, 2.0, 5, OPPOSED), 1e-5),
        (of_easgm(200, 2, 0.5, 10.0, 100, ("orthogonal",)), 1e-5),
    ],
)
def test_without_the_coins_it_would_be_wrong(
    case: Case, delta: float, backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not violations(case, delta, backward=backward)
    monkeypatch.setattr(the_theorem, "_blocks", lambda *_, **__: iter([fair()]))
    assert violations(case, delta, backward=backward)


@pytest.mark.parametrize("backward", DIRECTIONS)
def test_with_half_of_their_budget_it_would_be_wrong(backward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many rounds the budget is hardly above its mean, and opposed gradients need more than half of it."""
    case = of_easgm(200, 2, 0.5, 10.0, 100, OPPOSED)
    assert not violations(case, 1e-5, backward=backward)
    whole = Cells.budget
    monkeypatch.setattr(Cells, "budget", lambda *of: 0.5 * whole(*of))
    assert violations(case, 1e-5, backward=backward)


@pytest.mark.parametrize(
    ("size", "rate", "sigma", "steps", "delta"), [(20, 0.5, 3.0, 5, 1e-5), (30, 0.2, 2.0, 5, 1e-5)]
)
def test_with_half_of_their_mean_variance_it_would_be_wrong(
    size: int, rate: float, sigma: float, steps: int, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rounds: a Gaussian of half of the variance that coins of bias 1/N have, in place of a bound."""
    case = of_easgm(size, 1, rate, sigma, steps, OPPOSED)
    variance = steps / size * rate / (1.0 - rate)
    block = Block(gaussian_pair(1, math.sqrt(0.5 * variance), log_scale=0.0), 0.0, 0.5 * variance)
    monkeypatch.setattr(the_theorem, "_blocks", lambda *_, **__: iter([block]))
    assert violations(case, delta, backward=True)


@pytest.mark.parametrize("backward", DIRECTIONS)
def test_over_many_rounds_it_is_close(backward: bool) -> None:
    """Sound and no more than a fourth above what opposed gradients give away."""
    case = of_easgm(200, 2, 0.5, 10.0, 100, ("opposed",))
    told = lifted(case, backward=backward).epsilon(1e-5, Side.ABOVE)
    known = truth(case.moved, case.sets[0][1], case.steps, backward=backward).epsilon(1e-5)
    assert known <= told <= 1.25 * known


# --- the oracle ------------------------------------------------------------------------------------------------------------


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)))


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_oracle_knows_the_gaussian_mechanism(steps: int) -> None:
    """A rate of nearly 1 and nothing that moves: G_mu with mu = T^(1/2)/sigma."""
    moved = Moved(0.5, 1.0 - 1e-12, 1.0, 1.0, 0.8)
    gradients = Gradients(np.zeros((2, 1)), np.ones(1))
    for backward in DIRECTIONS:
        it = truth(moved, gradients, steps, backward=backward)
        for epsilon in (0.0, 0.4, 2.0, 6.0):
            exact = gaussian_delta(math.sqrt(steps) / 0.8, epsilon)
            assert exact * (1.0 - 2e-3) - 1e-11 <= it.delta(epsilon) <= exact * (1.0 + 1e-9)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    ("dimension", "family", "configuration"),
    [
        (1, "opposed", line_truth.Configuration(1, -1.0)),
        (1, "aligned", line_truth.Configuration(1, 1.0)),
        (2, "zero", line_truth.Configuration(0, 1.0)),
        (2, "opposed", line_truth.Configuration(1, -1.0)),
    ],
)
def test_the_oracle_agrees_with_that_of_whole_runs(
    dimension: int, family: str, configuration: line_truth.Configuration, steps: int
) -> None:
    """tests/truth.py is two-sided and made of other cells."""
    delta = 1e-4
    setting = line_truth.Setting("easgm", 6, dimension, Fraction("0.3"), None, 0.9, steps, delta)
    moved = Moved(0.3, 0.3, 6 / 7, 6 / 7, 0.9)
    gradients = gradients_of(family, 6, dimension, np.random.default_rng(0))
    for backward in DIRECTIONS:
        low, high = line_truth.truth(setting, configuration).epsilon(delta, backward=backward)
        found = truth(moved, gradients, steps, backward=backward).epsilon(delta)
        assert found <= high * (1.0 + 1e-5)
        assert found >= low * (1.0 - 1e-2)


def test_two_axes_are_the_plane_turned() -> None:
    """Each axis by itself against all batches in the plane, on the same gradients turned by a little."""
    moved = Moved(0.4, 0.3, 1.2, 1.1, 0.8)
    flat = gradients_of("two axes", 5, 2, np.random.default_rng(4))
    turn = np.array([[math.cos(0.3), -math.sin(0.3)], [math.sin(0.3), math.cos(0.3)]])
    turned = Gradients(flat.shared @ turn.T, flat.new @ turn.T)
    assert len(flat.axes(moved)) == 2
    assert len(turned.axes(moved)) == 1
    for backward in DIRECTIONS:
        one, other = (truth(moved, it, 1, backward=backward).epsilon(1e-4) for it in (flat, turned))
        assert one == pytest.approx(other, rel=5e-3)


def test_gradients_that_do_not_follow_are_two_rounds() -> None:
    moved = Moved(0.4, 0.4, 0.8, 0.8, 1.1)
    first, then = (gradients_of(name, 4, 1, np.random.default_rng(1)) for name in ("opposed", "opposed"))
    for backward in DIRECTIONS:
        plain = truth(moved, first, 2, backward=backward)
        assert adaptive_truth(moved, first, (then, then), backward=backward).epsilon(1e-4) == pytest.approx(
            plain.epsilon(1e-4), rel=1e-3
        )


def test_the_oracle_tells_f_of_alpha() -> None:
    """Nothing moves but a record that is nearly always there: G_mu at alpha."""
    moved = Moved(0.5, 1.0 - 1e-12, 1.0, 1.0, 0.8)
    alpha = np.array([1e-3, 0.05, 0.4, 0.9])
    found = tradeoff(moved, Gradients(np.zeros((2, 1)), np.ones(1)), alpha)
    exact = norm.cdf(norm.ppf(1.0 - alpha) - 1.0 / 0.8)
    assert np.all(found >= exact)
    assert found == pytest.approx(exact, rel=2e-3, abs=1e-4)


def test_runs_are_of_all_kinds() -> None:
    cases = [drawn(number) for number in range(400)]
    assert {one.mechanism.name for one in cases} == {"easgm", "feasgm", "opacus-loader", "anything"}
    assert {name for one in cases for name, _ in one.sets} == set(families(3, 2))
    assert sum(one.moved.scale != one.moved.shrink for one in cases) > 40
    assert sum(one.moved.rate != one.moved.rate_with for one in cases) > 100
    assert sum(one.moved.shrink > 1.0 for one in cases) > 60
    for one in cases:
        moved = one.mechanism.neighbours
        assert moved.rates == pytest.approx((one.moved.rate, one.moved.rate_with), rel=1e-12)
        assert math.exp(moved.log_shrink) == pytest.approx(one.moved.shrink, rel=1e-12)
        assert math.exp(moved.log_scale) == pytest.approx(one.moved.scale, rel=1e-12)
        assert all(np.all(np.sum(np.square(it.shared), axis=1) <= 1.0 + 1e-12) for _, it in one.sets)
