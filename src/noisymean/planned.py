r"""Proofs of a whole run that are made of plans: shares of delta for what is beside the rounds, and the rounds for the rest.

The lift (`lifted`) and the mean in the rate (`rate_chain`) both replace a run by all-zero pairs beside coins, up to a factor
e^shift and something that is spent. Which shares are planned for is free: every plan is valid, and the best one is the bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.compose.engine import Rounds
from noisymean.compose.traced import traced
from noisymean.errors import check_probability
from noisymean.laws.all_zero import all_zero_from_above
from noisymean.lift import Lift
from noisymean.mechanisms import DatasetDenominator
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Law, Side

# f(alpha) is asked for beside this share of the least of all errors, which lies between these two.
_SHARE_AT_ALPHA, _LEAST_AT_ALPHA, _MOST_AT_ALPHA = 1e-3, 1e-15, 1e-3
_POINTS = 65
_ULP = 1e-15
# How often the shares of delta are planned again where delta is what is asked for, from when on they stay as they are, and down
# to which logarithm.
_REPLANNED, _SAME_PLAN, _LEAST_LOG_DELTA = 6, 0.05, -650.0


@final
@dataclass(frozen=True)
class Moving:
    """`steps` rounds of a mechanism whose denominator, rate or noise moves with N."""

    mechanism: DatasetDenominator
    steps: int

    @cached_property
    def zero(self) -> tuple[Law, ...]:
        """The all-zero pair with one dimension more, which makes all gradients equally long (docs/theory.md, "Padding")."""
        return all_zero_from_above(self.mechanism.neighbours, (self.mechanism.dimension or 0) + 1)

    def lift(self, *, reverse: bool) -> Lift:
        """The lift of D', or of D."""
        moved, count = self.mechanism.neighbours, self.mechanism.dataset_size or 0
        (q, q_with), sigma = moved.rates, moved.noises[0]
        if reverse:
            return Lift(count, q, q_with, -moved.log_shrink, math.exp(moved.log_shrink) / sigma)
        return Lift(count, q_with, q, moved.log_shrink, math.exp(-moved.log_scale) / sigma)


class Plan(NamedTuple):
    """delta(eps + shift) is no more than it was planned for once the rounds have no more than e^log_left at eps."""

    rounds: Rounds
    shift: float
    log_left: float
    # log of all that is spent beside the rounds
    log_spent: float

    def lower(self, alpha: Array, points: int) -> Array:
        """A bound on f(alpha) from below."""
        told = traced(self.rounds, alpha, points, chord=False)
        return np.maximum(1.0 - math.exp(self.log_spent) - math.exp(self.shift) * (1.0 - told) - _ULP, 0.0)


@dataclass(frozen=True, eq=False)
class PlannedRounds(ABC):
    """Upper bounds on delta(epsilon) of a run, from plans; `still` are rounds with a law of their own."""

    moving: tuple[Moving, ...]
    still: tuple[tuple[int, Law], ...] = ()
    reverse: bool = False

    @abstractmethod
    def _planned(self, log_delta: float) -> Iterator[Plan]:
        """Plans for this delta, any of them valid; none where the proof says nothing."""

    @final
    def inverse(self) -> Self:
        """The other direction, by the proof of the other arm."""
        return self._inverse

    @cached_property
    def _inverse(self) -> Self:
        other = type(self)(self.moving, self.still, not self.reverse)
        other.__dict__["_inverse"] = self
        return other

    @cached_property
    def _lifts(self) -> tuple[Lift, ...]:
        return tuple(one.lift(reverse=self.reverse) for one in self.moving)

    @property
    def _starts(self) -> tuple[tuple[int, Law], ...]:
        return tuple((one.steps, law) for one in self.moving for law in one.zero)

    @final
    def epsilon(self, delta: float, side: Side) -> float:
        """An upper bound on epsilon(delta)."""
        return self.epsilon_of_log(math.log(delta), side)

    @final
    def epsilon_of_log(self, log_delta: float, side: Side, *, near: float | None = None) -> float:
        """The same for a delta that may be too small to be written down; inf where the proof says nothing."""
        best = math.inf
        for plan in self._plans(log_delta):
            if math.isinf(best) or plan.rounds.at_most(best - plan.shift, plan.log_left, rough=False) is not False:
                best = min(best, plan.shift + plan.rounds.epsilon_of_log(plan.log_left, Side.ABOVE, near=near))
                near = best - plan.shift
        return best

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True, side: Side = Side.ABOVE) -> bool | None:
        """Whether epsilon(delta) <= epsilon is seen at once."""
        plans = self._plans(log_delta)
        seen = any(
            plan.rounds.at_most(epsilon - plan.shift, plan.log_left, rough=rough)
            for plan in plans
            if epsilon > plan.shift
        )
        return True if seen else None

    @final
    def log_delta(self, epsilon: float, side: Side) -> float:
        """An upper bound on log delta(epsilon): shares are planned for what the rounds themselves had in the plan before."""
        best, guess = 0.0, -12.0
        for _ in range(_REPLANNED):
            next_guess = 0.0
            for plan in self._plans(guess):
                at = epsilon - plan.shift
                main = plan.shift + (float(plan.rounds.log_delta(at, Side.ABOVE)) if at > 0.0 else 0.0)
                best = min(best, float(np.logaddexp(main, plan.log_spent)))
                next_guess = min(next_guess, main)
            if abs(next_guess - guess) < _SAME_PLAN or next_guess >= 0.0:
                break
            # nothing is planned for less than a double holds
            guess = max(next_guess, _LEAST_LOG_DELTA)
        return best

    @final
    def lower(self, alpha: ArrayLike, points: int = _POINTS) -> Array:
        """A number that is never above T(M(D), M(D')) at alpha, from `points` tests of the all-zero pairs and coins.

        With f their trade-off function 1 - T <= spent + e^shift (1 - f), tangent by tangent.
        """
        alpha = np.asarray(check_probability("alpha", alpha), dtype=np.float64)
        inner = alpha[(alpha > 0.0) & (alpha < 1.0)]
        least = float(np.min(np.minimum(inner, 1.0 - inner), initial=_MOST_AT_ALPHA))
        plans = self._plans(math.log(max(_SHARE_AT_ALPHA * least, _LEAST_AT_ALPHA)))
        return np.asarray(np.max([np.zeros_like(alpha), *(plan.lower(alpha, points) for plan in plans)], axis=0))

    @final
    def _plans(self, log_delta: float) -> tuple[Plan, ...]:
        if log_delta not in self._known:
            self._known[log_delta] = tuple(self._planned(log_delta))
        return self._known[log_delta]

    @cached_property
    def _known(self) -> dict[float, tuple[Plan, ...]]:
        return {}
