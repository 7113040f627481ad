r"""An epoch of random allocation: a record goes into one of t batches, and the attacker sees all of them.

    P = N(0, I_t),    Q = 1/t sum_i N(e_i/sigma, I_t),    dQ/dP = S = mean of t independent X_j = e^(z_j/sigma - 1/(2 sigma^2)).

This pair dominates the epoch whatever the gradients are, and is attained (docs/theory.md, "Random allocation"). Under P the mean
of S is 1, and both deltas, E (S - e^eps)_+ and E (1 - e^eps S)_+, are convex in S. So laws of S are compared in the convex order:

    above   each cell's mass goes to the two ends of the cell, so that its mass under P and under Q is kept: S is spread
    below   each cell's mass goes to its mean, which is telling the cell and nothing else: S is contracted

and sums of independent terms keep the order, as do products over epochs. The sum of t terms is made by doubling. Only positive
numbers are added and multiplied, so that all masses, also those far out, keep their digits.

If the epoch is broken off after `steps` of its batches, the record is in one that has not come with probability 1 - steps/t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from scipy.special import ndtr

from noisymean.laws.cells import Cells, Ends
from noisymean.laws.finite import FiniteOutcomes
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Law, Side

# Cells of a sum; of one term; how many deviations of a term are cut into them, and how far the last ones reach.
_CELLS, _CELLS_OF_ONE = 1000, 1000
_REACH, _FAR = 11.5, 37.0
# What lies further out than this under P (to the left) or Q (to the right) is one cell.
_TAIL = 1e-30
# The middle of a sum has cells of equal width up to so many of its deviations, beyond they grow with the distance.
_MIDDLE = 3.0
# Rows of a table of sums that are counted at once: the fewer numbers are added one after the other, the less is rounded.
_ROWS = 16
# Outcomes that the place of the cells of a sum is guessed from.
_FEW = 48
# Relative error of the masses for each term: of its own mass, and of half a dozen sums of a hundred numbers on the way.
ROUNDING = 6e-14
# Losses up to which e^loss is a number.
_MOST_LOSS = 650.0
# Nodes of the rule for the mass of one cell: exact to rounding for cells as narrow as these.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


@final
@dataclass(frozen=True, eq=False)
class _Values:
    """A positive random variable: masses at rising values."""

    mass: Array
    value: Array

    def few(self) -> _Values:
        """Told by blocks, to look at roughly."""
        starts = np.unique(np.linspace(0, self.mass.size, _FEW, endpoint=False).astype(np.intp))
        mass = np.add.reduceat(self.mass, starts)
        return _Values(mass, np.add.reduceat(self.mass * self.value, starts) / mass)


def is_computed(shift: float) -> bool:
    """Whether the noise is so large that e^loss is a number."""
    return shift * (_FAR + shift) < _MOST_LOSS


@lru_cache(maxsize=16)
def allocation(shift: float, batches: int, steps: int, side: Side) -> Law:
    """The loss of `steps` of the batches of an epoch, from above or below; `shift` is 1/sigma."""
    total = _sum_of(_one(shift, side), steps, side)
    ratio = (total.value + float(batches - steps)) / float(batches)
    error = ROUNDING * steps
    if side is Side.ABOVE:
        return FiniteOutcomes(total.mass, total.mass * ratio, error=error)
    p, q = (Ends(one * (1.0 - error), one * (1.0 + error)) for one in (total.mass, total.mass * ratio))
    return Cells(p, q, missed=0.0)


def _one(shift: float, side: Side) -> _Values:
    """One term, e^(shift z - shift^2/2) for a normal z."""
    inner = np.linspace(-_REACH, _REACH + shift, _CELLS_OF_ONE + 1)
    z = np.concatenate([[-_FAR], inner, [_FAR + shift]])
    p, q = (normal_cells(z, mean) for mean in (0.0, shift))
    if side is Side.ABOVE:
        # what lies beyond the last cells is below e^-680, less than rounding of any delta that may be asked for
        return _spread(np.exp(shift * z - 0.5 * shift * shift), p, q)
    return _contracted(p, q)


def normal_cells(z: Array, mean: float) -> Array:
    """Mass of N(mean, 1) in each cell but the first and last by Gauss's rule, whose terms are positive; those by their tails."""
    half = 0.5 * np.diff(z)
    at = 0.5 * (z[:-1] + z[1:])[:, None] + half[:, None] * _NODES - mean
    mass = half * (np.exp(-0.5 * np.square(at)) @ _WEIGHTS) / math.sqrt(2.0 * math.pi)
    mass[0] = ndtr(z[1] - mean)
    mass[-1] = ndtr(mean - z[-2])
    return np.asarray(mass)


