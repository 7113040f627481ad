"""Noise that an implementation calibrates for itself, to a target of privacy: what it chooses at N records and at one more.

A rate that moves with N moves the noise that is calibrated to it. It is measured, like all noise: the axes of nobody, times what
a release is divided by at that N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noisymean.probe.chance import chi_square_range
from noisymean.probe.finding import Bearing, Calibrated, Remark, Severity
from noisymean.probe.laws import DenominatorLaw
from noisymean.probe.records import BOUND, SPARE, Axes
from noisymean.probe.runs import designed, setting_of
from noisymean.targets.protocol import Knob, Raised, Runnable, Setting

_ROUNDS = 400
# b does not divide N, and b divides N: there a record more makes a batch more
_SETTINGS = (setting_of(25, 10), setting_of(30, 10))
_WORDS = "the noise multiplier is calibrated anew at every N"


def pairs_of(
    subject: Runnable, law: DenominatorLaw | None, also: Sequence[Setting], seed: int
) -> tuple[Calibrated, ...]:
    """What it chooses at our pairs of sizes and at the user's own; nothing where it does not choose."""
    if subject.calibration is None or subject.knob is not Knob.BATCH_SIZE or law is None:
        return ()
    found = []
    for part, setting in enumerate(dict.fromkeys((*_SETTINGS, *also))):
        more = replace(setting, dataset_size=setting.dataset_size + 1)
        try:
            before, after = (_chosen(subject, law, one, seed + part) for one in (setting, more))
        except Raised:
            continue
        if before is not None and after is not None:
            words = f"N={setting.dataset_size} -> {more.dataset_size} ({str(setting).split()[1]})"
            low, high = chi_square_range(_ROUNDS * SPARE)
            error = max(1.0 - math.sqrt(low), math.sqrt(high) - 1.0)
            found.append(Calibrated(words, before, after, error))
    return tuple(found)


def remarks(subject: Runnable, pairs: Sequence[Calibrated]) -> list[Remark]:
    """From which noise multiplier to which; the mechanism of a data loader with calibrated noise is analysed as just that."""
    if subject.calibration is None:
        return []
    if not pairs:
        return [Remark(Severity.UNKNOWN, f"{_WORDS}, to {subject.calibration}: to what was not seen")]
    moves = "; ".join(f"{one.run}: {one.before:.3g} -> {one.after:.3g}" for one in pairs if one.moves)
    if not moves:
        return [Remark(Severity.NOTE, f"{_WORDS}, to {subject.calibration}: it was the same at one record more")]
    words = f"one record more changes the noise multiplier, which is calibrated to {subject.calibration}: {moves}"
    return [Remark(Severity.LEAK, words, Bearing.COVERED)]


def _chosen(subject: Runnable, law: DenominatorLaw, setting: Setting, seed: int) -> float | None:
    """The deviation of the axes of nobody, times the divisor, over C."""
    divisor = law.value(setting, setting.dataset_size)
    axes = Axes(setting.dataset_size)
    releases = designed(subject, setting, axes.gradients(), seed, _ROUNDS, own_noise=True)
    spare = releases[:, axes.count :]
    if divisor is None or not np.isfinite(spare).all():
        return None
    return float(np.sqrt(np.mean(spare**2))) * divisor / BOUND
