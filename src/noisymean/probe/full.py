"""All records in every batch, so that only the noise is left to chance: what a release is divided by there, at several bounds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from noisymean.probe.records import BOUND, Axes
from noisymean.probe.runs import designed, setting_of
from noisymean.targets.protocol import Knob, Raised, Runnable, Setting

RECORDS = 8
BOUNDS = (BOUND, 0.1, 8.0)
_ROUNDS = 3
# rounds that differ by less have one divisor: noise that is too loud is for `noise` to find
_ALIKE = 5e-3


@final
@dataclass(frozen=True)
class Full:
    """The setting, and for each bound what the release is divided by (its sign is that of the update)."""

    setting: Setting
    divisors: Mapping[float, float]


def full_of(subject: Runnable, seed: int) -> Full | None:
    """None if the divisor cannot be read there, or it raises at every rate close to one: the noise is then unknown."""
    # for those that cannot do with a rate of one: never anybody missing, in a billion rounds
    for rate in (Fraction(1), Fraction(10**12 - 1, 10**12)):
        with contextlib.suppress(Raised):
            return _read(subject, everyone(subject, rate), seed)
    return None


def everyone(subject: Runnable, rate: Fraction = Fraction(1)) -> Setting:
    """A setting at which all records are in every batch."""
    return setting_of(RECORDS, RECORDS if subject.knob is Knob.BATCH_SIZE else rate)


def _read(subject: Runnable, setting: Setting, seed: int) -> Full | None:
    axes = Axes(RECORDS)
    divisors = {}
    for bound in BOUNDS:
        readings = axes.read(designed(subject, setting, axes.gradients(), seed, _ROUNDS, bound=bound) / bound)
        found = [one.clipped * one.sign for one in readings if one.clipped is not None and one.size == RECORDS]
        if len(found) < _ROUNDS or not all(math.isclose(one, found[0], rel_tol=_ALIKE) for one in found):
            return None
        divisors[bound] = sum(found) / len(found)
    return Full(setting, divisors)
