"""What a user has to know about the denominator, in a sentence each: leaks, faults, and where they were seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import assert_never

from noisymean.probe.finding import Bearing, Remark, Severity
from noisymean.probe.laws import DenominatorLaw, Kind, Observed, loader_length, neighbours
from noisymean.targets.protocol import Setting


def of_denominator(law: DenominatorLaw | None, shared: bool | None, observed: Sequence[Observed]) -> list[Remark]:
    """A denominator that is no constant, with the pair of sizes that shows it best; `shared`: with the noise."""
    kind = Kind.UNKNOWN if law is None else law.kind
    match kind:
        case Kind.SGM:
            return []
        case Kind.ASGM:
            words = "the denominator is the exact size of the batch: one record more changes the noise"
            # where the noise is not divided by it, that is a remark of its own
            return [] if shared is False else [Remark(Severity.LEAK, words, Bearing.COVERED)]
        case Kind.INDEPENDENT:
            words = "the denominator is drawn anew from the number of records, whatever is in the batch"
            return [Remark(Severity.LEAK, words)]
        case Kind.EASGM | Kind.FEASGM | Kind.LOADER:
            return _steps(observed, Bearing.COVERED)
        case Kind.UNKNOWN:
            return _steps(observed, Bearing.OPEN)
    assert_never(kind)


def _steps(observed: Sequence[Observed], bearing: Bearing) -> list[Remark]:
    steps = []
    for words, one, other in neighbours(one for one in observed if len(one.denominators) == 1):
        (before,), (after,) = one.denominators, other.denominators
        if not math.isclose(before, after, rel_tol=1e-4):
            steps.append(f"{words}: {before:.4g} -> {after:.4g}")
    if not steps:
        return []
    return [Remark(Severity.LEAK, f"one record more changes the denominator: {'; '.join(steps)}", bearing)]


def of_floors(law: DenominatorLaw | None, observed: Sequence[Observed]) -> list[Remark]:
    """Where the floor was taken in floating point and fell short; the data loader's mechanism is just that."""
    if law is None or law.kind is not Kind.LOADER:
        return []
    remarks = []
    for one in observed:
        length = loader_length(one.setting)
        exact = one.setting.dataset_size // (length or 1)
        if one.denominators and round(one.denominators[0]) != exact:
            words = f"at {one.setting} it divides by {one.denominators[0]:.4g}; the exact floor(N/L) is {exact}"
            remarks.append(Remark(Severity.FAULT, words, Bearing.COVERED))
    return remarks


def of_non_finite(law: DenominatorLaw | None, observed: Sequence[Observed]) -> list[Remark]:
    """Where a release is no number at all."""
    where = [one.setting for one in observed if not all(reading.finite for reading in one.readings)]
    return of_raised(law, dict.fromkeys(where, "releases numbers that are not finite"))


def of_raised(law: DenominatorLaw | None, raised: Mapping[Setting, str]) -> list[Remark]:
    """Where it raises instead of releasing something, or does otherwise what no release should."""
    remarks = []
    for setting, words in raised.items():
        # a floor that falls to zero is the data loader's, and its mechanism is not defined there
        floored = law is not None and law.kind is Kind.LOADER and law.value(setting, 1) == 0.0
        bearing = Bearing.COVERED if floored else Bearing.OPEN
        remarks.append(Remark(Severity.FAULT, f"at {setting} it {words}", bearing))
    return remarks


def of_signs(observed: Sequence[Observed]) -> list[Remark]:
    """An update against the gradient is as good as one along it; one that is now this and now that is not."""
    signs = {reading.sign for one in observed for reading in one.readings if reading.batch}
    if len(signs) < 2 and 0 not in signs:
        return []
    return [Remark(Severity.FAULT, "the sign of what is released changes")]
