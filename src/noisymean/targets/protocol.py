"""What can be run: the one description that audits and probes share.

A `Runnable` is handed records and settings and gives back what it releases: a function of gradients, a formula, a release of
Opacus, an optimizer. It draws batches, clips, adds noise and divides as it always does; nothing but the released numbers comes
back. Which sampling it can be told is its `knob`:

    RATE         a Poisson rate q, the same for every N
    BATCH_SIZE   the batch size b of a data loader; what rate follows from b and N is for a probe to find out
    BATCH        nothing: it is handed batches, drawn here at a rate, and only divides
    FIXED        the same, and it was made for one N

A `Target` is such a thing on two neighbouring datasets, |D| = N and |D'| = N + 1, at one noise, bound and number of rounds, with
what is claimed for it. Its release is all that the adversary sees: one vector of `dimension` numbers for each of `steps` rounds.
If the clipped gradients are known, the optimal test can be built from them; if not, a test is learned.

What is released is the noisy mean itself, (sum of the batch's clipped gradients + sigma C xi) / c; SGM has c = 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Protocol, final, runtime_checkable

import numpy as np

from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.numerics.logs import Array
from noisymean.pairs import Added
from noisymean.tradeoff import TradeOff

MOST_STEPS = 10**6

# --- things that run on any records --------------------------------------------------------------------------------------


class Knob(Enum):
    """How the sampling of a runnable is set."""

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
class Request:
    """Rounds on records with these gradients, before clipping."""

    setting: Setting
    gradients: Array
    noise_multiplier: float
    max_grad_norm: float
    rounds: int
    seed: int
    # an empty batch goes through the implementation's own code, whatever it does then
    empty_as_it_comes: bool = False
    # a clipping bound that moves is not set back between rounds
    moving_bound: bool = False
    # the noise is the one that it calibrates for itself, not the one that is asked for
    own_noise: bool = False
    # the release alone is asked for: what comes beside it is looked at elsewhere
    alone: bool = False


@final
@dataclass(frozen=True)
class BuiltIn:
    """The noise and the bound that a function has built in instead of taking them as keywords; None where it has not."""

    noise_multiplier: float | None = None
    max_grad_norm: float | None = None


@final
@dataclass(frozen=True)
class Adaptation:
    """A clipping bound that moves after each round: C <- C exp(-rate (fraction of unclipped gradients - quantile))."""

    quantile: float
    learning_rate: float


@final
@dataclass(frozen=True)
class Calibration:
    """A noise multiplier that the implementation computes for itself, from its own sampling rate and this target."""

    target_epsilon: float
    target_delta: float
    epochs: int
    accountant: str

    def __str__(self) -> str:
        return f"epsilon = {self.target_epsilon:g}, delta = {self.target_delta:g}, {self.epochs} epochs"


class Raised(NoisymeanError):
    """The code that was run raised instead of releasing something; in its own words."""


class Runnable(ABC):
    """Something that is handed records and settings and gives back releases. Subclasses are frozen dataclasses."""

    # whether a round is a few array operations, so that thousands of them are nothing
    is_fast: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """What to call it in a table."""

    @property
    @abstractmethod
    def knob(self) -> Knob:
        """How its sampling is set."""

    @abstractmethod
    def run(self, run: Request) -> Array:
        """The releases, a row for each round; `Raised` if it raises."""

    @property
    def unseen_randomness(self) -> str | None:
        """Randomness that it has from elsewhere and that is not run here, in words; None if a run's seed decides everything."""
        return None

    @property
    def adaptation(self) -> Adaptation | None:
        """How its clipping bound moves from round to round; None if the bound stays."""
        return None

    @property
    def calibration(self) -> Calibration | None:
        """To what its noise is calibrated if nobody says otherwise; None if the noise is what is asked for."""
        return None


# --- the same on a pair of datasets -------------------------------------------------------------------------------------


