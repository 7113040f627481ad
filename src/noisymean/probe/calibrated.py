"""Noise that an implementation calibrates for itself, to a target of privacy: what it chooses at N records and at one more.

A rate that moves with N moves the noise that is calibrated to it. Two runs of one seed, at the prober's own noise and at the
calibrated one, draw the same batches and the same normal numbers: on the axes of nobody, their quotient is that of the two noise
multipliers, whatever a release is divided by. Where the quotients differ, random numbers are drawn in another order; the
deviation of those axes is measured then, like all noise, times a divisor that does not depend on the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.chance import chi_square_range
from noisymean.probe.finding import Bearing, Calibrated, Remark, Severity
from noisymean.probe.laws import DenominatorLaw, Kind, loader_length
from noisymean.probe.records import BOUND, NOISE, SPARE, Axes
from noisymean.probe.runs import designed, setting_of
from noisymean.targets.protocol import Knob, Raised, Runnable, Setting

_FEW, _MANY = 4, 400
# single precision
_ALIKE = 1e-4
# b does not divide N, and b divides N: there a record more makes a batch more
_OURS = {
    Knob.BATCH_SIZE: (setting_of(25, 10), setting_of(30, 10)),
    Knob.RATE: (setting_of(25, Fraction(3, 10)), setting_of(9, Fraction(1, 2))),
}
_WORDS = "the noise multiplier is calibrated anew at every N"


@final
@dataclass(frozen=True)
class _Chosen:
    """A noise multiplier, and how far off it may be, relatively."""

    value: float
    error: float


def pairs_of(
    subject: Runnable, law: DenominatorLaw | None, also: Sequence[Setting], seed: int
) -> tuple[tuple[Calibrated, ...], list[Remark]]:
    """What it chooses at our pairs of sizes and at the user's own, and what there is to say; nothing where it does not choose."""
    asked = subject.calibration
    if asked is None:
        return (), []
    settings = tuple(dict.fromkeys((*_OURS.get(subject.knob, ()), *also)))
    found: list[Calibrated] = []
    unseen: list[str] = []
    moved: list[Setting] = []
    for part, setting in enumerate(settings):
        more = replace(setting, dataset_size=setting.dataset_size + 1)
        words = f"N={setting.dataset_size} -> {more.dataset_size} ({str(setting).split()[1]})"
        try:
            before, after = (_chosen(subject, law, one, seed + part) for one in (setting, more))
        except Raised as fault:
            unseen.append(f"at {words} it {fault}")
            continue
        if before is None or after is None:
            unseen.append(f"at {words} it could not be measured")
            continue
        found.append(Calibrated(words, before.value, after.value, max(before.error, after.error)))
        if found[-1].moves:
            moved.append(setting)
    said = [Remark(Severity.UNKNOWN, f"{_WORDS}, to {asked}: {'; '.join(unseen)}")] if unseen else []
    if not settings:
        said.append(Remark(Severity.UNKNOWN, f"{_WORDS}, to {asked}: to what was not seen"))
    return tuple(found), said + _of_pairs(str(asked), found, _bearing(law, moved))


def _of_pairs(asked: str, pairs: Sequence[Calibrated], bearing: Bearing) -> list[Remark]:
    """From which noise multiplier to which."""
    if not pairs:
        return []
    moves = "; ".join(f"{one.run}: {one.before:.4g} -> {one.after:.4g}" for one in pairs if one.moves)
    if not moves:
        within = 2.0 * max(one.error for one in pairs)
        return [
            Remark(Severity.NOTE, f"{_WORDS}, to {asked}: it was the same at one record more, to within {within:.2%}")
        ]
    words = f"one record more changes the noise multiplier, which is calibrated to {asked}: {moves}"
    return [Remark(Severity.LEAK, words, bearing)]


def _bearing(law: DenominatorLaw | None, moved: Sequence[Setting]) -> Bearing:
    """A data loader whose noise follows its rate is analysed as just that: noise that moves only where the rate does."""
    follows = all(loader_length(one) != loader_length(replace(one, dataset_size=one.dataset_size + 1)) for one in moved)
    return Bearing.COVERED if law is not None and law.kind is Kind.LOADER and follows else Bearing.OPEN


def _chosen(subject: Runnable, law: DenominatorLaw | None, setting: Setting, seed: int) -> _Chosen | None:
    """By the same random numbers if it draws the same, else by the deviation."""
    ours, own = (_spare(subject, setting, seed, _FEW, own_noise=own) for own in (False, True))
    if not (np.isfinite(ours).all() and np.isfinite(own).all()):
        return None
    if (ours != 0.0).all():
        quotients = own / ours
        typical = float(np.median(quotients))
        if abs(typical - 1.0) < _ALIKE:
            # the prober's own noise once more, which nobody would choose
            return None
        if typical > 0.0 and np.abs(quotients / typical - 1.0).max() < _ALIKE:
            return _Chosen(NOISE * typical, _ALIKE)
    return _by_deviation(subject, law, setting, seed)


def _by_deviation(subject: Runnable, law: DenominatorLaw | None, setting: Setting, seed: int) -> _Chosen | None:
    """Times the divisor, over C; None where the divisor is not known or follows the batch, which loud noise hides."""
    divisors = {None if law is None else law.value(setting, size) for size in (1, setting.dataset_size)}
    if len(divisors) > 1 or (divisor := divisors.pop()) is None:
        return None
    spare = _spare(subject, setting, seed, _MANY, own_noise=True)
    if not np.isfinite(spare).all():
        return None
    low, high = chi_square_range(_MANY * SPARE)
    error = max(1.0 - math.sqrt(low), math.sqrt(high) - 1.0)
    return _Chosen(float(np.sqrt(np.mean(spare**2))) * divisor / BOUND, error)


def _spare(subject: Runnable, setting: Setting, seed: int, rounds: int, *, own_noise: bool) -> Array:
    """The axes of nobody."""
    axes = Axes(setting.dataset_size)
    releases = designed(subject, setting, axes.gradients(), seed, rounds, own_noise=own_noise)
    found: Array = releases[:, axes.count :]
    return found
