r"""One round's loss on a grid of step h, to a stated side; both sides are off by O(h^2), not O(h).

Cut the loss into cells [t_j, t_j + h) of masses P_j, Q_j and mean likelihood ratio Q_j/P_j = e^(t_j + x_j), 0 <= x_j <= h.

- **Above** (leaks more): split each cell between its two ends so that both masses are kept. The new pair's delta(eps) equals the
  old one at grid points and is its chord in between, in e^eps: never below (Doroshenko et al. 2022, "connect the dots").
  Below the grid the mass moves up to its first point, above it to +infinity.
- **Below** (leaks less): telling only the cell is post-processing, and it leaves losses t_j + x_j. In smooth places x_j is
  nearly constant, h/2 + O(h^2), so moving each down to t_j + c with one common c costs O(h^2); a cell with x_j < c goes to
  t_(j-1) + c. Lower losses under the same Q leak less. Mass below the grid is dropped, above it moves to its end.

delta(eps) of a sum needs the masses under Q only: E_Q[(1 - e^(eps - l))_+].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side, TradeOff


@final
@dataclass(frozen=True, eq=False)
class GridLoss:
    """Q-masses at losses offset + step * (first, first + 1, ...), and at +infinity.

    delta of any sum with it is off by at most `error` of itself from the rounding of the tails (delta is a mean of them with
    positive weights: an increasing function of each loss), and by at most `left_out` beside that.
    """

    step: float
    first: int
    offset: float
    mass: Array
    infinite: float
    error: float
    left_out: float

    @property
    def losses(self) -> Array:
        """Where the masses sit."""
        return np.asarray(self.offset + self.step * (self.first + np.arange(self.mass.size)), dtype=np.float64)

    @cached_property
    def log_mass(self) -> Array:
        """Logarithms of the masses."""
        with np.errstate(divide="ignore"):
            return np.log(self.mass)


def discretize(curve: TradeOff, step: float, first: int, last: int, side: Side) -> GridLoss:
    """The loss of T(P, Q) under Q on the cells between grid points `first` and `last`."""
    edges = np.asarray(step * np.arange(first, last + 1), dtype=np.float64)
    tails = curve.tails(edges)
    p_cells, p_tail = _cell_masses(tails.p_above, tails.p_below)
    q_cells, q_tail = _cell_masses(tails.q_above, tails.q_below)
    top, bottom = float(np.exp(tails.q_above[-1])), float(np.exp(tails.q_below[0]))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # the mean ratio of a cell is known as well as the differences of tails that make it
        doubt = 2.0 * curve.relative_error * (p_tail / p_cells + q_tail / q_cells)
        position = np.log(q_cells) - np.log(p_cells) - edges[:-1] + (doubt if side is Side.ABOVE else -doubt)
    safe_end = step if side is Side.ABOVE else 0.0
    position = np.where(np.isfinite(position), np.clip(position, 0.0, step), safe_end)
    error = 4.0 * curve.relative_error + 1e-15
    if side is Side.BELOW:
        offset = _best_offset(position, q_cells, step)
        mass = np.zeros(edges.size)
        low = position < offset
        mass[1:] += np.where(low, 0.0, q_cells)
        mass[:-1] += np.where(low, q_cells, 0.0)
        # index 0 is one cell below the grid; what was above the grid sits at its last point but one
        mass[-1] += top
        return GridLoss(step, first - 1, offset, mass, 0.0, error, curve.slack)
    # share that stays at the left end: (e^h - r)/(r (e^h - 1)), r = e^position
    left = np.exp(-position) * np.expm1(position - step) / np.expm1(-step)
    mass = np.zeros(edges.size)
    mass[:-1] += q_cells * left
    mass[1:] += q_cells * (1.0 - left)
    mass[0] += bottom
    return GridLoss(step, first, 0.0, mass, top, error, curve.slack)


def _cell_masses(log_above: Array, log_below: Array) -> tuple[Array, Array]:
    """Mass between neighbouring edges, from the tail that is smaller there, and that tail."""
    above, below = np.exp(log_above), np.exp(log_below)
    from_below = log_below[1:] < log_above[1:]
    mass = np.where(from_below, np.diff(below), -np.diff(above))
    return np.maximum(mass, 0.0), np.where(from_below, below[1:], above[:-1])


def _best_offset(position: Array, mass: Array, step: float) -> float:
    """The common offset that gives away least: each cell below it is charged a whole step."""
    order = np.argsort(position)
    ordered = position[order]
    missed = np.concatenate([[0.0], np.cumsum(mass[order])[:-1]])
    return float(ordered[np.argmax(ordered * mass.sum() - step * missed)])
