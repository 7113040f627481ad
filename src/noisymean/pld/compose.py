r"""Rounds added up on the grid by FFT, with everything that can go wrong inside the bound.

The masses q_j of each round are tilted, q_j e^(theta l_j)/M(theta), before the transform and untilted after it, so that the
part of the sum that decides delta sits in the middle of the window with full *relative* precision. With S the sum, M its total
moment generating function and p_theta the tilted law of S, for any eps and any theta >= 0

    delta(eps) = M e^(-theta eps) * sum over s > eps of p_theta(s) e^(-theta (s-eps)) (1 - e^(eps-s))   +  mass at infinity.

The weights in the sum are at most g(theta) = theta^theta/(1+theta)^(1+theta) <= 1, so M(theta) e^(-theta eps) g(theta) bounds
delta (Chernoff), and the theta that makes it least is the one to use. Charged, as shares of M e^(-theta eps): what falls outside
of the window or wraps around into it (Chernoff again), and the rounding of the transforms (proof: docs/accountant.md). No mass
is ever repaired: a negative value stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft

from noisymean.errors import check_probability
from noisymean.numerics.logs import Array
from noisymean.pld.discretize import GridLoss, discretize
from noisymean.tradeoff import Side, Tails, TradeOff

# Mass that may be left outside of the window, as a share of Chernoff's bound at the tilt.
_OUTSIDE = 1e-17
_ULP = 2.3e-16
_TILTS = (1e-6, 1e5)
_COARSE = 2048
# One-round losses over which the grid may spread, in windows of the sum.
_WIDEST = 4
# log delta below which the losses of one round are not followed.
_FAR = -600.0
# Where a one-round loss may begin and end.
_SCOUTS = np.concatenate([-np.logspace(15, -9, 600), np.logspace(-9, 15, 600)])
# The tilt for a whole trade-off curve.
_SLIGHT = 0.05

Parts = Sequence[tuple[int, GridLoss]]


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
    left_out: float

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) with all charges on the stated side."""
        s = self.losses[int(np.searchsorted(self.losses, epsilon, side="right")) :] - epsilon
        share = float(np.sum(self.tilted[self.losses.size - s.size :] * np.exp(-self.theta * s) * -np.expm1(-s)))
        sign = 1.0 if side is Side.ABOVE else -1.0
        finite = share * (1.0 + sign * self.error) + sign * self.charge
        log_finite = self.log_mgf - self.theta * epsilon + math.log(finite) if finite > 0.0 else -math.inf
        if side is Side.ABOVE:
            beside = self.infinite + self.left_out
            return min(0.0, _log_sum(log_finite, beside))
        # delta is what is known of the finite part and the infinite one, less what the tails left out
        total = _log_sum(log_finite, self.infinite)
        if self.left_out == 0.0:
            return min(0.0, total)
        rest = math.exp(min(total, 0.0)) - self.left_out
        return math.log(rest) if rest > 0.0 else -math.inf

    def deltas(self, side: Side) -> Array:
        """delta at every loss of the grid, and by linearity in e^epsilon in between, with all charges on the stated side."""
        step = float(self.losses[1] - self.losses[0])
        share = _later(self.tilted, self.theta * step) - _later(self.tilted, (1.0 + self.theta) * step)
        sign = 1.0 if side is Side.ABOVE else -1.0
        # the charge falls between two losses, that of the smaller holds for both; so much is lost in running sums
        with np.errstate(divide="ignore", over="ignore"):
            charge = self.charge * np.exp(self.theta * step) + 4.0 * _ULP * self.losses.size
            finite = share * (1.0 + sign * self.error) + sign * charge
            finite = np.exp(self.log_mgf - self.theta * self.losses + np.log(np.maximum(finite, 0.0)))
        if side is Side.ABOVE:
            return np.asarray(np.minimum(finite + self.infinite + self.left_out, 1.0))
        return np.asarray(np.clip(finite + self.infinite - self.left_out, 0.0, 1.0))

    def epsilon(self, log_delta: float, side: Side) -> float:
        """Least epsilon >= 0 with log delta(epsilon) <= log_delta, on the stated side.

        Charges grow away from the window's middle, so that the computed bound need not fall with epsilon: any epsilon at which
        the upper bound holds is an upper bound, any at which the lower one fails is a lower bound.
        """
        if side is Side.ABOVE and self.log_delta(0.0, side) <= log_delta:
            return 0.0
        scan = np.linspace(max(0.0, float(self.losses[0])), max(0.0, float(self.losses[-1])), 33)
        over = np.array([self.log_delta(float(e), side) > log_delta for e in scan])
        if side is Side.ABOVE:
            holds = np.flatnonzero(~over)
            if holds.size == 0:
                return math.inf
            low, high = float(scan[max(holds[0] - 1, 0)]), float(scan[holds[0]])
        else:
            fails = np.flatnonzero(over)
            if fails.size == 0:
                return 0.0
            low, high = float(scan[fails[-1]]), float(scan[min(fails[-1] + 1, scan.size - 1)])
        for _ in range(45):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.log_delta(middle, side) > log_delta else (low, middle)
        return high if side is Side.ABOVE else low


