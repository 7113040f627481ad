"""A summed loss on grids, layer by layer: delta(epsilon), epsilon(delta) and delta at all points, with everything charged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side

_ULP = 2.3e-16
# Relative width at which the search for epsilon ends.
_FOUND = 1e-8
_MOST_STEPS = 80
# Logarithm that the weights of losses may fall by from one pivot of their running sums to the next.
_NATS = 20.0
# and by how much for what is beyond not to matter.
_NO_WEIGHT = 45.0
# Points of each window at which delta is looked at where the search has found nothing.
_SCAN = 129


@final
@dataclass(frozen=True, eq=False)
class GridSum:
    """One layer: tilted masses in a window around where delta is decided, and what is charged for the rest.

    `error` is a share of the result, `charge` one of the mass M e^(-theta epsilon), which counts g(theta) at most.
    """

    losses: Array
    step: float
    tilted: Array
    theta: float
    log_mgf: float
    error: float
    charge: float
    # of the mass M e^(-theta epsilon), what this layer has of it
    share: float = 1.0

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log of this layer's share of delta(epsilon), on the stated side."""
        share, off = self._beyond(epsilon)
        sign = 1.0 if side is Side.ABOVE else -1.0
        weight = math.exp(log_weight(self.theta))
        finite = (share + sign * (self.charge * weight + off)) * (1.0 + sign * self.error)
        if side is Side.ABOVE:
            # never more than Chernoff's bound, whatever a coarse grid adds; rounding is less than a millionth
            finite = min(finite, self.share * weight * (1.0 + 1e-6) * (1.0 + self.error))
        return self.log_mgf - self.theta * epsilon + math.log(finite) if finite > 0.0 else -math.inf

    def _beyond(self, epsilon: float) -> tuple[float, float]:
        """Sum of e^(-theta s) (1 - e^-s) over the losses epsilon + s beyond epsilon, and what rounding may have done to it."""
        first = int(np.searchsorted(self.losses, epsilon, side="right"))
        if first == self.losses.size:
            return 0.0, 0.0
        pivot = first - first % self._stride
        if pivot not in self._running:
            end = pivot + self._stride + self._reach
            s = self.losses[pivot:end] - self.losses[pivot]
            once = self.tilted[pivot:end] * np.exp(-self.theta * s)
            # from the far end, so that each sum has its own digits
            self._running[pivot] = np.cumsum(once[::-1])[::-1], np.cumsum((once * np.exp(-s))[::-1])[::-1]
        once, twice = self._running[pivot]
        nearer = epsilon - float(self.losses[pivot])
        factor = math.exp(self.theta * nearer)
        all_of_it, less = factor * float(once[first - pivot]), factor * math.exp(nearer) * float(twice[first - pivot])
        # masses may be negative by rounding, which is charged with the transform; beyond the reach they weigh no more than this
        left_off = 0.0 if pivot + once.size >= self.losses.size else 2.0 * math.exp(-_NO_WEIGHT)
        return all_of_it - less, 2.0 * _ULP * (once.size + 16.0) * (abs(all_of_it) + abs(less)) + left_off

    @cached_property
    def _stride(self) -> int:
        """Losses from one pivot to the next: e^(theta s) does not grow large between them."""
        return max(1, int(_NATS / (max(self.theta, 1.0) * self.step)))

    @cached_property
    def _reach(self) -> int:
        """Losses beyond which e^(-theta s) is next to nothing."""
        return min(self.losses.size, math.ceil(_NO_WEIGHT / (self.theta * self.step)))

    @cached_property
    def _running(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def deltas(self, side: Side) -> Array:
        """The same at every loss of the grid, and by linearity in e^epsilon in between."""
        step = self.step
        share = _later(self.tilted, self.theta * step) - _later(self.tilted, (1.0 + self.theta) * step)
        sign = 1.0 if side is Side.ABOVE else -1.0
        # the charge falls between two losses, that of the smaller holds for both; so much is lost in running sums
        with np.errstate(divide="ignore", over="ignore"):
            charge = self.charge * math.exp(log_weight(self.theta) + self.theta * step) + 4.0 * _ULP * self.losses.size
            finite = (share + sign * charge) * (1.0 + sign * self.error)
            return np.asarray(np.exp(self.log_mgf - self.theta * self.losses + np.log(np.maximum(finite, 0.0))))


@final
@dataclass(frozen=True, eq=False)
class LayeredSum:
    """All layers of a sum, the mass at infinity, and what the tails of the rounds left out."""

    layers: tuple[GridSum, ...]
    infinite: float
    left_out: float

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) with all charges on the stated side."""
        log_finite = float(np.logaddexp.reduce([layer.log_delta(epsilon, side) for layer in self.layers]))
        if side is Side.ABOVE:
            return min(0.0, _log_sum(log_finite, self.infinite + self.left_out))
        # delta is what is known of the finite part and the infinite one, less what the tails left out
        total = _log_sum(log_finite, self.infinite)
        if self.left_out == 0.0:
            return min(0.0, total)
        rest = math.exp(min(total, 0.0)) - self.left_out
        return math.log(rest) if rest > 0.0 else -math.inf

    def deltas(self, side: Side) -> Array:
        """delta at every loss of the grid, and by linearity in e^epsilon in between; for a sum of one layer."""
        (only,) = self.layers
        finite = only.deltas(side)
        if side is Side.ABOVE:
            return np.asarray(np.minimum(finite + self.infinite + self.left_out, 1.0))
        return np.asarray(np.clip(finite + self.infinite - self.left_out, 0.0, 1.0))

    def curve(self, alpha: Array, side: Side) -> Array:
        """f(alpha) = sup over eps of 1 - delta(eps) - e^eps alpha, on the stated side; for a sum of one layer.

        Its delta is linear in e^eps between two of its losses, so the supremum is at one of them, or beyond the ends.
        """
        (only,) = self.layers
        epsilons, heights = only.losses, 1.0 - self.deltas(Side.BELOW if side is Side.ABOVE else Side.ABOVE)
        if side is Side.ABOVE:
            # below the first delta >= 1 - e^eps, so the line is at most e^eps (1 - alpha), and never above 1 - alpha; above the
            # last delta >= 0
            first = np.minimum(epsilons[:1], 0.0)
            epsilons = np.concatenate([first, epsilons, epsilons[-1:]])
            heights = np.concatenate([np.exp(first), heights, [1.0]])
            best = np.array([float((heights - _times(epsilons, one)).max()) for one in alpha.ravel()])
        else:
            best = _near_contact(epsilons, heights, alpha.ravel())
        return np.asarray(np.clip(np.reshape(best, alpha.shape), 0.0, 1.0 - alpha))

    def epsilon(self, log_delta: float, side: Side, near: float) -> float:
        """Least epsilon >= 0 with log delta(epsilon) <= log_delta, on the stated side; the search begins at `near`.

        Charges grow away from the window's middle, so that the computed bound need not fall with epsilon: any epsilon at which
        the upper bound holds is an upper bound, any at which the lower one fails is a lower bound.
        """

        def excess(epsilon: float) -> float:
            return self.log_delta(epsilon, side) - log_delta

        last = max([near, *(float(layer.losses[-1]) for layer in self.layers if layer.losses.size)])
        # a first step over which the steepest layer changes little
        steepest = max((layer.theta for layer in self.layers), default=0.0)
        low, high, stride = near, near, 0.01 / max(1.0, 0.1 * steepest * near)
        at_low = at_high = excess(near)
        while at_low <= 0.0:
            if low == 0.0:
                return 0.0 if side is Side.ABOVE else self._last_that_fails(excess)
            high, at_high = low, at_low
            low, stride = (low * (1.0 - stride) if stride < 1.0 and low > 1e-12 else 0.0), 2.0 * stride
            at_low = excess(low)
        while at_high > 0.0:
            if high >= last:
                return math.inf if side is Side.ABOVE else low
            low, at_low = high, at_high
            high, stride = min(high * (1.0 + stride) + 1e-9, last), 2.0 * stride
            at_high = excess(high)
        low, high = _narrowed(excess, low, at_low, high, at_high)
        return high if side is Side.ABOVE else low

    def _last_that_fails(self, excess: Callable[[float], float]) -> float:
        """The largest of some points of the windows at which delta is larger still, 0 if there is none."""
        seen = [
            np.linspace(max(float(one.losses[0]), 0.0), float(one.losses[-1]), _SCAN)
            for one in self.layers
            if one.losses.size
        ]
        return max(
            (float(e) for e in np.concatenate([np.zeros(1), *seen]) if e > 0.0 and excess(float(e)) > 0.0), default=0.0
        )


def _narrowed(
    excess: Callable[[float], float], low: float, at_low: float, high: float, at_high: float
) -> tuple[float, float]:
    """The bracket of a root, narrowed by false position; both ends keep their signs."""
    for step in range(_MOST_STEPS):
        if high - low <= _FOUND * high:
            break
        # every third step halves: false position may stay at one end
        share = at_low / (at_low - at_high) if math.isfinite(at_low) and math.isfinite(at_high) else 0.5
        # a little to the other side of the root, so that both ends come near
        share = 0.5 if step % 3 == 2 else min(max(share + (1e-4 if step % 3 == 0 else -1e-4), 1e-3), 1.0 - 1e-3)
        middle = low + share * (high - low)
        value = excess(middle)
        if value > 0.0:
            low, at_low = middle, value
        else:
            high, at_high = middle, value
    return low, high


def log_weight(theta: float) -> float:
    """log g(theta), g the largest value of e^(-theta x) (1 - e^-x)."""
    return -theta * math.log1p(1.0 / theta) - math.log1p(theta)


def _later(masses: Array, decay: float) -> Array:
    """sum over i > j of masses[i] e^(-decay (i-j)) for every j, from the last one backwards."""
    # it would take a third of the time of importing the package
    from scipy.signal import lfilter

    factor = math.exp(-decay)
    return np.asarray(lfilter([0.0, factor], [1.0, -factor], masses[::-1])[::-1])


def _log_sum(log_value: float, other: float) -> float:
    return float(np.logaddexp(log_value, math.log(other))) if other > 0.0 else log_value


def _near_contact(epsilons: Array, heights: Array, alpha: Array) -> Array:
    """heights - e^epsilon alpha where the slope of the heights in e^epsilon is alpha; any other loss is a bound too."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        slopes = np.diff(heights) / np.diff(epsilons) * np.exp(-0.5 * (epsilons[:-1] + epsilons[1:]))
        # they fall but for rounding
        falling = np.minimum.accumulate(np.nan_to_num(slopes, nan=0.0))
        first = np.searchsorted(-falling, -alpha)
        found = np.full(alpha.size, -math.inf)
        for aside in (-1, 0, 1):
            at = np.clip(first + aside, 0, epsilons.size - 1)
            found = np.maximum(found, heights[at] - np.where(alpha > 0.0, np.exp(epsilons[at]) * alpha, 0.0))
    return found


def _times(epsilons: Array, alpha: float) -> Array:
    """e^epsilon alpha, infinite where it is too large, zero at alpha = 0 whatever epsilon is."""
    if alpha == 0.0:
        return np.zeros_like(epsilons)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(epsilons + math.log(alpha)))
