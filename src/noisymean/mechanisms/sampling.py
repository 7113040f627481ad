r"""How batches are drawn: part of what a mechanism is, because an accountant's claim is for one way of drawing only.

    poisson        every record is in a batch or not by itself, at the rate q: what accountants of DP-SGD analyse
    shuffle        a permutation of the records each epoch, cut into batches; the last one is kept or dropped
    fixed-size     b records without replacement, anew for each batch
    balls-in-bins  every record goes into one of the t batches of an epoch, by itself: random allocation
    cyclic         the records in their order, cut into batches: no randomness

A record is in exactly one batch of an epoch of shuffled, allocated or cyclic batches. `Cut` is an epoch of the first and the last
of these, whose sizes are known: batches of b, and what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final


class Sampling(Enum):
    """How the batches of a run are drawn."""

    POISSON = "poisson"
    SHUFFLE = "shuffle"
    FIXED_SIZE = "fixed-size"
    BALLS_IN_BINS = "balls-in-bins"
    CYCLIC = "cyclic"

    @property
    def is_cut(self) -> bool:
        """Whether an epoch is the dataset cut into batches, whose sizes are therefore known."""
        return self in (Sampling.SHUFFLE, Sampling.CYCLIC)

    @property
    def in_words(self) -> str:
        """How batches are drawn, in words that follow `batches`."""
        match self:
            case Sampling.POISSON:
                return "drawn by Poisson sampling"
            case Sampling.SHUFFLE:
                return "cut from a shuffled dataset"
            case Sampling.FIXED_SIZE:
                return "of a fixed size, drawn without replacement"
            case Sampling.BALLS_IN_BINS:
                return "to which records are allocated at random"
            case Sampling.CYCLIC:
                return "cut from the dataset in its order"


@final
@dataclass(frozen=True)
class Cut:
    """The batches of an epoch: `full` of them have `size` records, and then there may be one with the `last` few."""

    full: int
    size: int
    last: int

    @classmethod
    def of(cls, records: int, size: int, *, drop_last: bool) -> Cut:
        """So many records in batches of `size`; what is left is a last batch, or is in none."""
        full, last = divmod(records, size)
        return cls(full, size, 0 if drop_last else last)

    @property
    def batches(self) -> int:
        """How many batches an epoch has, the last of which may not be full."""
        return self.full + (self.last > 0)
