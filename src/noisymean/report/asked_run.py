"""A run, and what is asked about it: the one value that the command line, a file of results and the page with sliders end in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from noisymean.accountant import SMALLEST_DELTA, account
from noisymean.accounts import Account, Pair
from noisymean.errors import check_number
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.runs import MOST_STEPS


@final
@dataclass(frozen=True)
class AskedRun:
    """Epsilon at a delta, or delta at an epsilon, of so many rounds, for which neighbours."""

    mechanism: Mechanism
    steps: int
    delta: float | None = None
    epsilon: float | None = None
    adjacency: Adjacency | None = None
    pair: Pair | None = None

    def __post_init__(self) -> None:
        """What the accountant allows, for the pictures as well."""
        check_number("steps", self.steps, least=1, most=MOST_STEPS, remedy="give the number of noisy updates")
        if self.delta is not None:
            check_number("delta", self.delta, least=SMALLEST_DELTA, most=1.0, remedy="delta = 0 has no finite epsilon")

    def account(self) -> Account:
        return account(
            self.mechanism,
            steps=self.steps,
            delta=self.delta,
            epsilon=self.epsilon,
            adjacency=self.adjacency,
            pair=self.pair,
        )

    def elsewhere(self) -> tuple[int, Account] | None:
        """The answer for another N where that says more, because a guarantee is for every dataset."""
        other = self.mechanism.telling_size()
        adjacency = self.mechanism.adjacency if self.adjacency is None else self.adjacency
        if other is None or adjacency is not Adjacency.ADD_REMOVE:
            # between neighbours of one size no other size comes up
            return None
        return other, account(
            self.mechanism.resized(other),
            steps=self.steps,
            delta=self.delta,
            epsilon=self.epsilon,
            adjacency=self.adjacency,
        )
