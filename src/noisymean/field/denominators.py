"""What a release is divided by, from runs of our own at pairs of sizes: that alone, whatever else is right or wrong about it.

A finding of the prober names a mechanism only if everything about it was established. Here one law is asked for that gives every
denominator that was read; where none does, or several do, it is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from noisymean.probe.laws import LAWS, Kind, Observed, constant_of
from noisymean.probe.prober import effective_bound, observe
from noisymean.probe.runs import setting_of
from noisymean.targets.protocol import Knob, Raised, Runnable

_ROUNDS = 60
# N and N + 1 each: where N q is no whole number, where b divides N, where there is one record to a batch
_RATED = ((25, Fraction(3, 10)), (9, Fraction(1, 2)))
_SIZED = ((25, 10), (30, 10), (49, 1), (98, 2))


@final
@dataclass(frozen=True)
class Seen:
    """At one setting: the smallest and the largest batch, and the smallest and the largest denominator; None: none was read."""

    run: str
    batches: tuple[int, int]
    divided_by: tuple[float, float] | None


@final
@dataclass(frozen=True)
class Denominator:
    """The mechanism that has such a denominator (SGM: a constant), in words, and what was seen; UNKNOWN: no single law."""

    kind: Kind
    words: str
    seen: tuple[Seen, ...]
    # settings at which it raised, each with its words
    raised: tuple[str, ...] = ()


def denominator_of(subject: Runnable, seed: int) -> Denominator:
    """By running it at pairs of sizes."""
    observed, raised = [], []
    for size, chosen in _SIZED if subject.knob is Knob.BATCH_SIZE else _RATED:
        for setting in (setting_of(size, chosen), setting_of(size + 1, chosen)):
            try:
                observed.append(observe(subject, setting, seed + size, _ROUNDS))
            except Raised as fault:
                raised.append(f"at {setting} it {fault}")
    # of records that are clipped to another bound than C, the denominator is that of the bound which the noise shows
    known, _ = effective_bound(observed)
    kind, words = _law(known)
    return Denominator(kind, words, tuple(_seen(one) for one in known), tuple(raised))


def _law(observed: list[Observed]) -> tuple[Kind, str]:
    if (words := constant_of(observed)) is not None:
        return Kind.SGM, words
    fitting = [fitted for law in LAWS if (fitted := law.fitted(observed)) is not None]
    if len({law.kind for law in fitting}) == 1:
        return fitting[0].kind, fitting[0].words
    return Kind.UNKNOWN, "no single denominator explains what was seen"


def _seen(one: Observed) -> Seen:
    sizes = [reading.size for reading in one.readings if reading.finite] or [0]
    found = one.denominators
    return Seen(str(one.setting), (min(sizes), max(sizes)), (found[0], found[-1]) if found else None)


def agreed(found: Denominator, other: Kind) -> Denominator:
    """The same if a prober's finding, which is of other runs, does not speak against it; else it is not known."""
    if Kind.UNKNOWN in (other, found.kind) or other is found.kind:
        return found
    words = f"two runs do not agree: divided by {found.words} in one, {other.value} by the other"
    return replace(found, kind=Kind.UNKNOWN, words=words)
