"""The pair of datasets that proves a leakage, as something that can be run: what drawing or auditing it would show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from noisymean.accounts import Account
from noisymean.compose.engine import Rounds
from noisymean.leakage import NamedPair, explicit_pairs
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.pairs import ALL_ZERO, ZEROED_OUT, Datasets
from noisymean.runs import Run
from noisymean.tradeoff import Side


def pair_on(mechanism: Mechanism, datasets: Datasets) -> NamedPair | None:
    """One round of the mechanism on these two datasets; None where they are none of those that it is looked at on.

    >>> from noisymean.mechanisms import EASGM
    >>> mechanism = EASGM(dataset_size=9, dimension=50, sample_rate=1, noise_multiplier=5)
    >>> pair_on(mechanism, ALL_ZERO).dimension
    50
    """
    return next((one for one in explicit_pairs(mechanism) if one.datasets == datasets), None)


@final
@dataclass(frozen=True)
class Witness:
    """The mechanism and the two datasets on which an account has its leakage."""

    mechanism: Mechanism
    datasets: Datasets
    pair: NamedPair

    @property
    def looks(self) -> int:
        """Batch sizes under which one release is looked at: what drawing it costs."""
        return self.pair.components

    def lost(self, steps: int) -> float:
        """delta at epsilon = 0 that is certainly lost on this pair after so many steps."""
        return math.exp(Rounds(((steps, self.pair),)).log_delta(0.0, Side.BELOW))

    def claimed(self, steps: int) -> float:
        """delta at epsilon = 0 that is claimed at the most."""
        return math.exp(Run.of(self.mechanism, steps).claimed().log_delta(0.0, Side.ABOVE))


def witness_of(answer: Account, named: Datasets | None = None) -> Witness | None:
    """The pair that an account names, or another, ready to be run; None where it is not one that can be drawn."""
    if answer.adjacency is Adjacency.REPLACE_ONE or answer.leakage.pair is None or not answer.drawn.is_poisson:
        return None
    # a record that is zero and one that is not there are the same to the noisy sum
    datasets = ALL_ZERO if answer.leakage.pair == ZEROED_OUT else named or answer.leakage.pair
    pair = pair_on(answer.drawn, datasets)
    return None if pair is None else Witness(answer.drawn, datasets, pair)
