"""Which numbers of records give a denominator, for a mechanism whose denominator is a function of N.

    opacus-loader   int(N * (1/L)) with L = ceil(N/b): what Opacus 1.x makes of a data loader, in its floating point
    easgm           N q
    feasgm          floor(N q)
    sgm             a constant: it tells nothing about N

The first is worked out at every N up to a limit, the next two are solved for N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import assert_never, final

import numpy as np

from noisymean.checks import whole
from noisymean.choices import did_you_mean, written_as
from noisymean.errors import InvalidInput
from noisymean.mechanisms.base import LARGEST_DATASET
from noisymean.mechanisms.rates import Rate, exact_rate

LEAST_LIMIT, MOST_LIMIT = 10**6, 2 * 10**7
_OTHERS = "asgm"


class Kind(Enum):
    """Mechanisms with one denominator for all steps."""

    LOADER = "opacus-loader"
    EASGM = "easgm"
    FEASGM = "feasgm"
    CONSTANT = "sgm"


@final
@dataclass(frozen=True)
class Sizes:
    """How the denominator follows from N."""

    kind: Kind
    batch_size: int | None = None
    rate: Fraction | None = None

    @property
    def in_words(self) -> str:
        """The denominator as a formula."""
        match self.kind:
            case Kind.LOADER:
                return f"int(N/ceil(N/{self.batch_size})), what Opacus makes of batches of {self.batch_size}"
            case Kind.EASGM:
                return f"N*q with q = {self.rate}"
            case Kind.FEASGM:
                return f"floor(N*q) with q = {self.rate}"
            case Kind.CONSTANT:
                return "a constant, which tells nothing about N"
            case _ as never:
                assert_never(never)

    @property
    def told_batch(self) -> float | None:
        """The expected size of a batch where the denominator does not tell it."""
        return self.batch_size if self.kind is Kind.CONSTANT else None

    def denominator_at(self, size: int) -> Fraction | None:
        """c(N); None where it is 0, or no function of N."""
        match self.kind:
            case Kind.LOADER:
                found = int(self._of_loader(np.array([size]))[0])
                return Fraction(found) if found else None
            case Kind.EASGM:
                return size * self._rate if size else None
            case Kind.FEASGM:
                floor = math.floor(size * self._rate)
                return Fraction(floor) if floor else None
            case Kind.CONSTANT:
                return None
            case _ as never:
                assert_never(never)

    def consistent(
        self, least: float, most: float, asked: int | None = None
    ) -> tuple[tuple[tuple[int, int], ...], int | None]:
        """The N whose denominator is from `least` to `most`, as runs (from, to); the largest that was tried, if more may fit."""
        match self.kind:
            case Kind.LOADER:
                limit = min(max(LEAST_LIMIT, 2 * (asked or 0)), MOST_LIMIT)
                found = self._of_loader(np.arange(1, limit + 1))
                # of L batches or more: N/L > b - b/L, and floating point takes no more than 1 off
                last = self._batch - math.ceil(self._batch / math.ceil(limit / self._batch)) - 2
                return _runs((found >= max(least, 1.0)) & (found <= most)), limit if most >= last else None
            case Kind.EASGM:
                low, high = math.ceil(Fraction(least) / self._rate), math.floor(Fraction(most) / self._rate)
                return ((((max(low, 1), high),) if high >= max(low, 1) else ()), None)
            case Kind.FEASGM:
                first, last = max(math.ceil(least), 1), math.floor(most)
                low, high = math.ceil(first / self._rate), math.ceil((last + 1) / self._rate) - 1
                return ((((low, high),) if last >= first and high >= low else ()), None)
            case Kind.CONSTANT:
                return (), None
            case _ as never:
                assert_never(never)

    @property
    def _rate(self) -> Fraction:
        assert self.rate is not None, "made with one"
        return self.rate

    @property
    def _batch(self) -> int:
        assert self.batch_size is not None, "made with one"
        return self.batch_size

    def _of_loader(self, sizes: np.ndarray) -> np.ndarray:
        """int(N * (1/int(1/(1/L)))): the order of Opacus' own operations."""
        lengths = -(-sizes // self._batch)
        steps = (1.0 / (1.0 / lengths)).astype(np.int64)
        return np.asarray((sizes * (1.0 / steps)).astype(np.int64))


def sizes_of(mechanism: str | None, batch_size: int | None, sample_rate: Rate | None) -> Sizes | None:
    """How the denominator follows from N, from what is told; None if that is nothing."""
    if batch_size is not None and sample_rate is not None:
        raise InvalidInput("batch_size", batch_size, "left out when a sample rate is given", "give one of the two")
    if mechanism is None and batch_size is None and sample_rate is None:
        return None
    kind = _kind(mechanism, batch_size)
    batch = None if batch_size is None else whole("batch_size", batch_size, 1, LARGEST_DATASET)
    rate = None if sample_rate is None else exact_rate(sample_rate)
    match kind:
        case Kind.LOADER:
            if batch is None:
                raise InvalidInput("batch_size", None, "given for opacus-loader", "that of the data loader")
        case Kind.EASGM | Kind.FEASGM:
            if rate is None:
                raise InvalidInput(
                    "sample_rate", sample_rate, f"given for {kind.value}", "a batch size alone does not fix it"
                )
        case Kind.CONSTANT:
            if batch is None:
                raise InvalidInput("batch_size", None, "given for sgm", "the expected size of a batch")
        case _ as never:
            assert_never(never)
    return Sizes(kind, batch, rate)


def _kind(mechanism: str | None, batch_size: int | None) -> Kind:
    if mechanism is None:
        # Opacus 1.x is what most checkpoints come from
        return Kind.FEASGM if batch_size is None else Kind.LOADER
    names = [one.value for one in Kind]
    name = written_as(mechanism, [*names, _OTHERS])
    if name == _OTHERS:
        raise InvalidInput(
            "mechanism", mechanism, f"one of {', '.join(names)}",
            "asgm divides by another number in each step",
        )  # fmt: skip
    if name is None:
        raise InvalidInput("mechanism", mechanism, f"one of {', '.join(names)}", did_you_mean(mechanism, names))
    return Kind(name)


def _runs(inside: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Where the N from 1 on are inside."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], inside, [False])).astype(np.int8)))
    return tuple((int(first) + 1, int(last)) for first, last in edges.reshape(-1, 2))
