"""Many rounds of one or several losses: delta(epsilon) and epsilon(delta) on a stated side, by the engine that fits.

- one round: the one-round curve itself;
- many rounds: the contour integral of `composition`, exact and independent of their number;
- few rounds of a loss that is nearly an atom, where that integral converges slowly: the grid of `pld`, a bracket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar, final

import numpy as np

from noisymean.composition import Composed
from noisymean.cumulants import Cumulants, SlowDecay, Sum
from noisymean.pld.compose import GridComposition
from noisymean.tradeoff import Side, TradeOff

Result = TypeVar("Result")


class DeltaCurve(Protocol):
    """A two-sided answer about a pair of distributions: the larger side is safe for guarantees, the smaller for leakage."""

    def epsilon(self, delta: float, side: Side) -> float: ...

    def log_delta(self, epsilon: float, side: Side) -> float: ...

    def inverse(self) -> DeltaCurve: ...


@final
@dataclass(frozen=True, eq=False)
class Loss:
    """One round's loss in the two forms that the engines need; `cumulants` may be missing, `curve` may be a thunk."""

    curve: Callable[[], TradeOff]
    cumulants: Cumulants | None


@final
@dataclass(frozen=True, eq=False)
class Rounds:
    """`count` rounds of each loss; `reverse` swaps the two datasets."""

    parts: tuple[tuple[int, Loss], ...]
    reverse: bool = False

    def epsilon(self, delta: float, side: Side) -> float:
        """epsilon(delta) on the stated side."""
        return self._first_that_works(
            lambda engine: float(engine.epsilon(delta, side)), lambda grid: grid.epsilon(delta, side)
        )

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) on the stated side."""
        return self._first_that_works(
            lambda engine: float(engine.log_delta(epsilon, side)), lambda grid: grid.log_delta(epsilon, side)
        )

    def inverse(self) -> Rounds:
        """The other direction."""
        return Rounds(self.parts, not self.reverse)

    def tradeoff(self) -> TradeOff:
        """T(P, Q) of the whole run; raises SlowDecay where only the grid converges."""
        if self._exact is None:
            raise SlowDecay
        return self._exact

    @cached_property
    def _exact(self) -> TradeOff | None:
        if sum(count for count, _ in self.parts) == 1:
            curve = next(loss.curve() for count, loss in self.parts if count)
        elif all(loss.cumulants is not None for _, loss in self.parts):
            curve = Composed(Sum(tuple((count, loss.cumulants) for count, loss in self.parts if loss.cumulants)))
        else:
            return None
        return curve.inverse() if self.reverse else curve

    @cached_property
    def _grid(self) -> GridComposition:
        grid = GridComposition(tuple((count, loss.curve()) for count, loss in self.parts))
        return grid.inverse() if self.reverse else grid

    def _first_that_works(
        self, ask: Callable[[TradeOff], Result], ask_grid: Callable[[GridComposition], Result]
    ) -> Result:
        if self._exact is not None:
            try:
                with np.errstate(all="ignore"):
                    return ask(self._exact)
            except SlowDecay:
                pass
        return ask_grid(self._grid)


@final
@dataclass(frozen=True, eq=False)
class Chain:
    """P -> P' -> Q: delta(e1 + e2) <= delta_second(e2) + e^e2 delta_first(e1) for every split (docs/accountant.md)."""

    first: DeltaCurve
    second: DeltaCurve

    def epsilon(self, delta: float, side: Side) -> float:
        """An upper bound on epsilon(delta) at the best of a few splits; only the safe side exists."""
        return min(self._at(delta, share) for share in _SHARES)

    def _at(self, delta: float, share: float) -> float:
        second = self.second.epsilon(share * delta, Side.ABOVE)
        left = (1.0 - share) * delta * float(np.exp(-min(second, 700.0)))
        if not np.isfinite(second) or left <= 0.0:
            return float("inf")
        return second + self.first.epsilon(left, Side.ABOVE)

    def log_delta(self, epsilon: float, side: Side) -> float:
        """An upper bound on log delta(epsilon): the best of splits of epsilon."""
        return min(
            float(
                np.logaddexp(
                    self.second.log_delta(share * epsilon, Side.ABOVE),
                    share * epsilon + self.first.log_delta((1.0 - share) * epsilon, Side.ABOVE),
                )
            )
            for share in _SHARES
        )

    def inverse(self) -> Chain:
        """Q -> P' -> P."""
        return Chain(self.second.inverse(), self.first.inverse())


# Shares of delta (or of epsilon) given to the second link; the optimum is flat.
_SHARES = (0.05, 0.3, 0.7, 0.95)
