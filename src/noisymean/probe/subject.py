"""What the prober can run: something that is handed records and settings, and gives back what it releases.

A subject is asked for rounds on a dataset of N records whose gradients the prober has designed. It draws batches, clips, adds
noise and divides as it always does; nothing but the released numbers comes back. Which sampling it can be told is its `knob`:

    RATE         a Poisson rate q, the same for every N
    BATCH_SIZE   the batch size b of a data loader; what rate follows from b and N is for the prober to find out
    BATCH        nothing: it is handed batches, drawn here at a rate, and only divides
    FIXED        the same, and it was made for one N
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Protocol, final

from noisymean.errors import NoisymeanError
from noisymean.numerics.logs import Array


class Knob(Enum):
    """How the sampling of a subject is set."""

    RATE = "rate"
    BATCH_SIZE = "batch size"
    BATCH = "batch"
    FIXED = "batch, one N"


@final
@dataclass(frozen=True)
class Setting:
    """N records, and the rate or the batch size that the user would set."""

    dataset_size: int
    rate: Fraction | None = None
    batch_size: int | None = None

    def __str__(self) -> str:
        sampling = f"q={self.rate}" if self.rate is not None else f"b={self.batch_size}"
        return f"N={self.dataset_size} {sampling}"

    @property
    def chosen(self) -> Fraction | int:
        """What the user chose: the same for D and D'."""
        return self.rate if self.rate is not None else self.batch_size or 0


@final
@dataclass(frozen=True, eq=False)
class Run:
    """Rounds on records with these gradients, before clipping."""

    setting: Setting
    gradients: Array
    noise_multiplier: float
    max_grad_norm: float
    rounds: int
    seed: int
    empty_as_it_comes: bool = False
    moving_bound: bool = False


@final
@dataclass(frozen=True)
class Adaptation:
    """A clipping bound that moves after each round: C <- C exp(-rate (fraction of unclipped gradients - quantile))."""

    quantile: float
    learning_rate: float


class Raised(NoisymeanError):
    """The subject raised instead of releasing something; in its own words."""


class Subject(Protocol):
    """Something to probe."""

    @property
    def name(self) -> str:
        """What to call it in a table."""

    @property
    def knob(self) -> Knob:
        """How its sampling is set."""

    @property
    def swift(self) -> bool:
        """Whether thousands of rounds are nothing to it."""

    @property
    def elsewhere(self) -> str | None:
        """Randomness that it has from elsewhere and that is not run here, in words; None if a run's seed decides all of it."""

    @property
    def adaptation(self) -> Adaptation | None:
        """How its clipping bound moves, if it does."""

    def run(self, run: Run) -> Array:
        """The releases, a row for each round; `Raised` if it raises."""
