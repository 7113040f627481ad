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
from typing import final

import numpy as np
from scipy import fft

from noisymean.numerics.logs import Array
from noisymean.pld.discretize import GridLoss, discretize
from noisymean.tradeoff import Side, TradeOff

# Mass that may be left outside of the window, as a share of Chernoff's bound at the tilt.
_OUTSIDE = 1e-17
_ULP = 2.3e-16
_MOST_CELLS = 1 << 21


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

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) with all charges on the stated side."""
        above = self.losses > epsilon
        s = self.losses[above]
        log_scale = self.log_mgf - self.theta * epsilon
        relative = float(np.sum(np.exp(-self.theta * (s - epsilon)) * -np.expm1(epsilon - s) * self.tilted[above]))
        charge = self.charge if side is Side.ABOVE else -self.charge
        error = self.error if side is Side.ABOVE else -self.error
        finite = relative * (1.0 + error) + charge
        with np.errstate(divide="ignore"):
            log_finite = log_scale + float(np.log(max(finite, 0.0)))
            return float(np.logaddexp(log_finite, np.log(self.infinite)))

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


def composed(rounds: Sequence[tuple[int, GridLoss]], log_delta: float, size: int) -> GridSum:
    """`count` rounds of each loss; accurate around the epsilon where delta is e^log_delta. All losses share one step."""
    step = rounds[0][1].step
    theta = _tilt(rounds, log_delta)
    log_mgf = sum(count * _log_mgf(loss, theta) for count, loss in rounds)
    low, high = _window(rounds, theta)
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
        infinite=-math.expm1(sum(count * math.log1p(-min(loss.infinite, 0.5)) for count, loss in rounds)),
        error=sum(count * loss.error for count, loss in rounds),
        charge=2.0 * _OUTSIDE + rounding,
    )


def _log_mgf(loss: GridLoss, theta: float) -> float:
    with np.errstate(divide="ignore"):
        exponent = np.log(np.maximum(loss.mass, 0.0)) + theta * loss.losses
    top = float(exponent.max())
    return top + math.log(float(np.sum(np.exp(exponent - top))))


def _tilt(rounds: Sequence[tuple[int, GridLoss]], log_delta: float) -> float:
    """theta > 0 that makes Chernoff's bound on epsilon, (log M - log delta)/theta, least."""

    def bound(theta: float) -> float:
        return (sum(count * _log_mgf(loss, theta) for count, loss in rounds) - log_delta) / theta

    return _descend(bound)


def _descend(bound: Callable[[float], float]) -> float:
    """A positive number near the minimum of `bound`, by factors; near is enough, every value is a valid bound."""
    best, x = bound(1.0), 1.0
    for factor in (4.0, 0.25, 1.5, 1.0 / 1.5):
        # the last thousandth is not worth a tilt that leaves no digits
        while (candidate := bound(x * factor)) < best - 1e-3 * abs(best) and 1e-9 < x < 1e9:
            best, x = candidate, x * factor
    return x


def _window(rounds: Sequence[tuple[int, GridLoss]], theta: float) -> tuple[float, float]:
    """Ends beyond which the tilted sum has mass below _OUTSIDE on each side (Chernoff, by doubling and refining)."""
    base = sum(count * _log_mgf(loss, theta) for count, loss in rounds)
    nats = -math.log(_OUTSIDE)

    def reach(sign: float) -> float:
        def bound(extra: float) -> float:
            moved = sum(count * _log_mgf(loss, theta + sign * extra) for count, loss in rounds)
            return (moved - base + nats) / extra

        return sign * bound(_descend(bound))

    return reach(-1.0), reach(1.0)


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
            guess = max(value, -600.0)
        return value

    def inverse(self) -> GridComposition:
        """The other direction."""
        return GridComposition(tuple((count, curve.inverse()) for count, curve in self.rounds), self.size)

    def _sum(self, log_delta: float, side: Side) -> GridSum:
        # a coarse grid finds the window that the sum needs; the fine one has `size` points in it
        step, ends = self._coarse(log_delta)
        step = max(step, max(high - low for low, high in ends) / _MOST_CELLS)
        losses = [
            (count, discretize(curve, step, math.floor(low / step) - 1, math.ceil(high / step) + 1, side))
            for (count, curve), (low, high) in zip(self.rounds, ends, strict=True)
        ]
        return composed(losses, log_delta, self.size)

    def _coarse(self, log_delta: float) -> tuple[float, list[tuple[float, float]]]:
        ends = [_one_round_range(curve, count, log_delta) for count, curve in self.rounds]
        coarse = []
        for (count, curve), (low, high) in zip(self.rounds, ends, strict=True):
            step = (high - low) / 2048
            coarse.append((count, discretize(curve, step, math.floor(low / step), math.ceil(high / step), Side.ABOVE)))
        theta = _tilt(coarse, log_delta)
        low, high = _window(coarse, theta)
        return (high - low) / self.size, ends


def _one_round_range(curve: TradeOff, count: int, log_delta: float) -> tuple[float, float]:
    """Losses outside of which Q has mass below e^(log_delta - 23)/count above, and 1e-18/count below."""
    grid = np.concatenate([-np.logspace(6, -9, 400), np.logspace(-9, 6, 400)])
    tails = curve.tails(grid)
    low = grid[max(int(np.searchsorted(tails.q_below, -41.0 - math.log(count))) - 1, 0)]
    high = grid[min(int(np.searchsorted(-tails.q_above, 23.0 - log_delta + math.log(count))), grid.size - 1)]
    return float(low), float(high)