class Neighbour(Enum):
    """Which of the two datasets a trial runs on."""

    SMALLER = "D"
    LARGER = "D'"

    def size(self, smaller: int) -> int:
        """Its number of records, where the smaller dataset has so many."""
        return smaller + (self is Neighbour.LARGER)


class Structure(Enum):
    """Gradients that are all multiples of one unit vector u, the first axis: they need not be written out, whatever N is."""

    ZERO = "zero"
    ALIGNED = "aligned"
    OPPOSED = "opposed"

    @property
    def datasets(self) -> Added:
        return Added(0.0 if self is Structure.ZERO else 1.0, -1.0 if self is Structure.OPPOSED else 1.0)


@final
@dataclass(frozen=True, eq=False)
class Known:
    """What a white-box adversary holds: the mechanism that is really run, and the clipped gradients of D'.

    `gradients` has N + 1 rows of norm at most `max_grad_norm`, the last is the record that D lacks; or `structured`. `told`: the
    user says so, and nobody has looked; a test that is built on it is sound whatever is run, its truth is that of what was told.
    Under zero-out there are N rows, and the gradient of the last record is zero in D.
    """

    mechanism: Mechanism
    max_grad_norm: float
    gradients: Array | None = None
    structured: Structure | None = None
    told: bool = False
    adjacency: Adjacency = Adjacency.ADD_REMOVE


def check_steps(steps: object) -> None:
    """Complain about a number of rounds that cannot be run."""
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MOST_STEPS:
        raise InvalidInput("steps", steps, f"a whole number from 1 to {MOST_STEPS}")


class TrialFault(NoisymeanError):
    """A target misbehaved in the run with this index within its call; the runner adds the trial's number and seed."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index, self.reason = index, reason

    def __str__(self) -> str:
        return f"run {self.index} of the call: {self.reason}"


class Target(Protocol):
    """Something to audit. Must be importable by name in a worker process: it is sent there as its configuration."""

    @property
    def name(self) -> str:
        """What to call it in a table."""

    @property
    def dimension(self) -> int:
        """Numbers released in a round."""

    @property
    def steps(self) -> int:
        """Rounds that the adversary sees."""

    def configuration(self) -> Mapping[str, Any]:
        """All that decides what is run, as JSON: the store files results under its hash, workers rebuild the target from it."""

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        """`trials` independent runs, shape (trials, steps, dimension); every bit of randomness comes from `generator`."""

    def known(self) -> Known | None:
        """What the optimal test needs, if it is known."""

    def claim(self) -> TradeOff | None:
        """The curve that is claimed for the whole release; None if nothing is claimed."""


@final
@dataclass(frozen=True, eq=False)
class Centre:
    """What is known of a release before it is made: its mean on D, and orthonormal rows along which the batch moves it most."""

    mean: Array
    directions: Array


@runtime_checkable
class Onlooked(Protocol):
    """A target whose adversary holds D and sees the weights before each round: all gradients are known, too many for a law."""

    def centres(self, outputs: Array) -> Iterator[Centre]:
        """Of each round of one trial, shape (steps, dimension), from what was released before it."""


@runtime_checkable
class Pulled(Protocol):
    """A target whose gradients are known, and what is done with them is not."""

    def pulls(self) -> Array:
        """Rows along which records pull a release: that of the record that D lacks first."""

    def scales(self) -> tuple[float, ...]:
        """Scales of the noise as it may be drawn: where it is of low precision, it is on a grid in units of one of them."""


@runtime_checkable
class Besides(Protocol):
    """A target that may return more numbers than it promised: whoever sees the release sees what comes beside it."""

    def beside(self) -> int:
        """How many more there are in each round, known once it has run."""


@runtime_checkable
class Undecided(Protocol):
    """A target that leaves open which pair of datasets is run."""

    def pairs(self) -> Sequence[Target]:
        """The pairs to choose from, first the one that is taken unless another is better; none where it is decided."""

    def unchosen(self) -> Target:
        """The pair that is run where there are too few trials to choose."""
