r"""An attacker who is told a cell only: masses of cells under P and Q, each between two certain ends.

Telling the cell is a post-processing, so it never shows more than the output itself. What remains is rounding, and what a sum
over batch sizes misses. Where Q lives P may be e^-300, and delta(eps) = Q(A) - e^eps P(A) multiplies what P is off by with e^eps;
so no error is charged to delta as a whole. Instead every cell has a lower and an upper end under either law:

    forward    P' = upper ends of P, Q' = lower ends of Q:    Q'(A) - e^eps P'(A) <= Q(A) - e^eps P(A)  for every set A of cells,
    backward   P' = lower ends of P, Q' = upper ends of Q,    likewise with P and Q exchanged,

also for T rounds, because products of measures keep their order. P' and Q' are not quite laws: `Cumulants.log_masses`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, ndtr

from noisymean.laws.finite import FiniteOutcomes, Outcomes
from noisymean.numerics.chi_square import log_tails, saddle
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Law

_ULP = 2.3e-16
# Relative error of weights, of chi-square tails and of the sums over components, each with room to spare.
_RELATIVE = 4e-12
_UNDERFLOW = 1e-300
_LARGE_DOF = 10_000
# Outcomes that a sum over many rounds is made of, and how much of the mass lies outside of where they are dense.
_MOST_OUTCOMES, _SPARSE = 2048, 1e-14


@final
@dataclass(frozen=True, eq=False)
class Ends:
    """Numbers that are known to lie between `low` and `high`."""

    low: Array
    high: Array

    def times(self, other: Ends) -> Ends:
        """Of the products, last axis of the first against last axis of the second, summed over the first axis of both."""
        return Ends(self.low.T @ other.low, self.high.T @ other.high)


@final
@dataclass(frozen=True, eq=False)
class Cells(Law):
    """The masses of all cells under P and Q; `missed` is what the sum over components may leave out of any of them.

    `moved` is how far apart, in deviations, the parts of the law lie that was cut. `reverse`: for use by its inverse.
    """

    p: Ends
    q: Ends
    missed: float
    moved: float = 0.0
    reverse: bool = False

    def one_round(self) -> FiniteOutcomes:
        """What telling the cell shows in this direction."""
        return self._told

    def backward(self) -> Cells:
        """Every cell rounded the other way."""
        return replace(self, reverse=not self.reverse)

    @cached_property
    def cumulants(self) -> Outcomes:
        """Of the cells told together that have nearly the same loss: a post-processing that costs an attacker little.

        A cell that one of the two measures does not have adds nothing to delta, in the direction that they are meant for.
        """
        seen = (self._told.p > 0.0) & (self._told.q > 0.0)
        log_p, log_q = np.log(self._told.p[seen]), np.log(self._told.q[seen])
        order = np.argsort(log_q - log_p)
        losses, log_p, log_q = (log_q - log_p)[order], log_p[order], log_q[order]
        if losses.size > _MOST_OUTCOMES:
            # groups of equal width in the loss where there is mass, and a few for the rest
            cumulated = np.cumsum(np.exp(log_p) + np.exp(log_q))
            first, last = np.searchsorted(cumulated, [_SPARSE * cumulated[-1], (1.0 - _SPARSE) * cumulated[-1]])
            edges = np.linspace(losses[first], losses[min(last, losses.size - 1)], _MOST_OUTCOMES)
            starts = np.flatnonzero(np.diff(np.searchsorted(edges, losses), prepend=-1))
            log_p, log_q = _summed(log_p, starts), _summed(log_q, starts)
            losses = log_q - log_p
        return Outcomes(losses, np.exp(log_p), log_p, self.moved)

    def _rounded(self, ends: Ends) -> Ends:
        low = np.maximum(ends.low * (1.0 - _RELATIVE) - self.missed, 0.0)
        # a mass that is too small for a double is not zero
        return Ends(low.ravel(), (ends.high * (1.0 + _RELATIVE) + max(self.missed, _UNDERFLOW)).ravel())

    @cached_property
    def _told(self) -> FiniteOutcomes:
        """The pair of measures for one direction, told from P to Q in either: the other direction takes its inverse."""
        p, q = self._rounded(self.p), self._rounded(self.q)
        if self.reverse:
            return FiniteOutcomes(p.low, q.high, (float(np.sum(p.high - p.low)), 0.0))
        return FiniteOutcomes(p.high, q.low, (0.0, float(np.sum(q.high - q.low))))


def _summed(logs: Array, starts: NDArray[np.intp]) -> Array:
    """log of the sums of e^logs from each start to the next, whatever their size."""
    tops = np.maximum.reduceat(logs, starts)
    group = np.repeat(np.arange(starts.size), np.diff(np.append(starts, logs.size)))
    return np.asarray(tops + np.log(np.add.reduceat(np.exp(logs - tops[group]), starts)))


def line_masses(edges: Array, means: Array, scales: Array) -> Ends:
    """Mass of N(mean, scale^2) in each cell of the line, components first; edges run from -inf to inf."""
    z = (edges - means[:, None]) / scales[:, None]
    with np.errstate(invalid="ignore"):
        # what rounding moves z by, as a share of the tail beyond it
        moved = (1.0 + np.abs(z)) * (4.0 * np.abs(z) + 2.0 * np.abs(means / scales)[:, None])
        doubt = np.where(np.isfinite(z), 4.0 * _ULP * (2.0 + moved), 0.0)
    # difference of the tail that is small, so that far cells keep their digits
    small = ndtr(-np.abs(z))
    mass = np.abs(np.diff(small, axis=1))
    across = (z[:, :-1] < 0.0) & (z[:, 1:] > 0.0)
    mass[across] = 1.0 - small[:, 1:][across] - small[:, :-1][across]
    doubt *= small
    error = doubt[:, 1:] + doubt[:, :-1]
    error[across] += 4.0 * _ULP
    return Ends(np.maximum(mass - error, 0.0), mass + error)


def ring_masses(edges: Array, dof: int, scales: Array) -> Ends:
    """Mass of scale^2 times a chi-square variable in each ring, components first; edges run from above 0 to below inf."""
    y = edges / np.square(scales)[:, None]
    if dof < _LARGE_DOF:
        below, above = chdtr(dof, y), chdtrc(dof, y)
    else:
        # scipy's far tails are a quarter off at 1e8 degrees of freedom
        tails = log_tails(0.5 * dof, *saddle(0.5 * dof, 0.0, 0.5 * (y - dof)))
        below, above = np.exp(tails[0][0]), np.exp(tails[0][1])
    zero, one = np.zeros((scales.size, 1)), np.ones((scales.size, 1))
    below, above = np.hstack([zero, below, one]), np.hstack([one, above, zero])
    lower = below[:, 1:] < 0.5
    mass = np.where(lower, np.diff(below, axis=1), -np.diff(above, axis=1))
    error = _RELATIVE * np.where(lower, below[:, 1:] + below[:, :-1], above[:, 1:] + above[:, :-1])
    return Ends(np.maximum(mass - error, 0.0), np.maximum(mass, 0.0) + error)
