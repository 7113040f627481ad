r"""An attacker who is told a cell only: masses of cells under P and Q, each between two certain ends.

Telling the cell is a post-processing, so it never shows more than the output itself. What remains is rounding, and what a sum
over batch sizes misses. Where Q lives P may be e^-300, and delta(eps) = Q(A) - e^eps P(A) multiplies what P is off by with e^eps;
so no error is charged to delta as a whole. Instead every cell has a lower and an upper end under either law:

    forward    P' = upper ends of P, Q' = lower ends of Q:    Q'(A) - e^eps P'(A) <= Q(A) - e^eps P(A)  for every set A of cells,
    backward   P' = lower ends of P, Q' = upper ends of Q,    likewise with P and Q exchanged,

also for T rounds, because products of measures keep their order. P' and Q' are not quite laws: `Cumulants.log_masses`.
"""

from __future__ import annotations

import math
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
UNDERFLOW = 1e-300
_LARGE_DOF = 10_000
# Outcomes that a sum over many rounds is made of.
_MOST_OUTCOMES = 1024
# Components further from a cell than this many deviations are not summed, and have so much in it at the most.
_BAND, _BEYOND = 12.0, 2e-33


@final
@dataclass(frozen=True, eq=False)
class Ends:
    """Numbers that are known to lie between `low` and `high`."""

    low: Array
    high: Array

    def at(self, rows: NDArray[np.intp]) -> Ends:
        """The ends of these rows only."""
        return Ends(self.low[rows], self.high[rows])

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
        """Of the cells told together that have nearly the same loss."""
        log_p, log_q = self.few
        return Outcomes(log_q - log_p, np.exp(log_p), log_p, self.moved)

    @cached_property
    def few(self) -> tuple[Array, Array]:
        """log masses of the cells under P and Q, told together where their losses are nearly the same.

        A cell that one of the two measures does not have adds nothing to delta, in the direction that they are meant for.
        """
        seen = (self._told.p > 0.0) & (self._told.q > 0.0)
        return merged(np.log(self._told.p[seen]), np.log(self._told.q[seen]))

    def several(self) -> FiniteOutcomes:
        """The same cells as a curve."""
        log_p, log_q = self.few
        return FiniteOutcomes(np.exp(log_p), np.exp(log_q), self._told.short)

    def _rounded(self, ends: Ends) -> Ends:
        low = np.maximum(ends.low * (1.0 - _RELATIVE) - self.missed, 0.0)
        # a mass that is too small for a double is not zero
        return Ends(low.ravel(), (ends.high * (1.0 + _RELATIVE) + max(self.missed, UNDERFLOW)).ravel())

    @cached_property
    def _told(self) -> FiniteOutcomes:
        """The pair of measures for one direction, told from P to Q in either: the other direction takes its inverse."""
        p, q = self._rounded(self.p), self._rounded(self.q)
        if self.reverse:
            return FiniteOutcomes(p.low, q.high, (float(np.sum(p.high - p.low)), 0.0))
        return FiniteOutcomes(p.high, q.low, (0.0, float(np.sum(q.high - q.low))))


def merged(log_p: Array, log_q: Array) -> tuple[Array, Array]:
    """Outcomes of nearly the same loss told together, a post-processing that costs an attacker little.

    The groups are as wide as a share of the loss where that is large, and of its deviation where it is small.
    """
    losses = log_q - log_p
    order = np.argsort(losses)
    losses, log_p, log_q = losses[order], log_p[order], log_q[order]
    if losses.size <= _MOST_OUTCOMES:
        return log_p, log_q
    mass = np.exp(log_p) + np.exp(log_q)
    deviation = np.sqrt(mass @ np.square(losses) / np.sum(mass))
    place = np.arcsinh(losses / max(float(deviation), UNDERFLOW))
    edges = np.linspace(place[0], place[-1], _MOST_OUTCOMES)
    starts = np.flatnonzero(np.diff(np.searchsorted(edges, place), prepend=-1))
    return _summed(log_p, starts), _summed(log_q, starts)


def _summed(logs: Array, starts: NDArray[np.intp]) -> Array:
    """log of the sums of e^logs from each start to the next, whatever their size."""
    tops = np.maximum.reduceat(logs, starts)
    group = np.repeat(np.arange(starts.size), np.diff(np.append(starts, logs.size)))
    return np.asarray(tops + np.log(np.add.reduceat(np.exp(logs - tops[group]), starts)))


