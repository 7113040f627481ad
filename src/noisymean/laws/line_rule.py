"""K of a loss that is a smooth function of one number: the trapezoidal rule over the line, with a proved step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.cumulants import ECHO, Cumulants, Line, Moments, SlowDecay
from noisymean.laws.finite import Outcomes
from noisymean.numerics.logs import Array, ComplexArray

_DECAY = 40.0
_MOST_NODES = 1 << 17
_MOST_SCOUTS = 1 << 14
_FARTHEST = 1e6
_HALF_LOG_TWO_PI = 0.9189385332046727


def log_normal(x: Array) -> Array:
    """log of the standard normal density."""
    return np.asarray(-0.5 * x * x - _HALF_LOG_TWO_PI)


@final
@dataclass(frozen=True, eq=False)
class LineCumulants(Cumulants):
    """A loss that is a smooth function of one number x under P: K by the trapezoidal rule over x.

    `log_density` is that of x under P, `loss` is l(x); a leading axis, if any, is a revealed index. Both are logarithms of sums
    of exponentials beside a parabola,

        log p = -x^2/2 + log sum_i a_i e^(u_i x) + const,
        l = -(bend/2) x^2 + log sum_i b_i e^(v_i x) - log sum_i a_i e^(u_i x) + const,

    positive weights, the u_i within `base_spread` of each other and the v_i within `spread`. Where the second sum is no more than
    1 + e^(log_odds + spread x), that is told: it hardly turns while it is hardly more than 1. docs/numerics.md, "The rule over
    the line", proves from that how fast the rule converges, and the step is chosen for an error of e^-40. The window follows the
    tilt.
    """

    log_density: Callable[[Array], Array]
    loss: Callable[[Array], Array]
    centre: float
    width: float
    spread: float
    base_spread: float = 0.0
    bend: float = 0.0
    tilts: tuple[float, float] = (-np.inf, np.inf)
    log_odds: float = np.inf
    # K(1) where Q has mass at an infinite loss
    log_finite: float = 0.0
    # mass that the law whose K this is has left out
    missed: float = 0.0

    @property
    def domain(self) -> tuple[float, float]:
        return self.tilts

    @property
    def log_masses(self) -> tuple[float, float]:
        return 0.0, self.log_finite

    @property
    def infinite(self) -> float:
        return -math.expm1(self.log_finite)

    @property
    def left_out(self) -> float:
        return self.missed

    @property
    def echo(self) -> float:
        # under Q the parabola leaves the line s = (1 + bend)^(-1/2) times as wide, and the parts as much further apart
        wider = max(1.0, (1.0 + self.bend) ** -0.5) if self.bend > -1.0 else math.inf
        return max(1.0, ECHO * (self.spread + self.base_spread) * wider)

    def _nodes(self, theta: Array, tau_most: float) -> Outcomes:
        # tilts and steps are rounded outward to powers of two, so that neighbouring calls share their nodes
        least, most = (theta.item(),) * 2 if theta.size == 1 else (float(theta.min()), float(theta.max()))
        low, high = _down(least), -_down(-most)
        low, high = max(low, 0.5 * (self.tilts[0] + least)), min(high, 0.5 * (self.tilts[1] + most))
        ends = self._both_windows(low, high)
        frequency = self._frequency(low, high, tau_most, ends)
        if not math.isfinite(frequency):
            # a line without an end
            raise SlowDecay
        key = (low, high, 2.0 ** (0.5 * math.ceil(2.0 * math.log2(frequency))))
        if key not in self._cache:
            wanted = (ends[1] - ends[0]) * key[2] / (2.0 * np.pi)
            if not wanted < _MOST_NODES:
                raise SlowDecay
            count = max(16, math.ceil(wanted))
            step = (ends[1] - ends[0]) / count
            x = ends[0] + step * np.arange(count + 1)
            log_mass = np.ravel(math.log(step) + self.log_density(x))
            self._cache[key] = Outcomes(np.ravel(self.loss(x)), np.exp(log_mass), log_mass)
        return self._cache[key]

    def _frequency(self, low: float, high: float, tau: float, ends: tuple[float, float]) -> float:
        """2 pi over the widest step whose error is e^-_DECAY for tilts from `low` to `high`, x between the ends.

        On the line x + ib the parabola grows by e^((1 + bend theta) b^2/2); a sum of exponentials keeps at least cos(spread b/2)
        of its size, which matters where its exponent is negative, and turns by at most spread b, that of 1 + w by at most
        spread b |w|/(1 - |w|), the parabola of the loss by bend |x| b, all of which tau multiplies.
        """
        ratio = math.exp(min(self.log_odds + self.spread * ends[1], -0.5)) if self.log_odds < np.inf else 1.0
        turning = self.spread * min(1.0, ratio / (1.0 - ratio) if ratio < 0.5 else 1.0)
        farthest = max(abs(ends[0]), abs(ends[1]))
        widest = max(self.spread, self.base_spread)
        stiff = 1.0 + max(self.bend * low, self.bend * high)
        b = min(2.0 / math.sqrt(stiff), 0.5 * math.pi / max(widest, 1e-300))
        growth = 0.5 * stiff * b * b
        for spread, power in ((self.spread, max(-low, 0.0)), (self.base_spread, max(high - 1.0, 0.0))):
            growth -= power * math.log(math.cos(0.5 * spread * b))
        return (_DECAY + growth) / b + tau * (turning + self.base_spread + abs(self.bend) * farthest)

    def _both_windows(self, low: float, high: float) -> tuple[float, float]:
        for tilt in (low, high):
            if tilt not in self._windows:
                self._windows[tilt] = self._window(tilt)
        (first, last), (other_first, other_last) = self._windows[low], self._windows[high]
        return min(first, other_first), max(last, other_last)

    @cached_property
    def _windows(self) -> dict[float, tuple[float, float]]:
        return {}

    @cached_property
    def _cache(self) -> dict[tuple[float, float, float], Outcomes]:
        return {}

    def _window(self, theta: float) -> tuple[float, float]:
        """Where p e^(theta l) is within e^-40 of its largest value.

        With S = 1 + bend theta a tilt leaves deviations of S^(-1/2) and moves mass by up to |theta| slope / S, possibly into a
        second bump there, so that far is always looked at. Only a negative tilt of a convex loss has one bump for each index:
        then all is seen where each falls towards both ends.
        """
        stiff = min(1.0, 1.0 + self.bend * theta)
        one_bump = theta < 0.0 and self.base_spread == 0.0
        moved = 0.0 if one_bump else 1.2 * abs(theta) * (self.spread + self.base_spread) / (stiff * self.width)
        reach = 12.0 / math.sqrt(stiff) + moved
        while True:
            scouts = int(min(4.0 * reach, _MOST_SCOUTS))
            x = self.centre + (self.width * reach / scouts) * np.arange(-scouts, scouts + 1, dtype=np.float64)
            rows = np.atleast_2d(self.log_density(x) + theta * self.loss(x))
            exponent = rows.max(axis=0)
            inside = np.flatnonzero(exponent > exponent.max() - _DECAY)
            falls = not one_bump or bool(np.all(rows[:, 0] <= rows[:, 1]) and np.all(rows[:, -1] <= rows[:, -2]))
            if inside.size and inside[0] > 0 and inside[-1] < x.size - 1 and falls:
                return float(x[inside[0] - 1]), float(x[inside[-1] + 1])
            if reach > _FARTHEST:
                raise SlowDecay
            reach *= 2.0

    def moments(self, theta: Array) -> Moments:
        return self._nodes(theta, 0.0).moments(theta)

    def remainder(self, theta: Array, line: Line) -> ComplexArray:
        return self._nodes(theta, float(line.step.max()) * (line.first + line.nodes)).remainder(theta, line)


def _down(x: float) -> float:
    """The next number below x of the form +-2^i - 1/2 or so: coarse enough to repeat, never above x."""
    if x >= 1.0:
        return math.ldexp(1.0, math.floor(math.log2(x)))
    return -math.ldexp(1.0, math.ceil(math.log2(max(-x, 2.0**-10)))) if x < 0.0 else 0.0
