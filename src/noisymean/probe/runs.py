"""A run of a subject at the prober's own noise and bound."""

from __future__ import annotations

from fractions import Fraction

from noisymean.numerics.logs import Array
from noisymean.probe.records import BOUND, NOISE
from noisymean.probe.subject import Run, Setting, Subject


def setting_of(size: int, chosen: Fraction | int) -> Setting:
    """A rate is a fraction, a batch size a whole number."""
    if isinstance(chosen, Fraction):
        return Setting(size, rate=chosen)
    return Setting(size, batch_size=chosen)


def designed(subject: Subject, setting: Setting, gradients: Array, seed: int, rounds: int, **options: bool) -> Array:
    """The releases of `rounds` rounds on these gradients."""
    run = Run(
        setting=setting,
        gradients=gradients,
        noise_multiplier=NOISE,
        max_grad_norm=BOUND,
        rounds=rounds,
        seed=seed,
        **options,
    )
    return subject.run(run)