def _later(masses: Array, decay: float) -> Array:
    """sum over i > j of masses[i] e^(-decay (i-j)) for every j, from the last one backwards."""
    # it would take a third of the time of importing the package
    from scipy.signal import lfilter

    factor = math.exp(-decay)
    return np.asarray(lfilter([0.0, factor], [1.0, -factor], masses[::-1])[::-1])


def _log_sum(log_value: float, other: float) -> float:
    return float(np.logaddexp(log_value, math.log(other))) if other > 0.0 else log_value


@final
@dataclass(frozen=True)
class Window:
    """Where to look: the tilt, and the two further tilts whose Chernoff bounds fix the ends of the window."""

    theta: float
    below: float
    above: float

    def ends(self, rounds: Parts) -> tuple[float, float]:
        """Losses beyond which the tilted sum of these rounds has mass below _OUTSIDE on each side."""
        base = _total_log_mgf(rounds, self.theta)
        nats = -math.log(_OUTSIDE)
        low = -(_total_log_mgf(rounds, self.theta - self.below) - base + nats) / self.below
        return low, (_total_log_mgf(rounds, self.theta + self.above) - base + nats) / self.above


def window_at_epsilon(rounds: Parts, epsilon: float) -> Window:
    """The window for delta(epsilon); found on a coarse grid, it serves every finer one."""
    return _window(rounds, _descend(lambda tilt: _total_log_mgf(rounds, tilt) - tilt * epsilon + _log_weight(tilt)))


def window_for(rounds: Parts, log_delta: float) -> Window:
    """The window around the epsilon where delta is e^log_delta, by the tilt that makes Chernoff's bound on epsilon least."""
    return _window(rounds, _descend(lambda tilt: (_total_log_mgf(rounds, tilt) + _log_weight(tilt) - log_delta) / tilt))


def _window(rounds: Parts, theta: float) -> Window:
    base, nats = _total_log_mgf(rounds, theta), -math.log(_OUTSIDE)
    below = _descend(lambda extra: (_total_log_mgf(rounds, theta - extra) - base + nats) / extra)
    above = _descend(lambda extra: (_total_log_mgf(rounds, theta + extra) - base + nats) / extra)
    return Window(theta, below, above)


def _log_weight(theta: float) -> float:
    """log g(theta), the largest value of e^(-theta x) (1 - e^-x)."""
    return theta * math.log(theta) - (1.0 + theta) * math.log1p(theta)


