"""What a user has to know about the denominator, in a sentence each: leaks, faults, and where they were seen."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import assert_never

from noisymean.probe.finding import Bearing, Clipping, Remark, Severity
from noisymean.probe.laws import DenominatorLaw, Kind, Observed, loader_length, neighbours
from noisymean.targets.protocol import Setting

# of which every setting has another
_NUMBERS = re.compile(r"\d+ numbers \(one per parameter\)")
NOT_FINITE = "releases numbers that are not finite"
# the share of empty batches from which on some are among the rounds
_EMPTY = 1e-4
# rounds that have the records of another
_REPEATS = 20


def of_denominator(
    law: DenominatorLaw | None, candidates: Sequence[str], shared: bool | None, observed: Sequence[Observed]
) -> list[Remark]:
    """A denominator that is no constant, with the pair of sizes that shows it best; `shared`: with the noise."""
    if law is None:
        return [_not_known(candidates, observed)]
    match law.kind:
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
            if len({law.value(observed[0].setting, size) for size in (1, 2, 4)}) > 1:
                words = "what is released is divided by a number that follows the size of the batch: one record more changes it"
                return [Remark(Severity.LEAK, words)]
            none = Remark(Severity.UNKNOWN, f"no theorem here is about this denominator: {law.words}")
            return _steps(observed, Bearing.OPEN) or [none]
    assert_never(law.kind)


def _not_known(candidates: Sequence[str], observed: Sequence[Observed]) -> Remark:
    """Why the denominator has no name."""
    if candidates:
        return Remark(
            Severity.UNKNOWN, f"which denominator it is: {' or '.join(candidates)}, which gave the same numbers"
        )
    if not any(one.known for one in observed):
        return Remark(Severity.UNKNOWN, "what gradients are divided by: no clipped record was seen in a release")
    where = max(observed, key=lambda one: len(one.denominators))
    least, most = where.denominators[0], where.denominators[-1]
    seen = f"at {where.setting} it was {least:.4g} to {most:.4g}"
    if len(where.denominators) > 1 and _by_members(observed):
        words = f"what is released is divided by a number that depends on who is in the batch: {seen}"
        return Remark(Severity.LEAK, words)
    return Remark(
        Severity.UNKNOWN, f"what gradients are divided by is none of the denominators that are known here: {seen}"
    )


def _by_members(observed: Sequence[Observed]) -> bool:
    """Whether rounds with the same records have one denominator, in all settings and often enough to be no accident."""
    repeats = 0
    for one in observed:
        seen: dict[frozenset[int], float] = {}
        for reading in one.readings:
            if reading.clipped is None:
                continue
            before = seen.setdefault(reading.batch, reading.clipped)
            if not math.isclose(before, reading.clipped, rel_tol=1e-3):
                return False
            repeats += before is not reading.clipped
    return repeats >= _REPEATS


def of_mixture(clipping: Clipping) -> list[Remark]:
    """What there is to say where a record's part of the sum depends on the others."""
    words = "denominator, noise, batches and empty batches: they are not to be seen where records are mixed"
    return [
        Remark(Severity.LEAK, "what a record adds to the sum depends on who else is in the batch"),
        *_moved(clipping),
        Remark(Severity.UNKNOWN, words),
    ]


def of_shift(clipping: Clipping) -> list[Remark]:
    """What there is to say where a record that is turned round does not add the opposite."""
    words = (
        "denominator, noise, batches and empty batches: a gradient of the other sign does not add the opposite, so it is shifted"
        " before it is clipped, or weighted by what it looks like"
    )
    return [*_moved(clipping), Remark(Severity.UNKNOWN, words)]


def _moved(clipping: Clipping) -> list[Remark]:
    if clipping.sensitivity is None or clipping.sensitivity <= 1.0 + 1e-3:
        return []
    multiple = f"{clipping.sensitivity:.3f}" if clipping.sensitivity < 100.0 else f"{clipping.sensitivity:,.0f}"
    return [Remark(Severity.LEAK, f"one record moves the clipped sum by at least {multiple} C")]


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
    return of_raised(law, dict.fromkeys(where, NOT_FINITE), "")


def of_raised(law: DenominatorLaw | None, raised: Mapping[Setting, str], empty: str) -> list[Remark]:
    """Where it raises instead of releasing something, or does otherwise what no release should.

    `empty` is what it does with an empty batch, which has a remark of its own.
    """
    where: dict[tuple[str, Bearing], list[str]] = {}
    for setting, fault in raised.items():
        words = without_numbers(fault)
        if words == empty and _is_often_empty(setting):
            continue
        # a floor that falls to zero is the data loader's, and its mechanism is not defined there
        floored = law is not None and law.kind is Kind.LOADER and law.value(setting, 1) == 0.0
        bearing = Bearing.COVERED if floored else Bearing.OPEN
        where.setdefault((words, bearing), []).append(str(setting))
    return [Remark(Severity.FAULT, f"at {', '.join(at)} it {words}", bearing) for (words, bearing), at in where.items()]


def without_numbers(words: str) -> str:
    """A complaint about how many numbers there are, which says as much at every setting."""
    return _NUMBERS.sub("as many numbers as there are parameters", words)


def _is_often_empty(setting: Setting) -> bool:
    """Whether a batch is empty every now and then, at the rate that was set."""
    length = loader_length(setting)
    rate = 1.0 / length if length else float(setting.rate or 1)
    return (1.0 - rate) ** setting.dataset_size > _EMPTY


def of_signs(observed: Sequence[Observed]) -> list[Remark]:
    """An update against the gradient is as good as one along it; one that is now this and now that is not."""
    signs = {reading.sign for one in observed for reading in one.readings if reading.batch}
    if len(signs) < 2 and 0 not in signs:
        return []
    return [Remark(Severity.FAULT, "the sign of what is released changes")]
