"""Several curves as one: the lowest of them, the highest, both directions at once, and a curve from its delta(epsilon).

Also the finite pair that has the convex hull of given points for its delta.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from noisymean.errors import check_probability
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Tails, TradeOff


@final
@dataclass(frozen=True)
class ConvexHullOfMinimum(TradeOff):
    """The largest trade-off function below all of `curves`: an adversary who may pick the pair.

    Its supporting line at each slope is the lowest of theirs, so its delta is the largest of theirs.
    """

    curves: tuple[TradeOff, ...]

    def tails(self, t: Array) -> Tails:
        t = np.asarray(t, dtype=np.float64)
        candidates = [curve.tails(t) for curve in self.curves]
        heights = np.stack([np.logaddexp(c.q_below, t + c.p_above) for c in candidates])
        lowest = np.argmin(heights, axis=0)
        return Tails(*(np.choose(lowest, side) for side in zip(*candidates, strict=True)))

    @property
    def slack(self) -> float:
        return max(curve.slack for curve in self.curves)

    @property
    def relative_error(self) -> float:
        return max(curve.relative_error for curve in self.curves)


@final
@dataclass(frozen=True)
class Maximum:
    """Pointwise maximum of trade-off functions: a lower bound on T from several proofs. Again convex."""

    curves: Sequence[TradeOff]

    def __call__(self, alpha: ArrayLike) -> Array:
        return np.asarray(np.max([curve(alpha) for curve in self.curves], axis=0))


def symmetrized_minimum(f: TradeOff) -> TradeOff:
    """Convex hull of min(f, f^-1): what holds whichever dataset is called D."""
    return ConvexHullOfMinimum((f, f.inverse()))


def symmetrized_maximum(f: TradeOff) -> Maximum:
    """max(f, f^-1), the paper's bar f_*: a symmetric upper bound on f (Dong, Roth and Su 2022, Proposition 2)."""
    return Maximum((f, f.inverse()))


def from_delta(alpha: ArrayLike, epsilons: Array, deltas: Array) -> Array:
    """f from its delta(epsilon) by duality: sup_eps 1 - delta - e^eps alpha, and the same with both signs given.

    Exact in the limit of all epsilon, a lower bound for any finite list.
    """
    alpha = np.asarray(check_probability("alpha", alpha), dtype=np.float64)
    lines = 1.0 - np.asarray(deltas) - np.exp(np.asarray(epsilons)) * alpha[..., None]
    return np.asarray(np.clip(lines.max(axis=-1), 0.0, 1.0))


class _Slope(NamedTuple):
    """Of a chord, between -1 and 0: left of w = 1 what it exceeds -1 by, else as it is."""

    value: float
    left: bool

    def until(self, following: _Slope) -> float:
        """How much steeper upwards the next chord is."""
        return following.value - self.value + (1.0 if self.left and not following.left else 0.0)


def corners(epsilon: Array, excess: Array) -> tuple[Array, Array]:
    """Finite corners of the lower convex hull of (w, (1-w)+ + excess), w = e^epsilon, as losses; and the change of slope at each.

    A true delta is convex in w, so the hull of upper bounds at some w is one as well: the curve of finitely many outcomes, whose
    masses under the first law are the changes of slope. The first epsilon is -inf, where delta is 1.
    """

    def slope(i: int, j: int) -> _Slope:
        rise = excess[j] - excess[i]
        # w_j - w_i; from w = 0 on the first corner has no logarithm
        width = math.exp(epsilon[i]) * math.expm1(epsilon[j] - epsilon[i]) if i else math.exp(epsilon[j])
        if epsilon[j] <= 0.0:
            return _Slope(float(rise / width), left=True)
        return _Slope(float((rise + min(math.expm1(epsilon[i]), 0.0)) / width), left=False)

    kept: list[int] = []
    for index in range(epsilon.size):
        while len(kept) > 1 and slope(kept[-2], kept[-1]).until(slope(kept[-1], index)) <= 0.0:
            kept.pop()
        kept.append(index)
    chords = [slope(i, j) for i, j in itertools.pairwise(kept)] + [_Slope(0.0, left=False)]
    mass = np.array([one.until(following) for one, following in itertools.pairwise(chords)])
    seen = mass > 0.0
    return epsilon[kept[1:]][seen], mass[seen]
