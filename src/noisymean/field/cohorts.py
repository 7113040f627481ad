"""How batches are drawn that are no Poisson batches, read off releases in which no record is clipped.

Record i has a gradient of C/256 along axis i alone, so a release shows it as often as it was drawn: divided by c, its axis is
k C / (256 c) for k draws. The smallest value of a round is that of one draw, unless everybody was drawn twice. So a record that
comes twice is told from one that comes once, which a probe's records of two lengths do not always show.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.records import NOISE, SMALL, SPARE, TOLERANCE
from noisymean.probe.runs import designed, setting_of
from noisymean.targets.protocol import Knob, Raised, Runnable

# 25 batches to an epoch, three epochs
_SIZE, _BATCH, _EPOCHS = 300, 12, 3
_CLEAR = 20.0
_WHOLE = 0.02


class Drawn(Enum):
    """How batches are drawn."""

    IN_ORDER = "in order, the same every epoch"
    SHUFFLED = "each record once per epoch"
    FIXED_SIZE = "of a fixed size, without replacement"
    WITH_REPLACEMENT = "of a fixed size, with replacement"
    UNKNOWN = "unknown"


@final
@dataclass(frozen=True)
class Cohorts:
    """How batches of that size are drawn; sizes with repeats counted; what was divided by at N and at N + 1, if one number."""

    drawn: Drawn
    size: int
    sizes: tuple[int, int]
    divided_by: tuple[float, float] | None


def cohorts_of(subject: Runnable, seed: int) -> Cohorts | None:
    """For what draws its own batches of a size that is set; None where it cannot be read."""
    if subject.knob is not Knob.BATCH_SIZE:
        return None
    try:
        (counts, first), (_, second) = (_counts(subject, _SIZE + more, seed + more) for more in (0, 1))
    except Raised:
        return None
    if counts is None:
        return None
    sizes = counts.sum(axis=1)
    divided = None if first is None or second is None else (first, second)
    return Cohorts(_drawn(counts), _BATCH, (int(sizes.min()), int(sizes.max())), divided)


def _counts(subject: Runnable, records: int, seed: int) -> tuple[Array | None, float | None]:
    """How often each record was drawn in each round, and the denominator if it was one number in all rounds."""
    rows = np.zeros((records, records + SPARE))
    rows[np.arange(records), np.arange(records)] = SMALL
    rounds = _EPOCHS * (_SIZE // _BATCH)
    released = np.abs(designed(subject, setting_of(records, _BATCH), rows, seed, rounds, noise=NOISE))
    own, spare = released[:, :records], released[:, records:]
    if not np.isfinite(released).all():
        return None, None
    there = own > _CLEAR * np.sqrt(np.mean(spare**2, axis=1, keepdims=True))
    if not there.any(axis=1).all():
        return None, None
    units = np.where(there, own, np.inf).min(axis=1)
    shares = np.where(there, own / units[:, None], 0.0)
    counts: Array = np.rint(shares)
    if np.abs(shares - counts).max() > _WHOLE:
        return None, None
    # the median: the noise of one value is no matter
    denominators = SMALL / np.array([np.median(own[t, there[t]] / counts[t, there[t]]) for t in range(rounds)])
    one = np.ptp(denominators) <= 10.0 * TOLERANCE * denominators.mean()
    return counts, float(f"{denominators.mean():.4g}") if one else None


def _drawn(counts: Array) -> Drawn:
    sizes = counts.sum(axis=1)
    if np.ptp(sizes) > 0.0:
        return Drawn.UNKNOWN
    if counts.max() > 1.0:
        return Drawn.WITH_REPLACEMENT
    length = _SIZE // _BATCH
    epochs = counts.reshape(_EPOCHS, length, counts.shape[1])
    if (epochs.sum(axis=1) != 1.0).any():
        return Drawn.FIXED_SIZE
    return Drawn.IN_ORDER if (epochs == epochs[0]).all() else Drawn.SHUFFLED
