r"""The largest of t numbers, one of which may be shifted: what an attacker on an epoch of batches looks at.

Of independent normal numbers y_1 ... y_t one, which the attacker does not know, has mean `shift`; with probability 1 - present
none has. Their maximum has the distribution function

    F(c) = Phi(c)^(t-1) (present Phi(c - shift) + (1 - present) Phi(c))

(with a common mean and deviation where a denominator moves), so the loss of seeing it, one shift under P and another under Q, is
exact and one-dimensional, whatever t is. Chua et al. 2024 (arXiv 2403.17673) bound delta by tests of the maximum; here all of its
loss is kept, and epochs add up. The attacker is told in which cell the maximum lies (`cells`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from noisymean.laws.cells import Cells, Ends
from noisymean.laws.closed import Gaussian
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Law

# Cells around the maximum of unshifted numbers and around each shift, and how many deviations these reach to either side.
_CELLS, _REACH, _FAR = 700, 10.0, 36.0
# Relative error of log Phi, and so of an upper tail; times |log F| that of a lower one, which counts for nothing below e^this.
_ERROR, _LEAST = 4e-13, -90.0


@final
@dataclass(frozen=True)
class Shifted:
    """One of the numbers is further by `shift`, with probability `present`; all of them have this mean and deviation."""

    shift: float
    present: float = 1.0
    scale: float = 1.0
    mean: float = 0.0


@lru_cache(maxsize=32)
def largest(count: int, p: Shifted, q: Shifted) -> Law:
    """The maximum of `count` numbers under P and under Q, told by cells: never more than the truth."""
    if count == 1 and p.present == q.present == 1.0 and (p.scale, p.mean) == (q.scale, q.mean):
        return Gaussian(abs(q.shift - p.shift) / p.scale)
    edges = _edges(count, (p, q))
    return Cells(_masses(edges, count, p), _masses(edges, count, q), missed=0.0)


def _edges(count: int, sides: tuple[Shifted, Shifted]) -> Array:
    """Where the maximum lies under either law, densely; further out a few."""
    # the median of the maximum of so many normal numbers
    usual = float(ndtri_exp(-math.log(2.0) / count))
    parts = []
    for one in sides:
        for middle in {usual, max(one.shift / one.scale, usual)}:
            parts.append(one.mean + one.scale * np.linspace(middle - _REACH, middle + _REACH, _CELLS + 1))
            parts.append(one.mean + one.scale * np.linspace(middle + _REACH, middle + _FAR, 30))
    edges = np.unique(np.concatenate(parts))
    # cells that end in the middle of rounding say nothing
    return np.asarray(edges[np.concatenate([[True], np.diff(edges) > 1e-9 * (1.0 + np.abs(edges[1:]))])])


def _masses(edges: Array, count: int, side: Shifted) -> Ends:
    """Between neighbouring edges, below the first and above the last."""
    c = (edges - side.mean) / side.scale
    further = c - side.shift / side.scale
    with np.errstate(divide="ignore"):
        there, absent = np.log(side.present), np.log1p(-side.present)
        # of the one number: where it is likely below c, from what is above, which is a sum and keeps its digits
        beyond = side.present * ndtr(-further) + (1.0 - side.present) * ndtr(-c)
        log_one = np.where(
            beyond < 0.5,
            np.log1p(-np.minimum(beyond, 0.5)),
            np.logaddexp(there + log_ndtr(further), absent + log_ndtr(c)),
        )
    log_f = (count - 1) * log_ndtr(c) + log_one
    below, above = np.exp(log_f), -np.expm1(log_f)
    # what is below e^-90 is not told from nothing
    lost = log_f < _LEAST
    below = np.where(lost, 0.0, below)
    below, above = np.concatenate([[0.0], below, [1.0]]), np.concatenate([[1.0], above, [0.0]])
    small = below[1:] < 0.5
    mass = np.where(small, np.diff(below), -np.diff(above))
    doubt = _ERROR * (1.0 - np.maximum(log_f, _LEAST)) * np.exp(log_f)
    doubt = np.concatenate([[0.0], doubt, [0.0]])
    error = np.where(small, doubt[1:] + doubt[:-1], _ERROR * (above[1:] + above[:-1]))
    high = (
        mass + error + np.where(np.concatenate([lost, [False]]) | np.concatenate([[True], lost]), math.exp(_LEAST), 0.0)
    )
    return Ends(np.maximum(mass - error, 0.0), high)
