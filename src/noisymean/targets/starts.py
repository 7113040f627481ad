r"""Where an audit of a function of gradients starts: what the gradients of the two datasets are, before anybody clips them.

No pair shows every bug. Where all gradients are as long as the bound nothing is clipped, so clipping that is left out, or done
layer by layer with the full bound for each, needs longer ones; a bound that is kept by each coordinate but not by all of them
needs a record that has them all; a mean that is taken before clipping needs others that are as long as the batch is large.

    spread     D is all zero, the record the same in every coordinate, 10 C in each
    random     directions, each of length C: the others' as well
    zero       D is all zero, the record C u, with u the first axis
    aligned    all C u
    opposed    D all C u, the record -C u
    long       directions as in `random`, a hundred times as long
    crowd      opposed, the others as long as C times the expected size of a batch, the record ten times that

`spread` is the usual one: a mechanism that keeps the claim of the noisy sum attains it there, and most that do not show more.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Structure
from noisymean.targets.records import Gradients

# How much longer than the bound: beyond what any share of it allows.
_LONG, _EACH, _AGAINST = 100.0, 10.0, 10.0


class Start(Enum):
    """The gradients of a pair of datasets, by name."""

    SPREAD = "spread"
    RANDOM = "random"
    ZERO = "zero"
    ALIGNED = "aligned"
    OPPOSED = "opposed"
    LONG = "long"
    CROWD = "crowd"

    @property
    def structure(self) -> Structure | None:
        """The structure of that name, where gradients are along one axis and no longer than the bound."""
        return Structure(self.value) if self in (Start.ZERO, Start.ALIGNED, Start.OPPOSED) else None

    def rows(self, count: int, dimension: int, bound: float, seed: int, batch: float) -> Array:
        """The gradients of D', `count` of them, the last that of the record; batches have `batch` records on average."""
        match self:
            case Start.RANDOM | Start.LONG:
                longer = _LONG if self is Start.LONG else 1.0
                return longer * Gradients.RANDOM.rows(count, dimension, bound, seed)
            case Start.SPREAD:
                rows = np.zeros((count, dimension))
                rows[-1] = _EACH * bound
                return rows
            case Start.CROWD:
                rows = max(1.0, batch) * Gradients.OPPOSED.rows(count, dimension, bound, seed)
                rows[-1] *= _AGAINST
                return rows
            case _:
                return Gradients(self.value).rows(count, dimension, bound, seed)