def composed(rounds: Parts, window: Window, size: int) -> GridSum:
    """`count` rounds of each loss, in the given window. All losses share one step."""
    step, theta = rounds[0][1].step, window.theta
    low, high = window.ends(rounds)
    offset = sum(count * loss.offset for count, loss in rounds)
    width = fft.next_fast_len(max(math.ceil((high - low) / step) + 2, size), real=True)
    start = math.floor((low - offset) / step)
    spectrum = np.ones(width // 2 + 1, dtype=np.complex128)
    shift, steps_of_rounding, error = 0, 0.0, 0.0
    for count, loss in rounds:
        log_mgf = _log_mgf(loss, theta)
        exponent = loss.log_mass + theta * loss.losses - log_mgf
        tilted = np.exp(exponent)
        wrapped = np.zeros(width)
        # losses beyond the window wrap around it, as they will in the sum
        np.add.at(wrapped, np.arange(tilted.size) % width, tilted)
        spectrum *= fft.rfft(wrapped) ** count
        shift += count * loss.first
        steps_of_rounding += count * (math.log2(width) * float(np.linalg.norm(wrapped)) + 4.0)
        # rounding of the exponents, in tilted masses and in M alike
        error += count * (loss.error + 4.0 * _ULP * (abs(log_mgf) + theta * float(np.max(np.abs(loss.losses)))))
    tilted_sum = fft.irfft(spectrum, n=width)
    index = np.arange(start, start + width)
    tilted_sum = tilted_sum[(index - shift) % width]
    rounding = (
        3.0 * math.sqrt(width) * _ULP * (steps_of_rounding + math.log2(width) * float(np.linalg.norm(tilted_sum)))
    )
    return GridSum(
        losses=offset + step * index,
        tilted=tilted_sum,
        theta=theta,
        log_mgf=_total_log_mgf(rounds, theta),
        infinite=-math.expm1(sum(count * math.log1p(-min(loss.infinite, 1.0 - 1e-16)) for count, loss in rounds)),
        error=error,
        charge=2.0 * _OUTSIDE + rounding,
        left_out=sum(count * loss.left_out for count, loss in rounds),
    )


def _log_mgf(loss: GridLoss, theta: float) -> float:
    exponent = loss.log_mass + theta * loss.losses
    top = float(exponent.max())
    return top + math.log(float(np.sum(np.exp(exponent - top))))


def _total_log_mgf(rounds: Parts, theta: float) -> float:
    return sum(count * _log_mgf(loss, theta) for count, loss in rounds)


def _descend(bound: Callable[[float], float]) -> float:
    """A positive number near the minimum of `bound`, by factors; near is enough, every value is a valid bound."""
    best, x = bound(1.0), 1.0
    for factor in (4.0, 0.25, 1.5, 1.0 / 1.5):
        # the last thousandth is not worth a tilt that leaves no digits
        while _TILTS[0] < x * factor < _TILTS[1] and (candidate := bound(x * factor)) < best - 1e-3 * max(
            abs(best), 1e-6
        ):
            best, x = candidate, x * factor
    return x


def _times(epsilons: Array, alpha: float) -> Array:
    """e^epsilon alpha, infinite where it is too large, zero at alpha = 0 whatever epsilon is."""
    if alpha == 0.0:
        return np.zeros_like(epsilons)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(epsilons + math.log(alpha)))


