"""What an audit needs to know of the thing that it audits, and nothing else.

A target holds two neighbouring datasets, |D| = N and |D'| = N + 1, and can be run on either. A *release* is all that the
adversary sees: one vector of `dimension` numbers for each of `steps` rounds. If the clipped gradients are known, the optimal test
can be built from them; if not, a test is learned. The claim is handed over as a curve.

A release is the noisy mean itself, (sum of the batch's clipped gradients + sigma C xi) / c; SGM has c = 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, final

import numpy as np

from noisymean.errors import NoisymeanError
from noisymean.mechanisms import Mechanism
from noisymean.numerics.logs import Array
from noisymean.pairs import Added
from noisymean.tradeoff import TradeOff


class Neighbour(Enum):
    """Which of the two datasets a trial runs on."""

    SMALLER = "D"
    LARGER = "D'"


class Structure(Enum):
    """Gradients that are all multiples of one unit vector u, the first axis: they need not be written out, whatever N is."""

    ZERO = "zero"
    ALIGNED = "aligned"
    OPPOSED = "opposed"

    @property
    def datasets(self) -> Added:
        """The pair that has these gradients."""
        return Added(0.0 if self is Structure.ZERO else 1.0, -1.0 if self is Structure.OPPOSED else 1.0)


@final
@dataclass(frozen=True, eq=False)
class Known:
    """What a white-box adversary holds: the mechanism that is really run, and the clipped gradients of D'.

    `gradients` has N + 1 rows of norm at most `max_grad_norm`, the last is the record that D lacks; or `structured`.
    """

    mechanism: Mechanism
    max_grad_norm: float
    gradients: Array | None = None
    structured: Structure | None = None


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
