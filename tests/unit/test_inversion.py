"""numerics.inversion: smooth, stepped, steep and bounded functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import log_ndtr

from noisymean.numerics.inversion import solve_decreasing

Function = Callable[[np.ndarray], np.ndarray]
# "what is left is of second order, |y - target| |dt|"
SECOND_ORDER = 1e-14

TARGETS = np.concatenate([-np.logspace(2.3, -3, 12), [0.0], np.logspace(-3, 2.3, 12)])


def gaussian_odds(mu: float) -> Function:
    """log odds of P[l > t] for G_mu: what the package solves most often."""
    return lambda t: log_ndtr(-t / mu - mu / 2) - log_ndtr(t / mu + mu / 2)


def second_order(y: Function, solution: np.ndarray, targets: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(y(solution) - targets) * np.abs(solution - exact)))


@pytest.mark.parametrize("slope", [1e-6, 1e-2, 1.0, 1e4, 1e9])
@pytest.mark.parametrize("centre", [0.0, -3.7, 1e5])
def test_straight_lines(slope: float, centre: float) -> None:
    targets = np.linspace(-20.0, 20.0, 31)
    exact = centre - targets / slope
    solution = solve_decreasing(lambda t: -slope * (t - centre), targets)
    # a double near `centre` cannot do better than half an ulp of it
    floor = (slope * np.spacing(np.max(np.abs(exact)))) * np.spacing(np.max(np.abs(exact)))
    assert second_order(lambda t: -slope * (t - centre), solution, targets, exact) <= SECOND_ORDER + floor


@pytest.mark.parametrize("mu", [1e-7, 1e-3, 0.5, 5.0, 40.0])
def test_gaussian_odds(mu: float) -> None:
    targets = np.linspace(-30.0, 30.0, 61)
    y = gaussian_odds(mu)
    solution = solve_decreasing(y, targets)
    # compare with bisection in plain sight
    low, high = np.full(targets.shape, -mu * 2e3 - mu * mu), np.full(targets.shape, mu * 2e3 + mu * mu)
    for _ in range(200):
        middle = 0.5 * (low + high)
        above = y(middle) > targets
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    assert second_order(y, solution, targets, 0.5 * (low + high)) <= SECOND_ORDER


@pytest.mark.parametrize("top", [0.05, 0.7, 40.0])
@pytest.mark.parametrize("power", [0.5, 1.0, 3.0, 50.0])
def test_a_loss_with_an_upper_end(top: float, power: float) -> None:
    # P[l > t] = (1 - t/top)^power, -inf from `top` on: the shape of a chi-square near its origin
    def y(t: np.ndarray) -> np.ndarray:
        share = np.clip(1.0 - t / top, 0.0, None)
        with np.errstate(divide="ignore"):
            return power * np.log(share)

    targets = -np.array([0.01, 1.0, 3.0, 7.0, 12.0])
    exact = top * -np.expm1(targets / power)
    solution = solve_decreasing(y, targets)
    resolvable = top * np.exp(targets / power) > 1e-8 * top
    assert second_order(y, solution[resolvable], targets[resolvable], exact[resolvable]) <= SECOND_ORDER
    np.testing.assert_allclose(solution, exact, rtol=1e-6)


@pytest.mark.parametrize("steps", [(0.0,), (-1.5, 2.0), (-2.0, 1e-9, 0.3, 7.0)])
def test_steps_are_found(steps: tuple[float, ...]) -> None:
    edges = np.array(steps)
    levels = np.linspace(5.0, -5.0, edges.size + 1)

    def y(t: np.ndarray) -> np.ndarray:
        return levels[np.searchsorted(edges, t, side="right")]

    targets = 0.5 * (levels[1:] + levels[:-1])
    solution = solve_decreasing(y, targets)
    np.testing.assert_allclose(solution, edges, rtol=1e-12, atol=1e-15)


def test_a_step_of_infinite_height() -> None:
    # the identity's odds: everything is above a negative threshold, nothing above 0
    solution = solve_decreasing(lambda t: np.where(t < 0.0, np.inf, -np.inf), np.array([-2.0, 0.0, 3.0]))
    assert np.abs(solution).max() <= 1e-15


def test_smooth_with_a_jump_in_the_middle() -> None:
    def y(t: np.ndarray) -> np.ndarray:
        return -t - 10.0 * (t >= 0.25)

    targets = np.array([3.0, 0.0, -0.25, -4.0, -10.0, -10.25, -15.0])
    exact = np.array([-3.0, 0.0, 0.25, 0.25, 0.25, 0.25, 5.0])
    inside_jump = np.array([False, False, True, True, True, True, False])
    solution = solve_decreasing(y, targets)
    miss = np.where(inside_jump, np.abs(solution - exact), np.abs(y(solution) - targets))
    assert float(np.max(miss * np.abs(solution - exact))) <= 1e-12


def test_order_and_repeats_of_targets_do_not_matter() -> None:
    y = gaussian_odds(1.3)
    targets = np.array([[0.5, -2.0], [0.5, 7.0]])
    solution = solve_decreasing(y, targets)
    assert solution.shape == targets.shape
    assert solution[0, 0] == solution[1, 0]
    np.testing.assert_allclose(y(solution), targets, atol=1e-6)


def test_the_function_is_called_few_times() -> None:
    calls = []

    def y(t: np.ndarray) -> np.ndarray:
        calls.append(t.size)
        return gaussian_odds(0.7)(t)

    solve_decreasing(y, np.linspace(-9.0, 9.0, 1001))
    assert sum(calls) < 8 * 1001