def line_masses(edges: Array, means: Array, scales: Array) -> Ends:
    """Mass of N(mean, scale^2) in each cell of the line, components first; edges run from -inf to inf."""
    z = (edges - means[:, None]) / scales[:, None]
    far = np.abs(z)
    tail = ndtr(-far)
    # what rounding moves z by, as a share of the tail beyond it: 2 + (1 + far) (4 far + 2 |mean| / scale)
    with np.errstate(invalid="ignore"):
        doubt = 4.0 * far
        doubt += 2.0 * np.abs(means / scales)[:, None]
        far += 1.0
        doubt *= far
        doubt += 2.0
        doubt *= tail
    doubt *= 4.0 * _ULP
    doubt[:, [0, -1]] = 0.0
    # the difference of the tails that are small, so that far cells keep their digits
    above = z > 0.0
    np.negative(tail, out=tail, where=above)
    mass = np.diff(tail, axis=1)
    mass += above[:, 1:] & ~above[:, :-1]
    error = doubt[:, 1:] + doubt[:, :-1]
    return Ends(np.maximum(mass - error, 0.0), mass + error)


def banded_masses(edges: Array, weights: Array, means: Array, scale: float) -> Ends:
    """Mass of sum_i weights[i] N(means[i], scale^2) in each cell, means rising; edges run from -inf to inf.

    Inside, a sum over the components that are near; the rest is charged.
    """
    outer = line_masses(np.array([-np.inf, edges[1], edges[-2], np.inf]), means, np.full_like(means, scale))
    low, high = np.empty(edges.size - 1), np.empty(edges.size - 1)
    for ends, masses in ((low, outer.low), (high, outer.high)):
        ends[[0, -1]] = (weights @ masses)[[0, -1]]
    left, right = edges[1:-2], edges[2:-1]
    first = np.searchsorted(means, left - _BAND * scale)
    near = int(np.max(np.searchsorted(means, right + _BAND * scale) - first, initial=0))
    index = first[:, None] + np.arange(near)
    weight = np.where(index < means.size, weights[np.minimum(index, means.size - 1)], 0.0)
    mean = means[np.minimum(index, means.size - 1)]
    below, above = (left[:, None] - mean) / scale, (right[:, None] - mean) / scale
    # the difference of the tails that are small, as in `line_masses`
    upper = above + below > 0.0
    inner, beyond = ndtr(np.where(upper, -below, above)), ndtr(np.where(upper, -above, below))
    mass = np.einsum("ij,ij->i", weight, inner - beyond)
    farthest = _BAND + float(np.max(right - left, initial=0.0)) / scale
    moved = (1.0 + farthest) * (4.0 * farthest + 4.0 * float(np.max(np.abs(means), initial=0.0)) / scale)
    error = 8.0 * _ULP * (2.0 + moved) * np.einsum("ij,ij->i", weight, inner)
    low[1:-1], high[1:-1] = np.maximum(mass - error, 0.0), mass + error + _BEYOND
    return Ends(low, high)


def ring_masses(edges: Array, dof: int, scales: Array, missed: float = 0.0) -> Ends:
    """Mass of scale^2 times a chi-square variable in each ring, components first; edges run from above 0 to below inf.

    Tails below `missed` are not worked out but charged.
    """
    y = edges / np.square(scales)[:, None]
    share = y / dof
    # Chernoff: a tail beyond y is at most exp(-dof/2 (y/dof - 1 - log(y/dof)))
    far = 0.5 * dof * (share - 1.0 - np.log(share)) > -math.log(max(missed, UNDERFLOW))
    near = y[~far]
    below, above = np.where(share < 1.0, 0.0, 1.0), np.where(share < 1.0, 1.0, 0.0)
    if dof < _LARGE_DOF:
        below[~far], above[~far] = chdtr(dof, near), chdtrc(dof, near)
    else:
        # scipy's far tails are a quarter off at 1e8 degrees of freedom
        tails = log_tails(0.5 * dof, *saddle(0.5 * dof, 0.0, 0.5 * (near - dof)))
        below[~far], above[~far] = np.exp(tails[0][0]), np.exp(tails[0][1])
    zero, one = np.zeros((scales.size, 1)), np.ones((scales.size, 1))
    below, above = np.hstack([zero, below, one]), np.hstack([one, above, zero])
    lower = below[:, 1:] < 0.5
    mass = np.where(lower, np.diff(below, axis=1), -np.diff(above, axis=1))
    error = _RELATIVE * np.where(lower, below[:, 1:] + below[:, :-1], above[:, 1:] + above[:, :-1])
    return Ends(np.maximum(mass - error - missed, 0.0), np.maximum(mass, 0.0) + error + missed)
