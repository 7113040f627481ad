r"""Designed records, and what can be read off a release of them.

Record i has its gradient along axis i (mod m) alone, so that axis i of a release is not noise exactly if i was in the batch:
the batch, and |B| with it, is seen in the output. Noise is a millionth of C; some axes belong to no record and show it bare.

    even axes   gradient 1000 C, clipped     the release shows  C / c            c: what clipped gradients are divided by
    odd axes    gradient C/256, not clipped  the release shows  s C / (256 c)    s: by what gradients are scaled before clipping
    spare axes  none                         the release shows  sigma C / c'     c': what the noise is divided by (its deviation)

A sound mechanism has c = c' and s = 1. A bound of beta C instead of C shows as c / beta and s = 1/beta, with c' = c. Where m < N
several records share an axis: the least value seen is that of one record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.numerics.logs import Array

BOUND = 1.0
NOISE = 1e-6
LARGE, SMALL = 1000.0 * BOUND, BOUND / 256
SPARE = 256
# single precision, and noise of a millionth
TOLERANCE = 1e-4
_MOST_AXES = 1024
# a coordinate is a record's if it is so many deviations of the noise
_CLEAR = 20.0


@final
@dataclass(frozen=True)
class Reading:
    """One round, as seen in its output."""

    size: int
    batch: frozenset[int]
    clipped: float | None
    scale: float | None
    noise: float | None
    unclipped: int = 0
    finite: bool = True


@final
@dataclass(frozen=True)
class Axes:
    """One axis for each record, as long as there are enough."""

    records: int

    @property
    def count(self) -> int:
        """m: the axes that belong to records."""
        return min(self.records, _MOST_AXES)

    def gradients(self) -> Array:
        """N rows of m + 256 numbers."""
        rows = np.zeros((self.records, self.count + SPARE))
        axis = np.arange(self.records) % self.count
        rows[np.arange(self.records), axis] = np.where(axis % 2 == 0, LARGE, SMALL)
        return rows

    def read(self, release: Array) -> Reading:
        """What one release shows."""
        if not np.isfinite(release).all():
            return Reading(0, frozenset(), None, None, None, finite=False)
        own, spare = release[: self.count], release[self.count :]
        deviation = float(np.sqrt(np.mean(spare**2)))
        members = np.flatnonzero(np.abs(own) > _CLEAR * deviation)
        large, small = own[members[members % 2 == 0]], own[members[members % 2 == 1]]
        of_large, of_small = (self._of_one(values) for values in (large, small))
        counts = [
            0 if unit is None else int(np.rint(values / unit).sum())
            for values, unit in ((large, of_large), (small, of_small))
        ]
        clipped = None if of_large is None else BOUND / of_large
        scale = None if of_small is None or clipped is None else of_small * clipped / SMALL
        noise = NOISE * BOUND / deviation if deviation > 0.0 else None
        return Reading(sum(counts), frozenset(members.tolist()), clipped, scale, noise, unclipped=counts[1])

    def _of_one(self, values: Array) -> float | None:
        """The value that a single record gives: their mean, or the one closest to zero where records share an axis."""
        if not len(values):
            return None
        return float(values[np.argmin(np.abs(values))] if self.records > self.count else values.mean())


@final
@dataclass(frozen=True)
class Aligned:
    """All records alike, along one axis, but for a trace along an axis of their own: their clipped sum, and who is in it."""

    records: int
    length: float
    trace: float = 1e-2

    def gradients(self) -> Array:
        """Axis 0 is the common one, the last 256 are spare."""
        rows = np.zeros((self.records, 1 + self.records + SPARE))
        rows[:, 0] = self.length * math.sqrt(1.0 - self.trace**2)
        rows[np.arange(self.records), 1 + np.arange(self.records)] = self.length * self.trace
        return rows

    def read(self, release: Array) -> tuple[int, float]:
        """|B|, and the release along the common axis."""
        own, spare = release[1 : 1 + self.records], release[1 + self.records :]
        deviation = float(np.sqrt(np.mean(spare**2)))
        return int((np.abs(own) > _CLEAR * deviation).sum()), float(release[0])
