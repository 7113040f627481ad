"""What a verdict rests on: each statement about the run, and how it is known.

    seen      read off the program that ran, or measured
    told      said by the user, who answers for it
    assumed   neither: nobody looked, and nobody said so

A claim *holds* only for a run that is known: one assumption, and the verdict is *undetermined*, with the assumption in the same
breath. A run that is known to be another than the one analysed has no numbers at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from noisymean.verdict import Word


class Known(StrEnum):
    """How a statement is known."""

    SEEN = "seen"
    TOLD = "told"
    ASSUMED = "assumed"


class About(StrEnum):
    """What the statement is about, in the order in which they are shown."""

    SAMPLER = "sampler"
    RATE = "rate"
    DENOMINATOR = "denominator"
    NOISE = "noise"
    ADJACENCY = "adjacency"
    RECORDS = "records"
    STEPS = "steps"


@final
@dataclass(frozen=True)
class Ground:
    """One statement: `sampler: Poisson, each record by itself (seen: a DPDataLoader)`."""

    about: About
    value: str
    known: Known
    how: str

    def __str__(self) -> str:
        return f"{self.about}: {self.value} ({self.known}: {self.how})"

    def plain(self) -> dict[str, str]:
        """The statement, its value and how it is known, as plain text for JSON."""
        return {"about": self.about.value, "value": self.value, "known": self.known.value, "how": self.how}


def assumptions(grounds: Iterable[Ground]) -> tuple[Ground, ...]:
    """Those that nobody looked at and nobody answers for."""
    return tuple(ground for ground in grounds if ground.known is Known.ASSUMED)


def resting_on(word: Word, grounds: Iterable[Ground]) -> Word:
    """The verdict, given how the run is known: nothing is decided about a run of which something is merely assumed."""
    return "undetermined" if assumptions(grounds) else word
