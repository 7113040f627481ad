"""The tests of a trade-off curve that were looked at, and which of them stand on both sides of an alpha.

Every test is a point of the curve with a supporting line, so a look is worth keeping: one test serves all alphas nearby, by its
line from below and by the chord to the next one from above.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from noisymean.numerics.inversion import solve_decreasing
from noisymean.numerics.logs import Array

if TYPE_CHECKING:
    from noisymean.tradeoff import Tails

# e^t beyond this is no longer a double.
LARGEST_EXPONENT = 700.0
# From so many alphas on, tests that are this far apart in log odds of alpha serve those in between,
MANY, _APART = 256, 0.02
# where line and chord differ by no more than this, and than a share of beta (or of something very small).
_BENT, _BENT_SHARE, _TINY = 2e-6, 1e-3, 1e-6


class HasTails(Protocol):
    """A curve, by the tails of its loss."""

    def tails(self, t: Array) -> Tails: ...


@final
class Looked:
    """The tails of a curve at every threshold that was asked for, kept."""

    def __init__(self, curve: HasTails) -> None:
        self._curve = curve
        self._asked: list[tuple[Array, Tails]] = []

    def log_odds(self, t: Array) -> Array:
        """Of P[l > t]; in these it is nearly a line, and both ends keep their digits."""
        tails = self._curve.tails(t)
        self._asked.append((t, tails))
        self.__dict__.pop("_in_order", None)
        return _odds(tails)

    def tails(self, t: Array) -> Tails:
        """At thresholds that were asked for."""
        known, tails = self._in_order
        at = np.searchsorted(known, t)
        return type(tails)(*(side[at] for side in tails))

    def around(self, alpha: Array) -> tuple[Array, Array]:
        """(first, second) of the thresholds that were asked for: P[l > first] >= alpha >= P[l > second], and none in between."""
        known, tails = self._in_order
        # by rounding it may not fall at every step
        above = np.minimum.accumulate(np.exp(tails.p_above))
        second = np.clip(np.searchsorted(-above, -alpha), 1, known.size - 1)
        return known[second - 1], known[second]

    def look_around(self, alpha: Array) -> tuple[Array, Array]:
        """`around` many alphas, after looks at some of them, and at all between whose tests the curve may be bent."""
        goals = np.log(alpha) - np.log1p(-alpha)
        solve_decreasing(self.log_odds, _apart(goals), rough=True)
        first, second = self.around(alpha)
        more, less = self.tails(first), self.tails(second)
        slopes = np.exp(np.minimum([first, second], LARGEST_EXPONENT))
        # the most that a chord is above the lines at its ends: docs/numerics.md, "Margins"
        bend = 0.25 * (np.exp(more.p_above) - np.exp(less.p_above)) * (slopes[1] - slopes[0])
        bent = bend > np.minimum(_BENT, _BENT_SHARE * np.maximum(np.exp(more.q_below), _TINY))
        if not bent.any():
            return first, second
        known, tails = self._in_order
        solve_decreasing(self.log_odds, goals[bent], rough=True, known=(known, _odds(tails)))
        return self.around(alpha)

    @cached_property
    def _in_order(self) -> tuple[Array, Tails]:
        known, first = np.unique(np.concatenate([t for t, _ in self._asked]), return_index=True)
        sides = zip(*(tails for _, tails in self._asked), strict=True)
        return known, type(self._asked[0][1])(*(np.concatenate(side)[first] for side in sides))


def _odds(tails: Tails) -> Array:
    with np.errstate(invalid="ignore"):
        return tails.p_above - tails.p_below


def _apart(goals: Array) -> Array:
    """Those of many goals that are apart, first and last among them."""
    steps = np.floor((goals - goals.min()) / _APART)
    _, first = np.unique(steps, return_index=True)
    return np.union1d(goals[first], [goals.min(), goals.max()])