@final
@dataclass(frozen=True, eq=False)
class GridComposition:
    """`rounds` (count, one-round curve), composed on a grid of about `size` points around the delta that is asked for."""

    rounds: tuple[tuple[int, TradeOff], ...]
    size: int = 1 << 15

    def epsilon(self, delta: float, side: Side) -> float:
        """epsilon(delta) of the composition on the stated side."""
        return self.epsilon_of_log(math.log(delta), side)

    def epsilon_of_log(self, log_delta: float, side: Side) -> float:
        """The same for a delta that may be too small to be written down."""
        coarse = self._coarse(log_delta)
        return self._fine(coarse, window_for(coarse, log_delta), side).epsilon(log_delta, side)

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta(epsilon) of the composition on the stated side."""
        # the losses that matter depend on delta, which is not known yet: twice is enough
        window = window_at_epsilon(coarse := self._coarse(_FAR), epsilon)
        bound = _total_log_mgf(coarse, window.theta) - window.theta * epsilon + _log_weight(window.theta)
        window = window_at_epsilon(coarse := self._coarse(max(_FAR, min(bound, 0.0))), epsilon)
        return self._fine(coarse, window, side).log_delta(epsilon, side)

    def curve(self, alpha: ArrayLike, side: Side) -> Array:
        """f(alpha) = sup over eps of 1 - delta(eps) - e^eps alpha of the composition, on the stated side.

        delta of a grid is linear in e^eps between two of its losses, so the supremum is at one of them, or beyond the ends.
        """
        alpha = np.asarray(check_probability("alpha", alpha), dtype=np.float64)
        log_delta = math.log(1e-12)
        if any(np.ptp(self._one_round_range(index, log_delta)) == 0.0 for index in range(len(self.rounds))):
            # one round alone is beyond every loss that is looked at: what holds for any curve
            return np.zeros_like(alpha) if side is Side.BELOW else 1.0 - alpha
        coarse = self._coarse(log_delta)
        opposite = Side.ABOVE if side is Side.BELOW else Side.BELOW
        total = self._fine(coarse, _window(coarse, _SLIGHT), opposite)
        epsilons, heights = total.losses, 1.0 - total.deltas(opposite)
        if side is Side.ABOVE:
            # below the first delta >= 1 - e^eps, so the line is at most e^eps (1 - alpha), and never above 1 - alpha; above the
            # last delta >= 0
            first = np.minimum(epsilons[:1], 0.0)
            epsilons = np.concatenate([first, epsilons, epsilons[-1:]])
            heights = np.concatenate([np.exp(first), heights, [1.0]])
        best = [float((heights - _times(epsilons, one)).max()) for one in alpha.ravel()]
        return np.asarray(np.clip(np.reshape(best, alpha.shape), 0.0, 1.0 - alpha))

    def inverse(self) -> GridComposition:
        """The other direction."""
        return GridComposition(tuple((count, curve.inverse()) for count, curve in self.rounds), self.size)

    def _coarse(self, log_delta: float) -> list[tuple[int, GridLoss]]:
        coarse = []
        for index, (count, _) in enumerate(self.rounds):
            low, high = self._one_round_range(index, log_delta)
            step = (high - low) / _COARSE
            coarse.append((count, self._cells(index, step, low, high, Side.ABOVE)))
        return coarse

    def _fine(self, coarse: Parts, window: Window, side: Side) -> GridSum:
        """At least `size` points in the window of the sum; the same step for every loss."""
        low, high = window.ends(coarse)
        ranges = [(float(loss.losses[0]), float(loss.losses[-1])) for _, loss in coarse]
        step = max((high - low) / self.size, max(last - first for first, last in ranges) / (_WIDEST * self.size))
        # a power of two, so that the next question finds the same cells
        step = 2.0 ** math.floor(math.log2(step))
        losses = [
            (count, self._cells(index, step, first - step, last + step, side))
            for index, ((count, _), (first, last)) in enumerate(zip(self.rounds, ranges, strict=True))
        ]
        return composed(losses, window, self.size)

    def _cells(self, index: int, step: float, low: float, high: float, side: Side) -> GridLoss:
        key = (index, step, math.floor(low / step), math.ceil(high / step), side)
        if key not in self._known_cells:
            self._known_cells[key] = discretize(self.rounds[index][1], *key[1:])
        return self._known_cells[key]

    @cached_property
    def _known_cells(self) -> dict[tuple[int, float, int, int, Side], GridLoss]:
        return {}

    @cached_property
    def _scouted(self) -> list[Tails]:
        return [curve.tails(_SCOUTS) for _, curve in self.rounds]

    def _one_round_range(self, index: int, log_delta: float) -> tuple[float, float]:
        """Losses outside of which Q has mass below e^(log_delta - 23)/count above, and 1e-18/count below."""
        tails, count = self._scouted[index], self.rounds[index][0]
        low = max(int(np.searchsorted(tails.q_below, -41.0 - math.log(count))) - 1, 0)
        high = min(int(np.searchsorted(-tails.q_above, 23.0 - log_delta + math.log(count))), _SCOUTS.size - 1)
        return float(_SCOUTS[low]), float(_SCOUTS[high])
