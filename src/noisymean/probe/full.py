"""All records in every batch, so that only the noise is left to chance: what a release is divided by there, at several bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from noisymean.probe.records import BOUND, Axes
from noisymean.probe.runs import almost_everyone, designed, everyone
from noisymean.targets.protocol import Raised, Runnable, Setting

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
    """None if the divisor cannot be read there; `Raised` if it raises at every rate close to one."""
    try:
        setting = everyone(subject, RECORDS)
        return _read(subject, setting, seed)
    except Raised:
        return _read(subject, almost_everyone(subject, RECORDS), seed)


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
