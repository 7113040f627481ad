"""One link after the other, P -> P' -> Q, and bounds that are only worked out where they are better than one that is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import minimize_scalar

from noisymean.compose.engine import DeltaCurve, Rounds
from noisymean.tradeoff import LARGEST_EPSILON, Side

# Shares of delta given to the second link, falling; the optimum is flat.
_SHARES = (0.95, 0.5, 0.05)
# Shares of epsilon, and those beside each that are looked at where it is the best and a look is not for nothing.
_FEW_SHARES = (0.2, 0.5, 0.8)
_BESIDE = {0.2: (0.1, 0.35), 0.5: (0.35, 0.65), 0.8: (0.65, 0.9)}


@final
@dataclass(frozen=True, eq=False)
class ChainedRounds:
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
        if not self._worth_trying(best, log_delta):
            return best
        for second, rest in self._splits(log_delta, best):
            # one evaluation tells whether a search will find something better, where it is that simple
            if math.isinf(best) or self.first.at_most(best - second, rest, rough=False) is not False:
                best = min(best, second + self.first.epsilon_of_log(rest, Side.ABOVE))
        return best

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True, side: Side = Side.ABOVE) -> bool | None:
        """Whether epsilon(delta) <= epsilon is seen at once at one of the splits."""
        if not self._worth_trying(epsilon, log_delta):
            return None
        splits = self._splits(log_delta, epsilon)
        seen = any(self.first.at_most(epsilon - second, rest, rough=rough) for second, rest in splits)
        return True if seen else None

    def _worth_trying(self, most: float, log_delta: float) -> bool:
        """Whether the links would do if each had the most of delta that it may have: no split is better than that."""
        if math.isinf(most):
            return True
        share = math.log(_SHARES[0]) + log_delta
        if self.second.at_most(most, share, rough=False) is False:
            return False
        second = self.second.epsilon_of_log(share, Side.ABOVE, near=most)
        return second < most and self.first.at_most(most - second, log_delta, rough=False) is not False

    def _splits(self, log_delta: float, most: float) -> Iterator[tuple[float, float]]:
        """epsilon of the second link and log delta of the first, while there is something left of `most`."""
        # no link may take more than all
        links = (self.second, self.first) if math.isfinite(most) else ()
        if any(link.at_most(most, log_delta, rough=False) is False for link in links):
            return
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

        found = {share: at(share) for share in _FEW_SHARES}
        if self._is_quick:
            best = minimize_scalar(at, bounds=(0.0, 1.0), method="bounded", options={"maxiter": 12})
            return min(float(best.fun), *found.values(), 0.0)
        middle = min(found, key=lambda share: found[share])
        return min(*found.values(), *map(at, _BESIDE[middle]), 0.0)

    @property
    def _is_quick(self) -> bool:
        """Whether another look costs next to nothing."""
        return all(isinstance(link, Rounds) and link.is_quick for link in (self.first, self.second))

    def improved_delta(self, log_best: float, epsilon: float) -> float:
        """The lesser of another bound on log delta(epsilon) and this one, which is only worked out where it may be better."""
        # no link may have more of epsilon than all
        if any(link.log_delta(epsilon, Side.ABOVE) >= log_best for link in (self.second, self.first)):
            return log_best
        return min(log_best, self.log_delta(epsilon, Side.ABOVE))

    def inverse(self) -> ChainedRounds:
        """Q -> P' -> P."""
        return ChainedRounds(self.second.inverse(), self.first.inverse())


def improved(curve: DeltaCurve, best: float, log_delta: float) -> float:
    """The lesser of a bound on epsilon that is known and this curve's, which is only worked out where it is better."""
    if isinstance(curve, ChainedRounds):
        return curve.improved(best, log_delta)
    if isinstance(curve, Rounds) or math.isfinite(best):
        # a bound beyond the largest epsilon says nothing, and takes long on a grid
        most = min(best, LARGEST_EPSILON)
        if curve.at_most(most, log_delta, rough=False) is False:
            return best
    return min(best, curve.epsilon_of_log(log_delta, Side.ABOVE))


def improved_delta(curve: DeltaCurve, best: float, epsilon: float) -> float:
    """The lesser of a bound on delta that is known and this curve's."""
    if isinstance(curve, ChainedRounds) and 0.0 < best < 1.0:
        log_best = math.log(best)
        found = curve.improved_delta(log_best, epsilon)
        return math.exp(found) if found < log_best else best
    return min(best, math.exp(min(float(curve.log_delta(epsilon, Side.ABOVE)), 0.0)))
