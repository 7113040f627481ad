"""What becomes of an empty batch: batches that are mostly empty go through the implementation as they come.

A step of noise, divided by what the law says for |B| = 0 (for |B| = 1 where that is |B|), is part of the mechanism. Anything else
tells that nobody was in the batch. An attacker can hide it again by drawing the noise himself, so the mechanism's own leakage is
there all the same. A record that nobody has, made up in place of those that were not drawn, is told by its length: noise has not
the same one every time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.chance import chi_square_range
from noisymean.probe.finding import Bearing, Noise, Remark, Sampling, Severity
from noisymean.probe.laws import DenominatorLaw, Kind, Observed
from noisymean.probe.records import BOUND, NOISE, SPARE, Axes
from noisymean.probe.remarks import NOT_FINITE, without_numbers
from noisymean.probe.runs import by_knob, designed
from noisymean.probe.sensitivity import divisor_at
from noisymean.targets.protocol import Raised, Runnable

_EMPTY = by_knob((3, Fraction(1, 20)), (40, 1))
_ROUNDS = 60
# single precision, and noise of a millionth on some hundred axes
_ONE_LENGTH = 1e-3


def empty_batch(
    subject: Runnable,
    observed: Sequence[Observed],
    law: DenominatorLaw | None,
    noise: Noise,
    sampling: Sampling,
    bound: float,
    seed: int,
) -> tuple[str, list[Remark]]:
    """What it does with an empty batch that is handed on as it comes, and what has to be remarked about it."""
    strange = any(reading.foreign for one in observed for reading in one.readings)
    if sampling is Sampling.SHUFFLED and not strange:
        return "does not occur", []
    setting = _EMPTY[subject.knob]
    axes = Axes(setting.dataset_size)
    try:
        divisor = divisor_at(subject, law, setting, bound, seed)
        releases = designed(subject, setting, axes.gradients(), seed, _ROUNDS, empty_as_it_comes=True)
        readings = axes.read(releases)
    except Raised as fault:
        return _telling(Severity.FAULT, without_numbers(str(fault)))
    if not all(one.finite for one in readings):
        return _telling(Severity.FAULT, NOT_FINITE)
    empty = [one for one in readings if one.size == 0]
    # an empty batch counts as one record
    expected = divisor(1 if law is not None and law.kind is Kind.ASGM else 0)
    if foreign := [release for release, one in zip(releases, readings, strict=True) if one.foreign]:
        words = _made_up(np.array(foreign), expected)
        return _telling(Severity.LEAK, words if len(foreign) == len(empty) else f"often {words}")
    if strange:
        return _telling(Severity.LEAK, "sometimes releases more than its noise")
    if not empty and len({one.size for one in readings}) == 1:
        # batches of one size
        return "does not occur", []
    if not empty:
        return _telling(Severity.LEAK, "is left out")
    if noise.scale == 0.0 and not noise.levels:
        return "releases zeros: no batch has noise", []
    silent = [one for one in empty if one.noise is None]
    if silent:
        words = "releases zeros, without noise"
        return _telling(Severity.LEAK, words if len(silent) == len(empty) else f"sometimes {words}")
    square = sum((1.0 / one.noise) ** 2 for one in empty if one.noise is not None) / len(empty)
    words = f"is a step of noise alone, divided by about {1.0 / math.sqrt(square):.2g}"
    if expected is None:
        return words, [Remark(Severity.UNKNOWN, "whether an empty batch has the noise that a batch with records has")]
    # noise that is not what was asked for has a remark of its own
    usual = next((level for level in noise.levels if level.noise_multiplier == NOISE), None)
    scale, error = (1.0, noise.error) if usual is None else (usual.scale, usual.error)
    found = square * expected**2 / scale**2
    low, high = chi_square_range(SPARE * len(empty))
    if noise.shares_denominator is False or low * (1.0 - 2.0 * error) <= found <= high * (1.0 + 2.0 * error):
        return words, []
    other = f"an empty batch {words}, where a batch with records would be divided by {expected:.2g}"
    return words, [Remark(Severity.LEAK, other)]


def _made_up(releases: Array, divisor: float | None) -> str:
    """What an empty batch releases that is no noise, in words; its length in the sum, where the divisor is known."""
    lengths = np.linalg.norm(releases, axis=1)
    if np.ptp(lengths) > _ONE_LENGTH * lengths.mean():
        return "releases more than its noise"
    length = "" if divisor is None else f", which has {lengths.mean() * divisor / BOUND:.3f} C in the sum"
    return f"is replaced by a record that nobody has{length}"


def _telling(severity: Severity, words: str) -> tuple[str, list[Remark]]:
    # a program that stops has released its rounds so far as the mechanism does; the others are another mechanism
    bearing = Bearing.BESIDES if severity is Severity.FAULT else Bearing.OPEN
    return words, [
        Remark(severity, f"an empty batch {words}: whoever sees the release knows that nobody was drawn", bearing)
    ]
