"""Runs of a subject, at the prober's own noise and bound unless told otherwise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.records import BOUND, NOISE
from noisymean.targets.protocol import Knob, Raised, Request, Runnable, Setting

# squares of numbers that are larger, or of what they divide, are none
_LARGEST = 1e100


class OutOfRange(Raised):
    """Numbers were released, but none that can be calculated with."""


def setting_of(size: int, chosen: Fraction | int) -> Setting:
    """A rate is a fraction, a batch size a whole number."""
    if isinstance(chosen, Fraction):
        return Setting(size, rate=chosen)
    return Setting(size, batch_size=chosen)


def by_knob(rated: tuple[int, Fraction], sized: tuple[int, int]) -> dict[Knob, Setting]:
    """For each way to set the sampling: N and the batch size where that is it, else N and a rate."""
    return {**dict.fromkeys(Knob, setting_of(*rated)), Knob.BATCH_SIZE: setting_of(*sized)}


def designed(
    subject: Runnable,
    setting: Setting,
    gradients: Array,
    seed: int,
    rounds: int,
    *,
    noise: float = NOISE,
    bound: float = BOUND,
    **options: bool,
) -> Array:
    """The releases of `rounds` rounds on these gradients, which are designed for a bound of 1."""
    found = subject.run(
        Request(setting, gradients * (bound / BOUND), noise, bound, rounds, seed, alone=True, **options)
    )
    largest = float(np.abs(np.where(np.isfinite(found), found, 0.0)).max(initial=0.0))
    if largest > _LARGEST or 0.0 < largest < 1.0 / _LARGEST:
        raise OutOfRange(f"releases numbers that cannot be calculated with, the largest of them {largest:.3g}")
    return found
