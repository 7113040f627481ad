r"""Rounds added up on the grid by FFT, with everything that can go wrong inside the bound.

The masses q_j of each round are tilted, q_j e^(theta l_j)/M(theta), before the transform and untilted after it, so that the
part of the sum that decides delta sits in the middle of the window with full *relative* precision. With S the sum, M its total
moment generating function and p_theta the tilted law of S, for any eps

    delta(eps) = sum over s > eps of M e^(-theta s) p_theta(s) (1 - e^(eps - s))   +  mass at infinity.

Charged: what falls outside of the window, or wraps around into it, at most M e^(-theta eps) times the tilted tails there
(Chernoff); the rounding of the transforms, at most sqrt(W) * eps_machine * (rounds + log2 W) * |p|_2 in total; the rounding of
the one-round masses. No mass is ever repaired: a negative value stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy import fft

from noisymean.numerics.logs import Array
from noisymean.pld.discretize import GridLoss, discretize
from noisymean.tradeoff import Side, TradeOff

# Mass that may be left outside of the window, as a share of Chernoff's bound at the tilt.
_OUTSIDE = 1e-17
_ULP = 2.3e-16
_LARGEST = 600.0
_MOST_CELLS = 1 << 20
_COARSE = 2048


@final
@dataclass(frozen=True, eq=False)
class GridSum:
    """The summed loss: tilted masses in a window around where delta is decided, and what is charged for the rest."""

    losses: Array
    tilted: Array
    theta: float
    log_mgf: float
    infinite: float
    error: float
    charge: float

    @cached_property
    def _suffix_sums(self) -> tuple[Array, Array] | None:
        """Sums from each loss s on of w and of w e^-s, w = p_theta e^(-theta s), relative to the middle.

        None where no double holds them.
        """
        away = self._middle - self.losses
        if (1.0 + self.theta) * float(np.max(np.abs(away))) > _LARGEST:
            return None
        weights = self.tilted * np.exp(self.theta * away)
        return _from_each_on(weights), _from_each_on(weights * np.exp(away))

    @property
    def _middle(self) -> float:
        return float(self.losses[self.losses.size // 2])

    def _relative(self, epsilon: float) -> float:
        """sum over s > eps of p_theta(s) e^(-theta (s - eps)) (1 - e^(eps - s))."""
        index = int(np.searchsorted(self.losses, epsilon, side="right"))
        if self._suffix_sums is None:
            s = self.losses[index:]
            return float(np.sum(self.tilted[index:] * np.exp(-self.theta * (s - epsilon)) * -np.expm1(epsilon - s)))
        mass, shrunk = self._suffix_sums
        distance = epsilon - self._middle
        return math.exp(self.theta * distance) * float(mass[index] - math.exp(distance) * shrunk[index])

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) with all charges on the stated side."""
        sign = 1.0 if side is Side.ABOVE else -1.0
        finite = self._relative(epsilon) * (1.0 + sign * self.error) + sign * self.charge
        log_scale = self.log_mgf - self.theta * epsilon
        log_finite = log_scale + math.log(finite) if finite > 0.0 else -math.inf
        return float(np.logaddexp(log_finite, math.log(self.infinite) if self.infinite > 0.0 else -math.inf))

    def epsilon(self, log_delta: float, side: Side) -> float:
        """Least epsilon >= 0 with log delta(epsilon) <= log_delta, on the stated side."""
        # charges make the bound useless far from the window's middle: scan, then bisect next to where it crosses
        scan = np.linspace(max(0.0, float(self.losses[0])), float(self.losses[-1]), 65)
        over = np.array([self.log_delta(float(e), side) > log_delta for e in scan])
        if side is Side.ABOVE:
            holds = np.flatnonzero(~over)
            if holds.size == 0:
                return math.inf
            high = float(scan[holds[0]])
            low = float(scan[holds[0] - 1]) if holds[0] > 0 else 0.0
        else:
            fails = np.flatnonzero(over)
            if fails.size == 0:
                return 0.0
            low = float(scan[fails[-1]])
            high = float(scan[min(fails[-1] + 1, scan.size - 1)])
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.log_delta(middle, side) > log_delta else (low, middle)
        return high if side is Side.ABOVE else low


