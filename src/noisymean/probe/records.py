r"""Designed records, and what can be read off a release of them.

Record i has its gradient along axis i (mod m) alone, so that axis i of a release is not noise exactly if i was in the batch:
the batch, and |B| with it, is seen in the output. Noise is a millionth of C; some axes belong to no record and show it bare.

    even axes   gradient 1000 C, clipped     the release shows  C / c            c: what clipped gradients are divided by
    odd axes    gradient C/256, not clipped  the release shows  s C / (256 c)    s: by what gradients are scaled before clipping
    spare axes  none                         the release shows  sigma C / c'     c': what the noise is divided by (its deviation)

A sound mechanism has c = c' and s = 1. A bound of beta C instead of C shows as c / beta and s = 1/beta, with c' = c. A record
that was drawn twice shows twice its value. Bounds that differ between axes (layers) show as a factor of the axis, the same in
every round. Where m < N several records share an axis: the least value seen is that of one record. The sign of the update is
no matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from noisymean.numerics.logs import Array

Members: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
BOUND = 1.0
NOISE = 1e-6
# where records alone are to be seen
QUIET = 1e-12
LARGE, SMALL = 1000.0 * BOUND, BOUND / 256
SPARE = 256
# single precision, and noise of a millionth
TOLERANCE = 1e-4
_MOST_AXES = 1024
# a coordinate is a record's if it is so many deviations of the noise
_CLEAR = 20.0
# an empty batch's noise may be divided by one where others are by |B|; what is more than that many times theirs is no noise
_FOREIGN = 1000.0
# values of one axis that differ by less are the same
_ALIKE = 0.01
# logarithms of values of one round that differ by less are all of records that were drawn once
_ONCE = 0.3


@final
@dataclass(frozen=True, eq=False)
class Reading:
    """One round, as seen in its output."""

    size: int
    batch: frozenset[int]
    clipped: float | None
    scale: float | None
    noise: float | None
    unclipped: int = 0
    finite: bool = True
    # how often the record was drawn that was drawn most
    most: int = 0
    # of the update: 1, -1, or 0 if it is neither
    sign: int = 1
    # the axes that belong to nobody
    spare: Array | None = None
    # nobody was drawn, and there is far more on all axes than noise
    foreign: bool = False


def deviation_of(rows: Array) -> Array:
    """The root of the mean square of each row."""
    found: Array = np.sqrt(np.mean(rows**2, axis=-1))
    return found


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
        """N rows of m + 256 numbers, for a bound of 1."""
        rows = np.zeros((self.records, self.count + SPARE))
        axis = np.arange(self.records) % self.count
        rows[np.arange(self.records), axis] = np.where(axis % 2 == 0, LARGE, SMALL)
        return rows

    def read(self, releases: Array) -> tuple[Reading, ...]:
        """What each of these releases shows, in units of the bound."""
        finite = np.array([bool(np.isfinite(row).all()) for row in releases])
        # what is not finite says nothing about the others
        sound = np.where(finite[:, None], releases, 0.0)
        own, spare = sound[:, : self.count], sound[:, self.count :]
        deviations = deviation_of(spare)
        members: Members = np.abs(own) > _CLEAR * deviations[:, None]
        even = np.arange(self.count) % 2 == 0
        large, drawn_large = self._of_one(own, members & even)
        small, drawn_small = self._of_one(own, members & ~even)
        drawn = drawn_large + drawn_small
        sizes, unclipped, most = (one.astype(int).tolist() for one in (drawn.sum(1), drawn_small.sum(1), drawn.max(1)))
        positive, negative = (members & (own > 0.0)).any(axis=1), (members & (own < 0.0)).any(axis=1)
        signs = np.where(negative, np.where(positive, 0, -1), 1).tolist()
        noises = [NOISE * BOUND / one if one > 0.0 else None for one in deviations.tolist()]
        drawn_any = finite & members.any(axis=1)
        usual = float(np.median(deviations[drawn_any])) if drawn_any.any() else math.inf
        foreign = (~members.any(axis=1) & (deviations > _FOREIGN * usual)).tolist()
        found = []
        for t, is_finite in enumerate(finite.tolist()):
            if not is_finite:
                found.append(Reading(0, frozenset(), None, None, None, finite=False))
                continue
            clipped = None if math.isnan(large[t]) else BOUND / large[t]
            scale = None if clipped is None or math.isnan(small[t]) else small[t] * clipped / SMALL
            batch = frozenset(members[t].nonzero()[0].tolist())
            seen = {
                "unclipped": unclipped[t],
                "most": most[t],
                "sign": signs[t],
                "spare": spare[t],
                "foreign": foreign[t],
            }
            found.append(Reading(sizes[t], batch, clipped, scale, noises[t], **seen))
        return tuple(found)

    def _of_one(self, own: Array, members: Members) -> tuple[list[float], Array]:
        """What a single record shows in each round (nan: none does), and how often each record was drawn."""
        rounds = len(own)
        with np.errstate(divide="ignore"):
            logs = np.where(members, np.log(np.abs(own)), np.nan)
        if self.records > self.count:
            units = [
                float(np.exp(np.nanmin(row))) if there.any() else math.nan
                for row, there in zip(logs, members, strict=True)
            ]
            shares = np.abs(own) / np.array(units)[:, None]
            return units, np.where(members, np.rint(np.nan_to_num(shares)), 0.0)
        levels = logs - _factors(logs, members)
        some, spread = members.any(axis=1), _spread(levels, members)
        drawn = members.astype(np.float64)
        means = np.full(rounds, np.nan)
        means[some] = np.where(members, levels, 0.0)[some].sum(axis=1) / drawn[some].sum(axis=1)
        # one that differs from the others was drawn more than once
        for t in np.flatnonzero(spread > _ONCE):
            there = members[t]
            values = levels[t, there]
            times = np.maximum(np.rint(np.exp(values - np.median(values))), 1.0)
            drawn[t, there] = times
            means[t] = (values - np.log(times)).mean()
        return np.exp(means).tolist(), drawn


def _spread(logs: Array, members: Members) -> Array:
    """By how much the members of each round differ."""
    most = np.where(members, logs, -np.inf).max(axis=1, initial=-np.inf)
    least = np.where(members, logs, np.inf).min(axis=1, initial=np.inf)
    found: Array = np.maximum(most - least, 0.0)
    return found


def _factors(logs: Array, members: Members) -> Array:
    """By what the value of each axis differs from that of the others, in every round alike; logarithms."""
    of_axis = np.zeros(logs.shape[1])
    rows = members.sum(axis=1) > 1
    if not (_spread(logs, members) > _ALIKE).any():
        return of_axis
    seen = members[rows].any(axis=0)
    for _ in range(3):
        of_round = np.nanmedian(logs[rows] - of_axis, axis=1)
        of_axis[seen] = np.nanmedian(logs[rows][:, seen] - of_round[:, None], axis=0)
    # the first axis is the measure, at every N: as a rule it belongs to the same layer
    of_axis[seen] -= of_axis[seen][0]
    return np.where(np.abs(of_axis) > _ALIKE, of_axis, 0.0)


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
        deviation = float(deviation_of(spare))
        return int((np.abs(own) > _CLEAR * deviation).sum()), float(release[0])


_TRACE = 0.1
_DENSE = 76
_LENGTHS = tuple(sorted((*np.geomspace(1e-2, 1e6, 16).tolist(), 0.9, 0.99, 1.0, 1.01, 1.1, 2.0, 10.0, 1e8)))
_WIDE = _DENSE + len(_LENGTHS) + SPARE
# Where axes lie says nothing about what they are for: a function may take the first ones for one layer and the last for another.
_SHUFFLED = np.random.default_rng(0).permutation(_WIDE)
_DENSE_AXES, _OWN_AXES, _SPARE_AXES = np.split(_SHUFFLED, [_DENSE, _DENSE + len(_LENGTHS)])


@final
@dataclass(frozen=True, eq=False)
class Mixed:
    """24 records from a hundredth to 10^8 times the bound, along random directions; a tenth of each lies on an axis of its own.

    Of every four one lies anywhere, one close to a common direction, one evenly on four blocks of axes, and one on a single
    block: what clips by coordinate or by block shows on the dense ones, and what mixes records up shows in their sums.
    """

    seed: int

    def gradients(self) -> Array:
        """76 dense axes, one for each record, 256 spare ones, all mixed up; for a bound of 1."""
        generator = np.random.default_rng(self.seed)
        records = len(_LENGTHS)
        directions = generator.standard_normal((records, _DENSE))
        common = generator.standard_normal(_DENSE)
        blocks = _DENSE_AXES * 4 // _WIDE
        for i, direction in enumerate(directions):
            match i % 4:
                case 1:
                    direction[...] = common + 0.1 * direction
                case 2:
                    for block in range(4):
                        direction[blocks == block] /= np.linalg.norm(direction[blocks == block])
                case 3:
                    direction[blocks != i // 4 % 4] = 0.0
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        rows = np.zeros((records, _WIDE))
        rows[:, _DENSE_AXES] = math.sqrt(1.0 - _TRACE**2) * directions
        rows[np.arange(records), _OWN_AXES] = _TRACE
        scaled: Array = rows * np.array(_LENGTHS)[:, None]
        return scaled

    def members(self, releases: Array) -> Array:
        """A row of zeros and ones for each release: who was in the batch."""
        deviations = deviation_of(self.spare(releases))
        there: Array = (np.abs(releases[:, _OWN_AXES]) > _CLEAR * deviations[:, None]).astype(np.float64)
        return there

    def spare(self, releases: Array) -> Array:
        """The part of each release on which no record lies: noise alone."""
        found: Array = releases[:, _SPARE_AXES]
        return found


def faint_gradients() -> Array:
    """Eight records of a billionth of the bound each, on all axes: a release of them is noise."""
    rows = np.random.default_rng(1).standard_normal((8, _WIDE))
    faint: Array = 1e-9 * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return faint


# Coordinates that no bare gradient has.
UNTOUCHED = slice(8, _WIDE)


def bare_gradients() -> Array:
    """Eight records of a billionth of the bound each, with an axis for each of them: on all others a release is its noise."""
    rows: Array = np.zeros((8, _WIDE))
    rows[np.arange(8), np.arange(8)] = 1e-9
    return rows


_FEW_LENGTHS = (1e-9, 1e-6, 0.5, 0.999, 1.001, 3.0, 1e4, 1e8)


def few_gradients(seed: int, without: int | None) -> Array:
    """Eight dense records of lengths from 10^-9 to 10^8 times the bound; the one that it is `without` is next to nothing."""
    rows = np.random.default_rng(seed).standard_normal((len(_FEW_LENGTHS), _WIDE))
    rows *= np.array(_FEW_LENGTHS)[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)
    if without is not None:
        # along the same line, since a function may divide by its length
        rows[without] *= 1e-12 / _FEW_LENGTHS[without]
    return rows


_TOGETHER_LENGTHS = (3.0, 0.5, 30.0, 3.0, 1.01, 10.0, 0.9, 30.0)


def gradients_together(seed: int, without: tuple[int, ...]) -> Array:
    """Eight dense records from half of the bound to thirty times of it; those that it is `without` are next to nothing."""
    rows = np.random.default_rng(seed).standard_normal((len(_TOGETHER_LENGTHS), _WIDE))
    rows *= np.array(_TOGETHER_LENGTHS)[:, None] / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[list(without)] *= 1e-12
    return rows
