"""The paper's mechanisms; they differ in what they divide by.

    SGM      a constant of the user's        what accountants analyse
    EASGM    N q                             Abadi et al. 2016; Opacus 0.14-0.15 with poisson=True
    FEASGM   floor(N q)                      Opacus 1.x at a given rate
    ASGM     |B|                             Bu et al. 2020; Opacus 0.12-0.13, optax, TF-Privacy

A denominator of 0 (floor(N q) = 0, or an empty batch) is replaced by 1, the paper's convention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from noisymean.errors import Undefined
from noisymean.mechanisms.adjacency import Adjacency
from noisymean.mechanisms.base import (
    BatchDenominator,
    DatasetDenominator,
    Mechanism,
    register,
)
from noisymean.mechanisms.public_rate import DrawnAnyWay
from noisymean.numerics.logs import Array
from noisymean.words import FloorStays, FloorSteps, Note


@final
@register
@dataclass(frozen=True, kw_only=True)
class SGM(DrawnAnyWay, DatasetDenominator):
    """Subsampled Gaussian mechanism: the noisy sum, or the sum over a constant. Neither N nor n matters.

    >>> SGM(sample_rate="1/100", noise_multiplier=1.0).q
    0.01
    """

    dataset_size: int | None = None  # type: ignore[assignment]
    dimension: int | None = None  # type: ignore[assignment]
    name = "sgm"
    denominator = "a constant"
    size_matters = False

    def denominator_at(self, size: int) -> Fraction:
        """Any constant does; this one is 1."""
        return Fraction(1)


@final
@register
@dataclass(frozen=True, kw_only=True)
class EASGM(DrawnAnyWay, DatasetDenominator):
    """Expected-averaged SGM: divides by N q (paper, Definition EASGM)."""

    name = "easgm"
    denominator = "N*q"

    @property
    def least_size(self) -> int:
        """N q has to be above 0."""
        return 1

    def denominator_at(self, size: int) -> Fraction:
        """N q."""
        if size == 0:
            raise Undefined("dataset_size", 0, ">= 1 for EASGM", "an empty dataset has N*q = 0 to divide by")
        return size * self.rate

    def denominator_in_words(self) -> str:
        """The denominator as a product, with its value for this dataset."""
        return f"N*q = {float(self.dataset_size * self.rate):.6g}"


@final
@register
@dataclass(frozen=True, kw_only=True)
class ASGM(DrawnAnyWay, BatchDenominator):
    """Batch-averaged SGM: divides by `|B|`, by 1 when B is empty (paper, Definition ASGM)."""

    name = "asgm"
    denominator = "|B|"
    divides_by_size = True

    def divisor(self, batches: Array) -> Array:
        """The size of the batch."""
        return np.maximum(batches, 1.0)

    def denominator_in_words(self) -> str:
        """What is divided by, which is another number in each batch."""
        return "the size of the batch"


@final
@register
@dataclass(frozen=True, kw_only=True)
class FEASGM(DrawnAnyWay, DatasetDenominator):
    """Floor-based expected-averaged SGM: divides by floor(N q), by 1 when that is 0 (paper, Definition FEASGM).

    >>> FEASGM(dataset_size=140_199, dimension=1, sample_rate=0.005, noise_multiplier=10).floors
    (700, 701)
    """

    name = "feasgm"
    denominator = "floor(N*q)"

    @property
    def floors(self) -> tuple[int, int]:
        """floor(N q) and floor((N+1) q) of the exact decimal."""
        return math.floor(self.dataset_size * self.rate), math.floor((self.dataset_size + 1) * self.rate)

    def denominator_at(self, size: int) -> Fraction:
        """floor(N q), or 1."""
        return Fraction(max(math.floor(size * self.rate), 1))

    def denominator_in_words(self) -> str:
        """The denominator as a product, with its value for this dataset."""
        return f"floor(N*q) = {int(self.denominator_at(self.dataset_size)):,}"

    def nearest_step(self) -> int | None:
        """The dataset size nearest to N at which floor(N q) steps; None if there is none below the largest size."""
        level = math.floor(self.dataset_size * self.rate)
        # floor((M+1) q) > floor(M q) exactly at M = ceil(j/q) - 1
        candidates = [math.ceil(j / self.rate) - 1 for j in (level - 1, level, level + 1, level + 2) if j >= 2]
        return min((m for m in candidates if m >= 1), key=lambda m: abs(m - self.dataset_size), default=None)

    def telling_size(self) -> int | None:
        """Where the floor stays on both sides, the nearest N at which it does not."""
        sizes = range(max(self.dataset_size - 1, 0), self.dataset_size + 2)
        return self.nearest_step() if len({self.denominator_at(size) for size in sizes}) == 1 else None

    def constants_for_opacus(self) -> tuple[Fraction, int]:
        """Opacus 1.x divides by this floor."""
        return self.rate, max(self.floors[0], 1)

    def notes(self) -> tuple[Note, ...]:
        """Whether the floor steps here."""
        before, after = self.floors
        if after > before:
            return (FloorSteps(before, after),)
        fewer = math.floor((self.dataset_size - 1) * self.rate)
        return (FloorSteps(before, fewer) if 1 <= fewer < before else FloorStays(before),)


def with_public_size(mechanism: Mechanism, adjacency: Adjacency) -> Mechanism:
    """The mechanism to analyse when neighbours have the same number of records.

    Under zero-out and replace-one N is public, so a denominator that is a function of N is a constant, dividing by it is
    post-processing, and the mechanism is SGM (docs/theory.md, "Public size"). |B| is not a constant under either.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return mechanism
    if isinstance(mechanism, DatasetDenominator):
        return SGM(
            sample_rate=mechanism.rate,
            noise_multiplier=mechanism.noises[0],
            dataset_size=mechanism.dataset_size,
            dimension=mechanism.dimension,
        )
    raise Undefined(
        "adjacency",
        adjacency.value,
        f"add-remove for {mechanism.name.upper()}",
        f"its denominator {mechanism.denominator} is random under every adjacency",
    )


def moving_pair(mechanism: Mechanism) -> Mechanism:
    """The mechanism on the pair of neighbours whose denominator or rate moves; with one record more where both do or none."""
    fewer = mechanism.fewer()
    if not isinstance(mechanism, DatasetDenominator) or not isinstance(fewer, DatasetDenominator):
        return mechanism
    moves, moves_there = (one.rate_moves or one.noise_moves for one in (mechanism, fewer))
    worse = moves_there > moves or (moves_there == moves and mechanism.is_sum and not fewer.is_sum)
    return fewer if worse else mechanism