def _from_each_on(values: Array) -> Array:
    """Sums of values[i:], for every i up to the empty one."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


@final
@dataclass(frozen=True)
class Window:
    """Where to look: the tilt, and the two further tilts whose Chernoff bounds fix the ends of the window."""

    theta: float
    below: float
    above: float

    def ends(self, rounds: Sequence[tuple[int, GridLoss]]) -> tuple[float, float]:
        """Losses beyond which the tilted sum of these rounds has mass below _OUTSIDE on each side."""
        base = _total_log_mgf(rounds, self.theta)
        nats = -math.log(_OUTSIDE)
        low = -(_total_log_mgf(rounds, self.theta - self.below) - base + nats) / self.below
        return low, (_total_log_mgf(rounds, self.theta + self.above) - base + nats) / self.above


def window_for(rounds: Sequence[tuple[int, GridLoss]], log_delta: float) -> Window:
    """The window around the epsilon where delta is e^log_delta; found on a coarse grid, it serves every finer one."""
    # the tilt that makes Chernoff's bound on epsilon, (log M - log delta)/theta, least
    theta = _descend(lambda tilt: (_total_log_mgf(rounds, tilt) - log_delta) / tilt)
    base, nats = _total_log_mgf(rounds, theta), -math.log(_OUTSIDE)
    below = _descend(lambda extra: (_total_log_mgf(rounds, theta - extra) - base + nats) / extra)
    above = _descend(lambda extra: (_total_log_mgf(rounds, theta + extra) - base + nats) / extra)
    return Window(theta, below, above)


def composed(rounds: Sequence[tuple[int, GridLoss]], window: Window, size: int) -> GridSum:
    """`count` rounds of each loss, in the given window. All losses share one step."""
    step, theta = rounds[0][1].step, window.theta
    log_mgf = _total_log_mgf(rounds, theta)
    low, high = window.ends(rounds)
    offset = sum(count * loss.offset for count, loss in rounds)
    width = fft.next_fast_len(max(math.ceil((high - low) / step) + 2, size), real=True)
    start = math.floor((low - offset) / step)
    spectrum = np.ones(width // 2 + 1, dtype=np.complex128)
    shift = 0
    total_count = 0
    for count, loss in rounds:
        with np.errstate(divide="ignore"):
            tilted = np.exp(np.log(loss.mass) + theta * loss.losses - _log_mgf(loss, theta))
        wrapped = np.zeros(width)
        # losses beyond the window wrap around it, as they will in the sum
        np.add.at(wrapped, np.arange(tilted.size) % width, tilted)
        spectrum *= fft.rfft(wrapped) ** count
        shift += count * loss.first
        total_count += count
    tilted_sum = fft.irfft(spectrum, n=width)
    index = np.arange(start, start + width)
    tilted_sum = tilted_sum[(index - shift) % width]
    norm = float(np.sqrt(np.mean(np.abs(spectrum) ** 2)))
    rounding = math.sqrt(width) * _ULP * (total_count + math.log2(width)) * norm
    return GridSum(
        losses=offset + step * index,
        tilted=tilted_sum,
        theta=theta,
        log_mgf=log_mgf,
        infinite=-math.expm1(sum(count * math.log1p(-min(loss.infinite, 1.0 - 1e-16)) for count, loss in rounds)),
        error=sum(count * loss.error for count, loss in rounds),
        charge=2.0 * _OUTSIDE + rounding,
    )


def _log_mgf(loss: GridLoss, theta: float) -> float:
    with np.errstate(divide="ignore"):
        exponent = np.log(np.maximum(loss.mass, 0.0)) + theta * loss.losses
    top = float(exponent.max())
    return top + math.log(float(np.sum(np.exp(exponent - top))))


def _total_log_mgf(rounds: Sequence[tuple[int, GridLoss]], theta: float) -> float:
    return sum(count * _log_mgf(loss, theta) for count, loss in rounds)


def _descend(bound: Callable[[float], float]) -> float:
    """A positive number near the minimum of `bound`, by factors; near is enough, every value is a valid bound."""
    best, x = bound(1.0), 1.0
    for factor in (4.0, 0.25, 1.5, 1.0 / 1.5):
        # the last thousandth is not worth a tilt that leaves no digits
        while (candidate := bound(x * factor)) < best - 1e-3 * abs(best) and 1e-9 < x < 1e9:
            best, x = candidate, x * factor
    return x


@final
@dataclass(frozen=True, eq=False)
class GridComposition:
    """`rounds` (count, one-round curve), composed on a grid of about `size` points around the delta that is asked for."""

    rounds: tuple[tuple[int, TradeOff], ...]
    size: int = 1 << 16

    def epsilon(self, delta: float, side: Side) -> float:
        """epsilon(delta) of the composition on the stated side."""
        return self._sum(math.log(delta), side).epsilon(math.log(delta), side)

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) of the composition on the stated side; the tilt is refined until it suits."""
        guess = -10.0
        for _ in range(4):
            value = self._sum(guess, side).log_delta(epsilon, side)
            if not math.isfinite(value) or abs(value - guess) < 3.0:
                break
            guess = min(max(value, -600.0), 0.0)
        return value

    def inverse(self) -> GridComposition:
        """The other direction."""
        return GridComposition(tuple((count, curve.inverse()) for count, curve in self.rounds), self.size)

    def _sum(self, log_delta: float, side: Side) -> GridSum:
        # a coarse grid finds the window that the sum needs; the fine one has `size` points in it
        window, width, ends = self._coarse(log_delta)
        step = max(width / self.size, max(high - low for low, high in ends) / _MOST_CELLS)
        losses = [
            (count, discretize(curve, step, math.floor(low / step) - 1, math.ceil(high / step) + 1, side))
            for (count, curve), (low, high) in zip(self.rounds, ends, strict=True)
        ]
        return composed(losses, window, self.size)

    def _coarse(self, log_delta: float) -> tuple[Window, float, list[tuple[float, float]]]:
        ends = [_one_round_range(curve, count, log_delta) for count, curve in self.rounds]
        coarse = []
        for (count, curve), (low, high) in zip(self.rounds, ends, strict=True):
            step = (high - low) / _COARSE
            coarse.append((count, discretize(curve, step, math.floor(low / step), math.ceil(high / step), Side.ABOVE)))
        window = window_for(coarse, log_delta)
        low, high = window.ends(coarse)
        return window, high - low, ends


def _one_round_range(curve: TradeOff, count: int, log_delta: float) -> tuple[float, float]:
    """Losses outside of which Q has mass below e^(log_delta - 23)/count above, and 1e-18/count below."""
    grid = np.concatenate([-np.logspace(6, -9, 400), np.logspace(-9, 6, 400)])
    tails = curve.tails(grid)
    low = grid[max(int(np.searchsorted(tails.q_below, -41.0 - math.log(count))) - 1, 0)]
    high = grid[min(int(np.searchsorted(-tails.q_above, 23.0 - log_delta + math.log(count))), grid.size - 1)]
    return float(low), float(high)
