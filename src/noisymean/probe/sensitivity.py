"""How far one record moves the clipped sum, over C: found from sums, on records that a wrong way of clipping does not get right.

    alike   all records alike, as long as clipping just begins in a batch of the expected size: the sum as a function of |B|
    mixed   24 records of many lengths and directions (`records.Mixed`) in Poisson batches, at several C: if every record adds
            the same h whoever else is there, the sums are those of the h, and no record moves them by more than |h|
    few     eight records, all in every batch; one of them made next to nothing: by how much the sum moves

A sum is a release times what it is divided by, known from the law of the denominator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.finding import Clipping, Remark, Severity
from noisymean.probe.full import BOUNDS, Full, everyone
from noisymean.probe.laws import DenominatorLaw, Observed, loader_length
from noisymean.probe.records import BOUND, NOISE, Aligned, Axes, Mixed, deviation_of, few_gradients
from noisymean.probe.runs import by_knob, designed
from noisymean.targets.protocol import Raised, Runnable, Setting

_ALIKE = by_knob((100, Fraction(1, 2)), (99, 50))
MIXED = by_knob((24, Fraction(1, 2)), (24, 12))
_ROUNDS = {BOUNDS[0]: 120, BOUNDS[1]: 60, BOUNDS[2]: 60}
# of eight: the longest, one of a few times the bound, one that is just clipped, one that is not
_LEFT_OUT = (7, 5, 4, 2)
# sums in single precision, and noise of a millionth on some hundred axes
_TOLERANCE = 2e-3
Divisor = Callable[[int], float | None]


def clipping_of(
    subject: Runnable,
    observed: Sequence[Observed],
    law: DenominatorLaw | None,
    full: Full | None,
    bound: float,
    seed: int,
) -> tuple[Clipping, list[Remark]]:
    """The effective bound, what comes before it, and how far one record moves the sum."""
    words, typical, constant = _scaling(observed)
    said: list[Remark] = []
    moved = []
    additive: bool | None = None
    try:
        if typical is not None:
            moved.append(_alike(subject, law, words, typical, bound, seed))
        found, additive = _mixed(subject, law, full, bound, seed + 1)
        moved += [found, _few(subject, full, bound, seed + 2)]
    except Raised as fault:
        said.append(Remark(Severity.FAULT, f"on records of many lengths and directions it {fault}"))
        additive = None
    seen = [one for one in moved if one is not None and math.isfinite(one)]
    clipping = Clipping(bound, words, max(seen, default=None), additive)
    return clipping, said + _remarks(clipping, constant, complete=full is not None and len(seen) == 3)


def _remarks(clipping: Clipping, constant: bool, *, complete: bool) -> list[Remark]:
    """`constant`: the factor before clipping is the same for every N and batch."""
    said = []
    if clipping.bound is not None and abs(clipping.bound - 1.0) > 1e-3:
        severity = Severity.LEAK if clipping.bound > 1.0 else Severity.NOTE
        clipped = "not clipped" if clipping.bound > 500.0 else f"clipped to {clipping.bound:.4g} C"
        said.append(Remark(severity, f"gradients are {clipped}"))
    if clipping.scaled_before == "unknown":
        said.append(Remark(Severity.UNKNOWN, "what gradients are multiplied by before clipping was not seen"))
    elif clipping.scaled_before is not None:
        # a short gradient may be made longer, if no sum moves by more than C
        severity = Severity.NOTE if constant and clipping.sound and complete else Severity.LEAK
        said.append(Remark(severity, f"gradients are multiplied by {clipping.scaled_before} before clipping"))
    if clipping.sensitivity is not None and clipping.sensitivity > 1.0 + 1e-3:
        multiple = f"{clipping.sensitivity:.3f}" if clipping.sensitivity < 100.0 else f"{clipping.sensitivity:,.0f}"
        said.append(Remark(Severity.LEAK, f"one record moves the clipped sum by at least {multiple} C"))
    if clipping.additive is False:
        said.append(Remark(Severity.LEAK, "what a record adds to the sum depends on who else is in the batch"))
    elif clipping.additive is None or not complete:
        said.append(Remark(Severity.UNKNOWN, "how far one record moves the sum was not established"))
    return said


def divisor_at(subject: Runnable, law: DenominatorLaw | None, setting: Setting, bound: float, seed: int) -> Divisor:
    """What a release at this setting is divided by, as a function of |B|: by the law, or measured where that is silent."""
    if law is not None and law.value(setting, 1) is not None:
        return lambda size: law.value(setting, size)
    axes = Axes(setting.dataset_size)
    readings = axes.read(designed(subject, setting, axes.gradients(), seed, 8))
    found = {float(f"{one.clipped * bound:.4g}") for one in readings if one.clipped is not None}
    return lambda size: next(iter(found)) if len(found) == 1 else None


def _alike(
    subject: Runnable, law: DenominatorLaw | None, words: str | None, typical: float, bound: float, seed: int
) -> float | None:
    """Records alike, as long as clipping just begins: their sum as a function of |B|, and by how much it jumps."""
    setting = _ALIKE[subject.knob]
    size = setting.dataset_size
    if words == "|B|":
        # clipping is to begin at a batch of the expected size
        length = loader_length(setting)
        typical = size / length if length else float(size * (setting.rate or 0))
    alike = Aligned(size, bound / typical)
    divisor = divisor_at(subject, law, setting, bound, seed)
    sums: dict[int, float] = {}
    for release in designed(subject, setting, alike.gradients(), seed, 200):
        count, along = alike.read(release)
        by = divisor(count)
        if by is None or not np.isfinite(release).all():
            return None
        sums.setdefault(count, along * by)
    jumps = [abs(sums[count] - sums[count - 1]) for count in sums if count - 1 in sums]
    # the trace takes its part of the length
    return max(jumps) / (BOUND * math.sqrt(1.0 - alike.trace**2)) if jumps else None


def _mixed(
    subject: Runnable, law: DenominatorLaw | None, full: Full | None, bound: float, seed: int
) -> tuple[float | None, bool | None]:
    """The longest h, and whether sums are sums of the h; None where sums cannot be had."""
    setting = MIXED[subject.knob]
    mixed = Mixed(seed)
    divisor = divisor_at(subject, law, setting, bound, seed)
    longest = 0.0
    for at, rounds in _ROUNDS.items():
        releases = designed(subject, setting, mixed.gradients(), seed + int(at), rounds, bound=at)
        if not np.isfinite(releases).all():
            return None, None
        members = mixed.members(releases)
        # a release may be divided by the bound as well
        relative = 1.0 if full is None else full.divisors[at] / full.divisors[BOUND]
        divisors = [divisor(int(size)) for size in members.sum(axis=1)]
        if any(one is None for one in divisors):
            return _measured_by_noise(mixed, releases / at, members), None
        sums = releases * (np.array(divisors, dtype=np.float64)[:, None] * relative / at)
        found, *_ = np.linalg.lstsq(members, sums, rcond=None)
        lengths = np.linalg.norm(found, axis=1)
        rest = np.linalg.norm(sums - members @ found, axis=1)
        # where the noise is louder than it should be, that is for `noise` to say
        loud = 10.0 * float(np.median(deviation_of(mixed.spare(sums)))) * math.sqrt(sums.shape[1])
        if rest.max() > max(_TOLERANCE * max(1.0, float(lengths.max())), loud):
            return None, False
        longest = max(longest, float(lengths.max()))
    return longest, True


def _measured_by_noise(mixed: Mixed, releases: Array, members: Array) -> float | None:
    """The longest release of a single record, in deviations of its noise times sigma; good to a tenth, for a remark."""
    alone = members.sum(axis=1) == 1
    deviations = deviation_of(mixed.spare(releases))
    if not alone.any() or not (deviations > 0.0).all():
        return None
    return float((np.linalg.norm(releases, axis=1) / deviations)[alone].max()) * NOISE


def moved_together(subject: Runnable, seed: int) -> Clipping:
    """How far one record moves the sum where records are not clipped one by one: at least, by the noise."""
    try:
        return Clipping(None, None, _few(subject, None, 1.0, seed), additive=False)
    except Raised:
        return Clipping(None, None, None, additive=False)


def shifted(subject: Runnable, seed: int) -> Clipping:
    """The same where a record that is next to nothing still adds something: it takes the place of the other, and half is sure.

    Told only if that is more than the bound, since it is far from the most.
    """
    found = moved_together(subject, seed)
    half = None if found.sensitivity is None else 0.5 * found.sensitivity
    return replace(found, sensitivity=half if half is not None and half > 1.0 else None)


def _few(subject: Runnable, full: Full | None, bound: float, seed: int) -> float | None:
    """The farthest that the sum moves when one of eight records becomes next to nothing."""
    setting = everyone(subject) if full is None else full.setting
    farthest: float | None = None
    # where the divisor is known the longest records were run at other bounds as well
    for at in BOUNDS if full is None else (BOUND,):
        runs = [
            designed(subject, setting, few_gradients(seed, left_out), seed, 2, bound=at) / at
            for left_out in (None, *_LEFT_OUT)
        ]
        if not all(np.isfinite(releases).all() for releases in runs):
            return None
        unit = _by_noise(runs) if full is None else full.divisors[BOUND] * bound
        if unit is None:
            return None
        first, *others = (releases.mean(axis=0) * unit for releases in runs)
        farthest = max(farthest or 0.0, *(float(np.linalg.norm(first - other)) for other in others))
    return farthest


def _by_noise(runs: Sequence[Array]) -> float | None:
    """Where the divisor was not read, the noise is the measure; a quarter less than it says, so that no chance is taken."""
    between = np.concatenate([releases[0] - releases[1] for releases in runs])
    deviation = float(deviation_of(between)) / math.sqrt(2.0)
    return 0.75 * NOISE * BOUND / deviation if deviation > 0.0 else None


def _scaling(observed: Sequence[Observed]) -> tuple[str | None, float | None, bool]:
    """By what gradients are multiplied before they are clipped: None if by 1; the typical factor; whether it is a constant."""
    pairs = [(one.size, one.scale) for each in observed for one in each.readings if one.scale is not None]
    if not pairs:
        return "unknown", None, False
    sizes, scales = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    for words, expected in ((None, np.ones_like(sizes)), ("|B|", sizes), ("1/|B|", 1.0 / sizes)):
        if _agree(scales, expected):
            return words, float(np.median(expected)), words is None
    if _agree(scales, np.full_like(scales, scales.mean())):
        return f"{scales.mean():.4g}", float(scales.mean()), True
    return "something that varies", float(np.median(scales)), False


def _agree(found: Array, expected: Array) -> bool:
    """Each within a tenth, all together within a hundredth: where the noise is not divided, small values are noisy."""
    ratio = found / expected
    return bool(np.abs(ratio - 1.0).max() < 0.1 and abs(float(ratio.mean()) - 1.0) < 0.01)
