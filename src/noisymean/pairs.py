"""Explicit pairs of neighbouring datasets, as data: which gradients the records have.

All gradients are multiples of one unit vector u, or those of D of one and the new record's of another that is orthogonal to it.
Lengths are in units of the clipping bound C, negative against u. What is found, compared or composed by its pair uses these
values; the sentence is made last, for whoever reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final


@final
@dataclass(frozen=True)
class Added:
    """Every gradient of D is `shared`, D' has one more record with gradient `new`."""

    shared: float
    new: float

    def __str__(self) -> str:
        if self.shared == 0.0 == self.new:
            return "all gradients are zero, the added record's as well"
        if self.shared == 0.0:
            return f"all gradients of D are zero, the added record's has {_length(self.new)}"
        times = self.new / self.shared
        beside = {1.0: "the same", -1.0: "its opposite"}.get(times, f"{times:g} times it")
        return f"all gradients of D are one vector of {_length(self.shared)}, the added record's is {beside}"


@final
@dataclass(frozen=True)
class AddedAcross:
    """Every gradient of D is one vector of length `shared`, D' has one more record, of length `across` and orthogonal to it."""

    shared: float
    across: float

    def __str__(self) -> str:
        return (
            f"all gradients of D are one vector of {_length(self.shared)}, the added record's has {_length(self.across)}"
            " and is orthogonal to it"
        )


@final
@dataclass(frozen=True)
class Replaced:
    """One record has gradient `before` in D and `after` in D'; every other gradient is zero."""

    before: float
    after: float

    def __str__(self) -> str:
        if self.before == 0.0:
            return f"all gradients are zero but one, which is zero in D and has {_length(self.after)} in D'"
        times = self.after / self.before
        beside = "its opposite" if times == -1.0 else f"{times:g} times it"
        return f"all gradients are zero but one, of {_length(self.before)} in D and {beside} in D'"


@final
@dataclass(frozen=True)
class ReplacedAmong:
    """One record has gradient `before` in D and `after` in D'; every other gradient is `others`, all along one vector."""

    others: float
    before: float
    after: float

    def __str__(self) -> str:
        was = {0.0: "zero", self.others: "the same"}.get(self.before, f"{self.before / self.others:g} times it")
        becomes = "its opposite" if self.after == -self.others else f"{self.after / self.others:g} times it"
        return (
            f"all gradients are one vector of {_length(self.others)} but one, which is {was} in D and {becomes} in D'"
        )


@final
@dataclass(frozen=True)
class Alternating:
    """The last record of every batch has a gradient of full length, of the one sign and the other in turn; others are zero.

    D' has one more record in front, so that every batch gives its last record to the next one.
    """

    closing: float = 1.0

    def __str__(self) -> str:
        return (
            "the last record of each batch of D has full length C, along a vector and against it in turn, all others are zero,"
            " and the added record comes first"
        )


Datasets: TypeAlias = Added | AddedAcross | Replaced | ReplacedAmong | Alternating

# The pair that every mechanism has; the noisy sum attains its own curve on it.
ALL_ZERO = Added(0.0, 1.0)
# The same between neighbours of one size.
ZEROED_OUT = Replaced(0.0, 1.0)


def _length(multiple: float) -> str:
    size = abs(multiple)
    return "full length C" if size == 1.0 else f"length {size:g} C"
