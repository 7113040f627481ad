"""Mechanisms whose rate is a number that was written down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never, final

from noisymean.checks import switch, whole
from noisymean.errors import InvalidInput
from noisymean.mechanisms.adjacency import Adjacency
from noisymean.mechanisms.base import LARGEST_DATASET, Mechanism
from noisymean.mechanisms.rates import Rate, exact_rate
from noisymean.mechanisms.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class PublicRate(Mechanism):
    """A mechanism whose rate is a number that was written down: the same for every N."""

    dataset_size: int
    dimension: int
    sample_rate: Rate
    noise_multiplier: float

    def __post_init__(self) -> None:
        self._fix(sample_rate=exact_rate(self.sample_rate))
        super().__post_init__()

    @final
    def rate_at(self, size: int) -> Fraction:
        """The rate, which is the same at every number of records, exactly as it was written."""
        return exact_rate(self.sample_rate)


@dataclass(frozen=True, kw_only=True)
class DrawnAnyWay(PublicRate):
    """One whose batches may be drawn in any way: then the rate is b/N, or one over the batches of an epoch."""

    sampling: Sampling | str = Sampling.POISSON
    batch_size: int | None = None
    drop_last: bool = False
    unsaid = ("sampling", "batch_size", "drop_last")
    samplings = tuple(Sampling)

    def __post_init__(self) -> None:
        self._fix(drop_last=switch("drop_last", self.drop_last))
        super().__post_init__()
        if self.is_poisson:
            self._only_drawn_otherwise()
        else:
            self._fix_batches()

    @final
    def _only_drawn_otherwise(self) -> None:
        for name, value in (("batch_size", self.batch_size), ("drop_last", self.drop_last or None)):
            if value is not None:
                raise InvalidInput(name, value, "left out with Poisson sampling", "the rate says it all")

    @final
    def _fix_batches(self) -> None:
        """The size of a batch where N q is one; whole batches in an epoch where nothing else is known."""
        rate, drawn = exact_rate(self.sample_rate), self.drawn
        expected = None if self.dataset_size is None else self.dataset_size * rate
        if self.batch_size is not None:
            if drawn is Sampling.BALLS_IN_BINS:
                raise InvalidInput("batch_size", self.batch_size, f"left out with {drawn.value}", "sizes are random")
            self._fix(batch_size=whole("batch_size", self.batch_size, 1, LARGEST_DATASET))
        elif expected is not None and expected.denominator == 1 and drawn is not Sampling.BALLS_IN_BINS:
            self._fix(batch_size=whole("batch_size", int(expected), 1, LARGEST_DATASET))
        if drawn.is_cut and expected is not None and self.batch_size is None and rate.numerator == 1:
            self._fix(batch_size=self._only_size(rate.denominator))
        if self.drop_last and not drawn.is_cut:
            raise InvalidInput("drop_last", True, "left out unless batches are cut", "shuffle or cyclic")
        known = self.batch_size is not None and self.dataset_size is not None
        if drawn is Sampling.FIXED_SIZE:
            if expected is not None and not known:
                raise InvalidInput("sample_rate", str(rate), "b/N for a whole batch size b", "give batch_size")
            if known and not self.batch_size <= self.dataset_size:  # type: ignore[operator]
                raise InvalidInput("batch_size", self.batch_size, f"at most the dataset size {self.dataset_size}")
        elif (drawn is Sampling.BALLS_IN_BINS or not known) and rate.numerator != 1:
            raise InvalidInput(
                "sample_rate", str(rate), f"1/t for a whole number t of batches in an epoch of {drawn.value} batches",
                f"the nearest below is 1/{math.ceil(1 / rate)}",
            )  # fmt: skip

    @final
    def _only_size(self, batches: int) -> int | None:
        """The size of batches of which an epoch has so many; None if there are several, InvalidInput if there is none."""
        records = self.dataset_size or 0
        if self.drop_last:
            least, most = records // (batches + 1) + 1, records // batches
        else:
            least, most = -(-records // batches), (records - 1) // (batches - 1) if batches > 1 else LARGEST_DATASET
        if not 1 <= least <= most:
            raise InvalidInput(
                "sample_rate", f"1/{batches}", f"one over a number of batches that {records} records can be cut into",
                "give batch_size",
            )  # fmt: skip
        return least if least == most else None

    @final
    def draws_all(self, adjacency: Adjacency) -> bool:
        """Whether every record is in every batch of both datasets, so that nothing is drawn."""
        added = adjacency is Adjacency.ADD_REMOVE
        if adjacency is Adjacency.REPLACE_ONE or self.rate != 1:
            return False
        match self.drawn:
            case Sampling.POISSON | Sampling.BALLS_IN_BINS:
                return True
            case Sampling.FIXED_SIZE:
                return not added
            case Sampling.SHUFFLE | Sampling.CYCLIC:
                if self.drop_last:
                    return not added and self.dataset_size is not None and self.dataset_size == self.batch_size
                if self.dataset_size is None or self.batch_size is None:
                    return not added
                return self.dataset_size + added <= self.batch_size
            case _ as never:
                assert_never(never)

    @final
    @property
    def size_of_batches(self) -> int | None:
        """As it was given, or N q where that is whole."""
        return self.batch_size

    @final
    @property
    def drops_last(self) -> bool:
        """Whether a last batch that is not full is dropped."""
        return self.drop_last
