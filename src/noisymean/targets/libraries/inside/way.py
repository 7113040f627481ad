"""What the module of a library gives to the worker: a way to take steps on given gradients, and what its accounting says.

A loss that is linear in the parameters, <w, x>, has the record itself as its gradient, so any optimizer can be handed gradients.
Parameters are zero at the start of every step and the step has length one: what they are afterwards is the release but for its
sign.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]

# The run that every accounting is asked about: an epoch of 60,000 records in batches of 600.
RECORDS, BATCH, STEPS, NOISE, DELTA = 60_000, 600, 100, 1.0, 1e-5
RATE = BATCH / RECORDS


@final
@dataclass(frozen=True)
class Setting:
    """The noise over the bound, the bound, how many numbers are released, and the seed that decides everything."""

    noise_multiplier: float
    max_grad_norm: float
    dimension: int
    seed: int


class Handed(Protocol):
    """Steps on batches that it is handed."""

    def begin(self, setting: Setting) -> None:
        """Before the first round of a run."""

    def step(self, rows: Rows) -> NDArray[Any]:
        """One round on the records of a batch: what is released."""


class Drawing(Protocol):
    """Steps on batches that the library draws itself."""

    def rounds(self, setting: Setting, rows: Rows, batch_size: int, count: int) -> Iterator[NDArray[Any]]:
        """That many rounds of one training on these records, in batches of an expected size."""