def _sum_of(one: _Values, count: int, side: Side) -> _Values:
    """The sum of `count` independent terms, by doubling."""
    total: _Values | None = None
    power = one
    while True:
        if count & 1:
            total = power if total is None else _sum(total, power, side)
        count >>= 1
        if not count:
            assert total is not None, "at least one term"
            return total
        power = _sum(power, power, side)


def _sum(first: _Values, second: _Values, side: Side) -> _Values:
    """The sum of two independent terms, in cells."""
    center, width, low, high = _place(first.few(), second.few())
    # places are asinh of the distance from the middle of log S
    from_place, to_place = (math.asinh((end - center) / width) for end in (low, high))
    step = (to_place - from_place) / _CELLS
    twice = first is second
    p, q = np.zeros(_CELLS + 2), np.zeros(_CELLS + 2)
    for start in range(0, first.mass.size, _ROWS):
        rows = slice(start, start + _ROWS)
        columns = slice(start if twice else 0, None)
        sums = first.value[rows, None] + second.value[None, columns]
        mass = first.mass[rows, None] * second.mass[None, columns]
        if twice:
            # of two alike every sum stands for the one of them exchanged, too
            square = np.triu(np.full((mass.shape[0], mass.shape[0]), 2.0))
            np.fill_diagonal(square, 1.0)
            mass[:, : mass.shape[0]] *= square
            mass[:, mass.shape[0] :] *= 2.0
        sums, mass = sums.ravel(), mass.ravel()
        place = (np.arcsinh((np.log(sums) - center) / width) - from_place) / step
        cell = np.clip(np.floor(place), -1.0, float(_CELLS)).astype(np.intp) + 1
        p += np.bincount(cell, mass, _CELLS + 2)
        q += np.bincount(cell, mass * sums, _CELLS + 2)
    if side is not Side.ABOVE:
        return _contracted(p, q)
    inner = np.exp(center + width * np.sinh(from_place + step * np.arange(_CELLS + 1)))
    least, most = first.value[0] + second.value[0], first.value[-1] + second.value[-1]
    return _spread(np.concatenate([[min(least, inner[0])], inner, [max(most, inner[-1])]]), p, q)


def _place(first: _Values, second: _Values) -> tuple[float, float, float, float]:
    """Where the cells of a sum go: middle and width of its logarithm, and the two ends. Any choice is sound."""
    sums = (first.value[:, None] + second.value[None, :]).ravel()
    mass = (first.mass[:, None] * second.mass[None, :]).ravel()
    order = np.argsort(sums)
    logs, mass = np.log(sums[order]), mass[order]
    center = float(mass @ logs)
    width = _MIDDLE * math.sqrt(max(float(mass @ np.square(logs - center)), 1e-24))
    low = int(np.searchsorted(np.cumsum(mass), _TAIL))
    tilted = (mass * np.exp(logs - logs[-1]))[::-1].cumsum()
    high = logs.size - 1 - int(np.searchsorted(tilted, _TAIL * tilted[-1]))
    # blocks are rough: the ends are a little further out
    return center, width, float(logs[max(low - 1, 0)]) - 0.5 * width, float(logs[min(high + 1, logs.size - 1)]) + width


def _contracted(p: Array, q: Array) -> _Values:
    """Every cell at its mean."""
    seen = (p > 0.0) & (q > 0.0)
    return _Values(p[seen], q[seen] / p[seen])


def _spread(edges: Array, p: Array, q: Array) -> _Values:
    """Every cell's mass at the two ends of the cell, so that its mean is kept."""
    width = edges[1:] - edges[:-1]
    right = np.clip((q - edges[:-1] * p) / np.where(width > 0.0, width, 1.0), 0.0, p)
    mass = np.zeros(edges.size)
    mass[1:] += right
    mass[:-1] += p - right
    seen = mass > 0.0
    return _Values(mass[seen], edges[seen])
