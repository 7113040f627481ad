"""What a user has to know, in a sentence each: leaks, faults, and where they were seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from noisymean.probe.finding import Clipping, Noise, Remark, Severity
from noisymean.probe.laws import Kind, Law, Observed, loader_length


def of_denominator(kind: Kind, words: str, observed: Sequence[Observed]) -> list[Remark]:
    """A denominator that is no constant, with the pair of sizes that shows it best."""
    if kind is Kind.SGM or (kind is Kind.UNKNOWN and "constant" in words):
        return []
    if kind is Kind.ASGM:
        return [
            Remark(Severity.LEAK, "the denominator is the exact size of the batch: one record more changes the noise")
        ]
    if kind is Kind.INDEPENDENT:
        return [
            Remark(Severity.LEAK, "the denominator is drawn anew from the number of records, whatever is in the batch")
        ]
    by_setting = {one.setting: one for one in observed if len(one.denominators) == 1}
    steps = []
    for setting, one in by_setting.items():
        other = by_setting.get(replace(setting, dataset_size=setting.dataset_size + 1))
        if other is not None and not math.isclose(one.denominators[0], other.denominators[0], rel_tol=1e-4):
            sizes = f"N={setting.dataset_size} -> {setting.dataset_size + 1}"
            steps.append(
                f"{sizes} ({str(setting).split()[1]}): {one.denominators[0]:.4g} -> {other.denominators[0]:.4g}"
            )
    return [Remark(Severity.LEAK, f"one record more changes the denominator: {'; '.join(steps)}")] if steps else []


def of_rate(moved: Sequence[str]) -> list[Remark]:
    """A rate that follows the number of records."""
    if not moved:
        return []
    return [Remark(Severity.LEAK, f"one record more changes the sampling rate: {'; '.join(moved)}")]


def of_soundness(noise: Noise, clipping: Clipping) -> list[Remark]:
    """Noise and clipping that are not what was asked for."""
    remarks = []
    if noise.shares_denominator is False:
        remarks.append(Remark(Severity.LEAK, "the noise is not divided by what the gradients are divided by"))
    elif noise.scale is not None and abs(noise.scale - 1.0) > noise.error + 0.02:
        remarks.append(Remark(Severity.FAULT, f"the noise is {noise.scale:.3g} times what was asked for"))
    if clipping.bound is not None and abs(clipping.bound - 1.0) > 0.01:
        severity = Severity.LEAK if clipping.bound > 1.0 else Severity.NOTE
        remarks.append(Remark(severity, f"gradients are clipped to {clipping.bound:.4g} C"))
    if clipping.scaled_before not in (None, "unknown"):
        remarks.append(Remark(Severity.LEAK, f"gradients are multiplied by {clipping.scaled_before} before clipping"))
    if clipping.sensitivity is not None and not clipping.sound:
        remarks.append(
            Remark(Severity.LEAK, f"one record moves the clipped sum by at least {clipping.sensitivity:.3f} C")
        )
    return remarks


def of_floors(law: Law | None, observed: Sequence[Observed]) -> list[Remark]:
    """Where the floor was taken in floating point and fell short."""
    if law is None or law.kind is not Kind.LOADER:
        return []
    remarks = []
    for one in observed:
        length = loader_length(one.setting)
        exact = one.setting.dataset_size // (length or 1)
        if one.denominators and round(one.denominators[0]) != exact:
            words = f"at {one.setting} it divides by {one.denominators[0]:.4g}; the exact floor(N/L) is {exact}"
            remarks.append(Remark(Severity.FAULT, words))
    return remarks


def of_non_finite(observed: Sequence[Observed]) -> list[Remark]:
    """Where a release is no number at all."""
    return [
        Remark(Severity.FAULT, f"at {one.setting} it releases numbers that are not finite")
        for one in observed
        if not all(reading.finite for reading in one.readings)
    ]
