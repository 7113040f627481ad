"""Few rounds of a mixture of Gaussian pairs whose index is revealed: one mixture of closed curves, by the sum of their mu^2."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from noisymean.laws.gaussian import GaussianPairs
from noisymean.numerics.logs import Array

# Multiples of a unit that the sum is held on, and groups of them; beyond this mass groups are wider.
_SQUARES, _GROUPS, _SPARSE = 8192, 256, 1e-13


def sum_of_squares(pairs: GaussianPairs, count: int) -> GaussianPairs | None:
    """`count` rounds of a mixture of pairs of one scale.

    Given all indices that is one pair in n * count dimensions, whose mu^2 is the sum of those of the rounds. Squares are rounded
    up to multiples of a unit, and values of the sum to the largest of a group: the curve falls with mu. None where there are
    several scales.
    """
    if np.ptp(pairs.log_scales) > 0.0:
        return None
    squares = np.square(pairs.shifts)
    top = float(np.max(squares))
    if top == 0.0:
        return pairs.power(count)
    # sizes one by one have squares that are multiples of the least
    least = float(np.min(squares[squares > 0.0]))
    near = squares / least
    exact = count * top <= _SQUARES * least and bool(np.all(np.abs(near - np.rint(near)) < 1e-9))
    unit = least * (1.0 + 2e-9) if exact else count * top / _SQUARES
    place = np.ceil(squares / unit).astype(np.int64)
    one = np.bincount(place, pairs.weights)
    total = np.ones(1)
    for bit in f"{count:b}":
        total = np.convolve(total, total)
        if bit == "1":
            total = np.convolve(total, one)
    ends = _grouped_ends(total)
    starts = np.append(0, ends[:-1] + 1)
    mass = np.add.reduceat(total, starts)
    seen = mass > 0.0
    shifts = np.sqrt(unit * ends[seen]) * (1.0 + 1e-14)
    return GaussianPairs(
        pairs.dimension * count,
        mass[seen] * (1.0 + 1e-12),
        shifts,
        np.full_like(shifts, pairs.log_scales[0]),
        count * pairs.left_out,
    )


def _grouped_ends(mass: Array) -> NDArray[np.intp]:
    """The last of each group of squares: single ones where they are few, else of equal width in mu where there is mass."""
    places = np.flatnonzero(mass)
    if places.size <= _GROUPS:
        return places
    below, above = np.cumsum(mass), np.cumsum(mass[::-1])[::-1]
    first, last = int(np.searchsorted(below, _SPARSE)), int(np.searchsorted(-above, -_SPARSE))
    roots = [
        np.linspace(math.sqrt(low), math.sqrt(high), number)
        for low, high, number in (
            (places[0], first, _GROUPS // 8),
            (first, last, _GROUPS),
            (last, places[-1], _GROUPS // 8),
        )
    ]
    ends = np.ceil(np.square(np.concatenate(roots)) - 1e-9).astype(np.intp)
    return np.unique(np.append(np.minimum(ends, places[-1]), places[-1]))
