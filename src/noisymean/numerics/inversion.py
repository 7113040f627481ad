"""Solve y(t) = target for a decreasing y and many targets at once, with few evaluations.

A table of y brackets every target; a spline of the table is the first guess; bracketed secant steps finish. The
stopping rule suits a caller who then uses the *tangent* at t: what is left is of second order, |y - target| |dt|. Such a caller
needs no bracket, and the first guess is nearly always good enough for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from noisymean.numerics.logs import Array

# From the smallest threshold that matters in double precision to the largest; 0 itself is where the identity jumps.
_SCOUTS = np.concatenate([-np.logspace(13, -16, 49), [0.0], np.logspace(-16, 13, 49)])
_TABLE = 128
_MARGIN = 50.0


class _Rule(NamedTuple):
    """When a search ends."""

    # what the tangent may miss at the most
    second_order: float
    # where y is nearer than this to its target the spline's slope is that of y
    near: float
    rounds: int


_EXACT = _Rule(second_order=1e-15, near=1e-6, rounds=160)
_ROUGH = _Rule(second_order=1e-9, near=1e-3, rounds=3)


def bracket_decreasing(y: Callable[[Array], Array], targets: Array) -> tuple[Array, Array]:
    """(low, high) with y(low) >= target >= y(high), as close as the stopping rule asks for, on both sides.

    y maps a 1-D array of t to values in [-inf, inf]; targets are finite. Both inequalities have been *evaluated*, whatever
    y does in between, except where the target lies outside of what y reaches on +-10^13.
    """

    low, high, _ = _solved(y, targets, touching=False)
    return low, high


def solve_decreasing(
    y: Callable[[Array], Array], targets: Array, *, rough: bool = False, known: tuple[Array, Array] | None = None
) -> Array:
    """t with y(t) = target, to the stopping rule; where y jumps over the target, the end of the jump.

    A `rough` one is what few looks at y make of it, for those who use all that was looked at. `known` are t, rising, and y there,
    on both sides of every target; else a table is made.
    """
    return _solved(y, targets, touching=True, rule=_ROUGH if rough else _EXACT, known=known)[2]


def _solved(
    y: Callable[[Array], Array],
    targets: Array,
    *,
    touching: bool,
    rule: _Rule = _EXACT,
    known: tuple[Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    def rising(t: Array) -> Array:
        # targets inside a jump all ask for the same t
        distinct, index = np.unique(t, return_inverse=True)
        return -y(distinct)[index]

    goals, where = np.unique(-targets, return_inverse=True)
    grid, values = _table(rising, goals) if known is None else (known[0], np.maximum.accumulate(-known[1]))
    low, high, t = (
        found[where].reshape(targets.shape) for found in _polish(rising, goals, grid, values, touching, rule)
    )
    return low, high, t


def _table(rising: Callable[[Array], Array], goals: Array) -> tuple[Array, Array]:
    """A grid of t that brackets all goals, dense where the function moves, and its values."""
    scouts = rising(_SCOUTS)
    low, high = _bracket(_SCOUTS, scouts, goals)
    count = min(_TABLE, 16 + 2 * goals.size)
    grid = np.linspace(low, high, count)
    values = rising(grid)
    if np.count_nonzero((values >= goals[0]) & (values <= goals[-1])) < count // 2:
        finer = np.linspace(*_bracket(grid, values, goals), count)
        grid, values = np.concatenate([grid, finer]), np.concatenate([values, rising(finer)])
    grid, values = np.concatenate([grid, _SCOUTS]), np.concatenate([values, scouts])
    grid, order = np.unique(grid, return_index=True)
    return grid, np.maximum.accumulate(values[order])


def _bracket(grid: Array, values: Array, goals: Array) -> tuple[float, float]:
    first = max(int(np.searchsorted(values, goals[0], side="left")) - 1, 0)
    last = min(int(np.searchsorted(values, goals[-1], side="right")), grid.size - 1)
    return float(grid[first]), float(grid[last])


def _polish(
    rising: Callable[[Array], Array], goals: Array, grid: Array, values: Array, touching: bool, rule: _Rule
) -> tuple[Array, Array, Array]:
    """Bracket and solution; `touching`: the search for a solution ends when it is one, however wide its bracket."""
    right = np.clip(np.searchsorted(values, goals, side="right"), 1, grid.size - 1)
    low, high = grid[right - 1].copy(), grid[right].copy()
    y_low, y_high = values[right - 1].copy(), values[right].copy()
    t, slope = _first_guess(goals, grid, values, low, high)
    touched = np.zeros(goals.size, dtype=bool)
    open_ = np.arange(goals.size)
    for round_ in range(rule.rounds):
        y = rising(t[open_])
        miss = y - goals[open_]
        above = miss > 0.0
        high[open_[above]], y_high[open_[above]] = t[open_[above]], y[above]
        low[open_[~above]], y_low[open_[~above]] = t[open_[~above]], y[~above]
        lo, hi = low[open_], high[open_]
        width = hi - lo
        middle = 0.5 * (lo + hi)
        with np.errstate(invalid="ignore", divide="ignore"):
            rise = y_high[open_] - y_low[open_]
            newton = -miss * width / rise
            done = rise * width <= rule.second_order
        done |= (middle <= lo) | (middle >= hi)
        if touching:
            with np.errstate(invalid="ignore"):
                further = np.abs(miss) * np.maximum(np.abs(newton), np.abs(miss * slope[open_]))
            touches = (np.abs(miss) <= rule.near) & (further <= rule.second_order)
            touched[open_[touches]] = True
            done |= touches
        # overshoot by as much as the step itself once it is small: the next point then closes the bracket from the other side
        small = np.abs(newton) < 1e-3 * width
        guess = t[open_] + np.where(small, 2.0, 1.0) * newton
        bad = ~np.isfinite(guess) | (guess <= lo) | (guess >= hi) | (round_ >= 4 and round_ % 2 == 0)
        guess = np.where(bad, middle, guess)
        keep = ~done
        if not keep.any():
            break
        open_ = open_[keep]
        t[open_] = guess[keep]
    return low, high, np.where(touched, t, high)


def _first_guess(goals: Array, grid: Array, values: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """t by spline, and dt/dy there."""
    # far outside the goals the function may do anything
    usable = (values > goals[0] - _MARGIN) & (values < goals[-1] + _MARGIN)
    usable[1:] &= values[1:] > values[:-1]
    middle = 0.5 * (low + high)
    if usable.sum() < 4:
        return middle, np.full(goals.size, np.inf)
    spline = CubicSpline(values[usable], grid[usable])
    guess = spline(goals)
    fits = (guess > low) & (guess < high)
    return np.where(fits, guess, middle), np.where(fits, spline(goals, 1), np.inf)
