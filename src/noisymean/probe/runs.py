"""Runs of a subject, at the prober's own noise and bound unless told otherwise."""

from __future__ import annotations

from fractions import Fraction

from noisymean.numerics.logs import Array
from noisymean.probe.records import BOUND, NOISE
from noisymean.targets.protocol import Knob, Run, Runnable, Setting


def setting_of(size: int, chosen: Fraction | int) -> Setting:
    """A rate is a fraction, a batch size a whole number."""
    if isinstance(chosen, Fraction):
        return Setting(size, rate=chosen)
    return Setting(size, batch_size=chosen)


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
    run = Run(
        setting=setting,
        gradients=gradients * (bound / BOUND),
        noise_multiplier=noise,
        max_grad_norm=bound,
        rounds=rounds,
        seed=seed,
        **options,
    )
    return subject.run(run)


def everyone(subject: Runnable, records: int) -> Setting:
    """A setting at which all records are in every batch."""
    return setting_of(records, records if subject.knob is Knob.BATCH_SIZE else Fraction(1))


def almost_everyone(subject: Runnable, records: int) -> Setting:
    """The same for those that cannot do with a rate of one: never anybody missing, in a billion rounds."""
    return setting_of(records, records if subject.knob is Knob.BATCH_SIZE else Fraction(10**12 - 1, 10**12))
