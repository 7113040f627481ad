"""Many rounds of one or several losses: delta(epsilon) and epsilon(delta) on a stated side, by the engine that fits.

- one round: the one-round curve itself, unless it is known less well than the integral;
- many rounds: the contour integral of `composition`, exact and independent of their number;
- few rounds of a loss that is nearly an atom, where that integral converges slowly: the grid of `pld`, a bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar, final

import numpy as np
from scipy.optimize import minimize_scalar

from noisymean.compose.contour import COMPOSED_ERROR, Composed
from noisymean.compose.grid.composition import GridComposition
from noisymean.laws.cumulants import Cumulants, SlowDecay, Sum
from noisymean.tradeoff import Side, TradeOff

Result = TypeVar("Result")


class DeltaCurve(Protocol):
    """A two-sided answer about a pair of distributions: the larger side is safe for guarantees, the smaller for leakage."""

    def epsilon(self, delta: float, side: Side) -> float: ...

    def epsilon_of_log(self, log_delta: float, side: Side, *, near: float | None = None) -> float: ...

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True) -> bool | None: ...

    def log_delta(self, epsilon: float, side: Side) -> float: ...

    def inverse(self) -> DeltaCurve: ...


@final
@dataclass(frozen=True, eq=False)
class Loss:
    """One round's loss in the two forms that the engines need; `cumulants` may be missing, and leave out some mass.

    `infinite` is the Q-mass of an infinite loss, which cumulants do not see. `mirror` is what to use in the other direction,
    where a bound rounds P and Q the other way; it is told from P to Q as well.
    """

    curve: Callable[[], TradeOff]
    cumulants: Cumulants | None
    left_out: float = 0.0
    infinite: float = 0.0
    mirror: Loss | None = None


@final
@dataclass(frozen=True, eq=False)
class Rounds:
    """`count` rounds of each loss; `reverse` swaps the two datasets."""

    parts: tuple[tuple[int, Loss], ...]
    reverse: bool = False

    def epsilon(self, delta: float, side: Side, *, near: float | None = None) -> float:
        """epsilon(delta) on the stated side; `near` it, if a number is known that is."""
        return self.epsilon_of_log(math.log(delta), side, near=near)

    def epsilon_of_log(self, log_delta: float, side: Side, *, near: float | None = None) -> float:
        """The same for a delta that may be too small to be written down."""
        if not self.reverse and self._infinite > 0.0 and math.log(self._infinite) >= log_delta:
            return math.inf
        if (log_delta, side) not in self._answers:
            self._answers[log_delta, side] = self._first_that_works(
                lambda engine: float(engine.epsilon_of_log(log_delta, side, near=near)),
                lambda grid: grid.epsilon_of_log(log_delta, side),
            )
        return self._answers[log_delta, side]

    @cached_property
    def _answers(self) -> dict[tuple[float, Side], float]:
        """Links of several chains, and both directions of a guarantee, ask the same again."""
        return {}

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True) -> bool | None:
        """Whether one evaluation proves epsilon(delta) <= epsilon; None where it takes more than that to know.

        A `rough` look at the grid may see that it is so, never that it is not.
        """
        if not 0.0 < epsilon < math.inf:
            return False
        return self._first_that_works(
            lambda engine: float(engine.log_delta(epsilon, Side.ABOVE)) <= log_delta,
            lambda grid: (rough and grid.at_most(epsilon, log_delta)) or None,
            # an epsilon far from the one that is asked for says little about the next question
            remember=False,
        )

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) on the stated side."""
        return self._first_that_works(
            lambda engine: self._log_delta(engine, epsilon, side), lambda grid: grid.log_delta(epsilon, side)
        )

    @staticmethod
    def _log_delta(engine: TradeOff, epsilon: float, side: Side) -> float:
        """Where delta is nearly 1 the contour integral may be slow, but delta only falls: one at a larger epsilon is a bound."""
        try:
            return float(engine.log_delta(epsilon, side))
        except SlowDecay:
            for factor in (2.0, 4.0, 8.0, 16.0):
                further = float(engine.log_delta(max(factor * epsilon, factor), Side.BELOW))
                if further > _NEARLY_ONE:
                    return 0.0 if side is Side.ABOVE else further
            raise

    def inverse(self) -> Rounds:
        """The other direction; the same object each time, which remembers what it was asked."""
        return self._inverse

    @cached_property
    def _inverse(self) -> Rounds:
        other = Rounds(self.parts, not self.reverse)
        other.__dict__["_inverse"] = self
        return other

    def tradeoff(self) -> TradeOff:
        """T(P, Q) of the whole run; raises SlowDecay where only the grid converges."""
        if self._exact is None:
            raise SlowDecay
        return self._exact

    @cached_property
    def _exact(self) -> TradeOff | None:
        if self._once and (curve := self._one_round_curve()).relative_error <= COMPOSED_ERROR:
            return curve.inverse() if self.reverse else curve
        if all(loss.cumulants is not None for _, loss in self._losses):
            composed = Composed(
                Sum(tuple((count, loss.cumulants) for count, loss in self._losses if loss.cumulants)),
                sum(count * loss.left_out for count, loss in self._losses),
                self._infinite,
            )
        else:
            return None
        return composed.inverse() if self.reverse else composed

    @property
    def _losses(self) -> tuple[tuple[int, Loss], ...]:
        """The rounds as this direction wants them."""
        return tuple((count, (loss.mirror if self.reverse else None) or loss) for count, loss in self.parts)

    @property
    def _infinite(self) -> float:
        """The Q-mass of an infinite loss in any of the rounds."""
        never = sum(count * math.log1p(-loss.infinite) for count, loss in self.parts if loss.infinite < 1.0)
        return 1.0 if any(loss.infinite >= 1.0 for _, loss in self.parts) else -math.expm1(never)

    @property
    def _once(self) -> bool:
        return sum(count for count, _ in self.parts) == 1

    def _one_round_curve(self) -> TradeOff:
        return next(loss.curve() for count, loss in self._losses if count)

    @cached_property
    def grid(self) -> GridComposition:
        """The rounds on a grid: a bracket that always exists."""
        curves = tuple((count, loss.curve()) for count, loss in self._losses)
        dearest = max(curve.terms for _, curve in curves)
        grid = GridComposition(curves, min(max(_GRID_WORK // dearest, _FEWEST_POINTS), _MOST_POINTS))
        return grid.inverse() if self.reverse else grid

    @cached_property
    def _slow(self) -> list[bool]:
        return []

    def _first_that_works(
        self,
        ask: Callable[[TradeOff], Result],
        ask_grid: Callable[[GridComposition], Result],
        *,
        remember: bool = True,
    ) -> Result:
        if self._exact is not None and not self._slow:
            try:
                with np.errstate(all="ignore"):
                    return ask(self._exact)
            except SlowDecay:
                if remember:
                    # the next question will most likely end here too
                    self._slow.append(True)
        if self._once:
            curve = self._one_round_curve()
            return ask(curve.inverse() if self.reverse else curve)
        return ask_grid(self.grid)


@final
@dataclass(frozen=True, eq=False)
class Chain:
    """P -> P' -> Q: delta(e1 + e2) <= delta_second(e2) + e^e2 delta_first(e1) for every split (docs/accountant.md).

    Only the safe side exists: every split is a bound, the best of a few is taken.
    """

    first: DeltaCurve
    second: DeltaCurve

    def epsilon(self, delta: float, side: Side) -> float:
        """An upper bound on epsilon(delta)."""
        return self.epsilon_of_log(math.log(delta), side)

    def epsilon_of_log(self, log_delta: float, side: Side, *, near: float | None = None) -> float:
        """The same for a delta that may be too small to be written down."""
        return self.improved(math.inf, log_delta)

    def improved(self, best: float, log_delta: float) -> float:
        """The lesser of another bound on epsilon and this one, which is only worked out where it is better."""
        for second, rest in self._splits(log_delta, best):
            # one evaluation tells whether a search will find something better, where it is that simple
            if math.isinf(best) or self.first.at_most(best - second, rest, rough=False) is not False:
                best = min(best, second + self.first.epsilon_of_log(rest, Side.ABOVE))
        return best

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True) -> bool | None:
        """Whether epsilon(delta) <= epsilon is seen at once at one of the splits."""
        splits = self._splits(log_delta, epsilon)
        seen = any(self.first.at_most(epsilon - second, rest, rough=rough) for second, rest in splits)
        return True if seen else None

    def _splits(self, log_delta: float, most: float) -> Iterator[tuple[float, float]]:
        """epsilon of the second link and log delta of the first, while there is something left of `most`."""
        second = None
        for share in _SHARES:
            second = self.second.epsilon_of_log(math.log(share) + log_delta, Side.ABOVE, near=second)
            if not second < most:
                # smaller shares cost more
                return
            yield second, math.log1p(-share) + log_delta - second

    def log_delta(self, epsilon: float, side: Side) -> float:
        """An upper bound on log delta(epsilon)."""

        def at(share: float) -> float:
            last = self.second.log_delta(share * epsilon, Side.ABOVE)
            return float(
                np.logaddexp(last, share * epsilon + self.first.log_delta((1.0 - share) * epsilon, Side.ABOVE))
            )

        best = minimize_scalar(at, bounds=(0.0, 1.0), method="bounded", options={"maxiter": 12})
        return min(float(best.fun), 0.0)

    def inverse(self) -> Chain:
        """Q -> P' -> P."""
        return Chain(self.second.inverse(), self.first.inverse())


def least_epsilon(proofs: Sequence[DeltaCurve], log_delta: float) -> float:
    """The least of several upper bounds on one epsilon(delta)."""
    best = math.inf
    # chains take longest: they come last and have to be better
    for proof in sorted(proofs, key=lambda proof: isinstance(proof, Chain)):
        if isinstance(proof, Chain):
            best = proof.improved(best, log_delta)
        else:
            best = min(best, proof.epsilon_of_log(log_delta, Side.ABOVE))
    return best


# Shares of delta given to the second link, falling; the optimum is flat.
_SHARES = (0.95, 0.5, 0.05)
# Points of the grid, and evaluations of closed forms on it.
_MOST_POINTS = 1 << 15
_FEWEST_POINTS = 1 << 12
_GRID_WORK = 1 << 17
# log delta above which nothing is lost by saying 1.
_NEARLY_ONE = -1e-6
