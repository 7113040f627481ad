r"""The batches of a run, drawn as a mechanism draws them: by Poisson sampling, or in epochs.

One record is the one that neighbours differ in; all others may be alike, and then only their number in each batch matters. A run
begins with an epoch, and may end within one. In cyclic batches that record comes first: a started epoch has used it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from noisymean.errors import Undefined
from noisymean.mechanisms import Cut, Mechanism, Sampling
from noisymean.numerics.logs import Array


@final
@dataclass(frozen=True)
class Batches:
    """Those of `steps` rounds on `records` records, the record in question among them if `record`."""

    mechanism: Mechanism
    records: int
    steps: int
    record: bool

    def __post_init__(self) -> None:
        if self.mechanism.drawn.is_cut:
            self._cut  # noqa: B018 - a dataset that cannot be cut is refused now
        if self.mechanism.drawn is Sampling.FIXED_SIZE and self._size > self.records:
            raise Undefined("batch_size", self._size, f"at most {self.records}, the records of the smaller dataset")

    def counts(self, generator: np.random.Generator, trials: int) -> tuple[Array, Array]:
        """How many others are in each batch, and whether the record is; (trials * steps) numbers each, a trial after another."""
        others = self.records - self.record
        if self.mechanism.is_poisson:
            rate, rounds = float(self.mechanism.rate_at(self.records)), trials * self.steps
            found = generator.binomial(others, rate, size=rounds).astype(np.float64)
            own = (generator.random(rounds) < rate).astype(np.float64) if self.record else np.zeros(rounds)
            return found, own
        own = np.zeros((trials, self.steps))
        if self.record:
            own = self._seen(self._places(generator, trials, alone=True))[:, :, 0]
        thrown = self.mechanism.drawn is Sampling.BALLS_IN_BINS
        found = self._thrown(generator, trials, others) if thrown else self._sizes - own
        return found.ravel(), own.ravel()

    def members(self, generator: np.random.Generator, trials: int) -> Array:
        """Who is in each batch, shape (trials * steps, records); the record is the last."""
        rounds = trials * self.steps
        if self.mechanism.is_poisson:
            rate = float(self.mechanism.rate_at(self.records))
            return (generator.random((rounds, self.records)) < rate).astype(np.float64)
        return self._seen(self._places(generator, trials, alone=False)).reshape(rounds, self.records)

    # --- epochs --------------------------------------------------------------------------------------------------------

    @property
    def _cut(self) -> Cut:
        return self.mechanism.cut(self.records)

    @property
    def _size(self) -> int:
        """How many records a full batch has."""
        return self.mechanism.size_of_batches or 1

    @property
    def _length(self) -> int:
        """Rounds of an epoch; a batch of a fixed size is drawn anew each round."""
        match self.mechanism.drawn:
            case Sampling.SHUFFLE | Sampling.CYCLIC:
                return self._cut.batches
            case Sampling.BALLS_IN_BINS:
                return self.mechanism.batches_in_epoch
            case Sampling.FIXED_SIZE | Sampling.POISSON:
                return 1

    @property
    def _epochs(self) -> int:
        """How many epochs are begun."""
        return -(-self.steps // self._length)

    @property
    def _sizes(self) -> Array:
        """Of the batch of each round, where they are known."""
        if self.mechanism.drawn is Sampling.FIXED_SIZE:
            return np.full(self.steps, float(self._size))
        cut = self._cut
        return np.where(np.arange(self.steps) % cut.batches < cut.full, float(cut.size), float(cut.last))

    def _places(self, generator: np.random.Generator, trials: int, *, alone: bool) -> NDArray[np.int64]:
        """The batch of its epoch that each record is in, shape (trials, epochs, records); or of the one record alone.

        Batches beyond the last are those that are dropped.
        """
        shape = (trials, self._epochs, 1 if alone else self.records)
        match self.mechanism.drawn:
            case Sampling.BALLS_IN_BINS:
                return generator.integers(self._length, size=shape)
            case Sampling.CYCLIC:
                # the record is the last column, and the first in order
                order = np.zeros(1, np.int64) if alone else np.roll(np.arange(self.records), -int(self.record))
                return np.broadcast_to(order // self._size, shape)
            case Sampling.SHUFFLE | Sampling.FIXED_SIZE | Sampling.POISSON:
                if alone:
                    return generator.integers(self.records, size=shape) // self._size
                order = np.broadcast_to(np.arange(self.records), shape)
                return np.asarray(generator.permuted(order, axis=2) // self._size)

    def _seen(self, places: NDArray[np.int64]) -> Array:
        """Who is in the batch of each round, shape (trials, steps, records)."""
        rounds = np.arange(self.steps)
        inside = places[:, rounds // self._length] == (rounds % self._length)[None, :, None]
        return np.asarray(inside, dtype=np.float64)

    def _thrown(self, generator: np.random.Generator, trials: int, others: int) -> Array:
        """How many of the others each round has where each goes into a batch of the epoch by itself."""
        whole, begun = divmod(self.steps, self._length)
        each = 1.0 / self._length
        full = generator.multinomial(others, np.full(self._length, each), size=(trials, whole)) if whole else None
        parts = [] if full is None else [full.reshape(trials, -1)]
        if begun:
            # those that are thrown into batches that are not seen are one more batch
            shares = np.append(np.full(begun, each), 1.0 - begun * each)
            parts.append(generator.multinomial(others, shares, size=trials)[:, :begun])
        return np.concatenate(parts, axis=1).astype(np.float64)
