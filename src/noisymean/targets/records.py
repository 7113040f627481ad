"""Records of a pair of datasets, N + 1 of them: the last is the one that D lacks. Here by their gradients; others may have more.

A kind of records that is not listed below (images under a model, say) lives wherever it likes, and is imported by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol, final

import numpy as np
from numpy.typing import NDArray

from noisymean.numerics.logs import Array
from noisymean.targets.opacus_releases.sources import Rows, Source, Structured
from noisymean.targets.protocol import Structure


class Records(Protocol):
    """What a release of Opacus can be fed with. A frozen dataclass: its fields are part of a configuration."""

    # in that configuration, and in the registry
    kind: ClassVar[str]

    @property
    def words(self) -> str:
        """What they are, for a table: `given gradients`."""

    @property
    def dimension(self) -> int:
        """Numbers in a gradient."""

    @property
    def is_labelled(self) -> bool:
        """Whether a classifier is trained on them."""

    def source(self) -> Source:
        """How the process of a release makes gradients of what it is sent."""

    def arrays(self, count: int) -> list[NDArray[Any]]:
        """What that process is sent for the first `count` records."""


@final
@dataclass(frozen=True)
class GivenRows:
    """Gradients before clipping, one for each record of D'; the last is the one that D lacks."""

    rows: tuple[tuple[float, ...], ...]
    kind: ClassVar[str] = "GivenRows"
    words: ClassVar[str] = "given gradients"
    is_labelled: ClassVar[bool] = False

    @property
    def dimension(self) -> int:
        return len(self.rows[0])

    def source(self) -> Source:
        return Rows(self.dimension)

    def arrays(self, count: int) -> list[NDArray[Any]]:
        return [np.asarray(self.rows[:count], np.float32)]


@final
@dataclass(frozen=True)
class OnOneAxis:
    """Gradients along one axis, for any N (`protocol.Structure`): the process of a release makes them, and is sent nothing."""

    dimension: int
    structure: Structure
    kind: ClassVar[str] = "Alike"
    is_labelled: ClassVar[bool] = False

    @property
    def words(self) -> str:
        return f"{self.structure.value} gradients"

    def source(self) -> Source:
        datasets = self.structure.datasets
        return Structured(self.dimension, datasets.shared, datasets.new)

    def arrays(self, count: int) -> list[NDArray[Any]]:
        return []


class Gradients(Enum):
    """What gradients of our own making look like: random directions, or one of the structures."""

    RANDOM = "random"
    ZERO = "zero"
    ALIGNED = "aligned"
    OPPOSED = "opposed"

    @property
    def structure(self) -> Structure | None:
        """The structure of that name; random directions have none."""
        return None if self is Gradients.RANDOM else Structure(self.value)

    def rows(self, count: int, dimension: int, bound: float, seed: int) -> Array:
        """The gradients of D', `count` of them, of length `bound` (or zero)."""
        if self.structure is not None:
            along = np.zeros((count, dimension))
            along[:, 0] = bound * self.structure.datasets.shared
            along[-1, 0] = bound * self.structure.datasets.new
            return along
        generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(2**32 - 1,))))
        rows = generator.standard_normal((count, dimension))
        rows *= bound / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows
