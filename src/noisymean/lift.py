r"""The lift: jumps of one length imitated by jumps of another, at a rate that follows the state.

The batch of D' is divided by another number than that of D: its gradients are a g_i where those of D are g_i. Yet D' can be run
with D's jumps. Let x = S + Z before record i is looked at, y = Z.g_i/|g_i| (in units of the noise), omega = |g_i|. If record i
jumps by g_i with probability kappa rho(y) instead of by a g_i with probability kappa, where

    rho = h/phi,   h(y) = sum over k >= 1 of G(y + k omega) for y >= -omega/2,   minus the sum over k <= 0 below,
    G(y) = phi(y - a omega) - phi(y),

then x has the same law after it (docs/theory.md, "The lift"): h(y - omega) - h(y) = G(y), but for a window |y| < omega/2 where it
is off by the lattice sum of G, exponentially small in 1/omega^2. So all that records of D do is flip coins of nearly the same
probability in both arms, and a coin's bias is x(y) = kappa rho(y)/kappa0 - 1, of the order of 1 - a.

Everything here is a bound. y is cut into cells; in each, x lies between two ends, whatever rounding and the cell's width do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple, final

import numpy as np
from scipy.special import log_ndtr, ndtr

from noisymean.numerics.logs import Array

_CELLS = 2048
# Nats beside those of N/delta that a normal variable beyond the last cell has.
_SPARE_NATS = 25.0
# Jumps longer than this make the lattice term hopeless.
_LONGEST_JUMP = 6.0
# Jumps shorter than the first, and nearly as long as those they imitate: sums by Euler and Maclaurin's formula. Others are summed
# term by term, which takes too long below the third.
_SHORT_JUMP, _NEARLY_SAME, _SHORTEST_JUMP = 0.12, 0.1, 0.01
_MOST_RATIO = 64.0
# Relative rounding of the sums, and what they leave out beyond e^-50.
_ROUNDING = 1e-11
_LAST_NATS = 50.0
# Chernoff's exponents are powers of e^0.1, and cells end at one of a few places, so that a smaller delta has never less to pay.
_STEP, _NATS = 0.1, 16.0
_LARGEST_EXPONENT = 690.0


class Clip(NamedTuple):
    """Bounds between which the coins' x is kept, and the mean of what that changes."""

    low: float
    high: float
    changed: float


@final
@dataclass(frozen=True)
class Lift:
    """`count` records of probability `rate` whose jumps of a omega are imitated by jumps of omega, against coins of `other`."""

    count: int
    rate: float
    other: float
    # log a
    log_ratio: float
    # omega
    length: float

    @property
    def excess(self) -> float:
        """1 - a, which may be of either sign and as small as 1/N."""
        return -math.expm1(self.log_ratio)

    @property
    def possible(self) -> bool:
        """Whether the sums are worth taking: jumps neither too long nor too different, and coins that are coins in both arms."""
        return (
            0.0 < self.rate < 1.0
            and 0.0 < self.other < 1.0
            and self.length <= _LONGEST_JUMP
            and (self.short or self.length >= _SHORTEST_JUMP)
            and abs(self.excess) <= _MOST_RATIO
        )

    @property
    def short(self) -> bool:
        """Whether Euler and Maclaurin's formula is accurate."""
        return self.length < _SHORT_JUMP and abs(self.excess) <= _NEARLY_SAME

    @cached_property
    def log_lattice(self) -> float:
        """eps_r: the lifted law of a round is the natural one but for factors between e^-eps_r and e^eps_r; inf if hopeless."""
        if self.excess == 0.0 or self.count == 0:
            return 0.0
        omega, total = self.length, 0.0
        for m in range(1, 64):
            decay = math.exp(-2.0 * math.pi**2 * m * m / omega**2)
            total += min(1.0, math.pi * m * abs(self.excess)) * decay
            if decay < 1e-18 * total or decay == 0.0:
                break
        # the largest of |sum over the lattice of G|, over the least density on the window; the rest of the sum is rounded up
        share = 4.0 / omega * total * math.sqrt(2.0 * math.pi) * math.exp(omega**2 / 8.0) * (1.0 + 1e-9)
        share *= self.rate / (1.0 - self.rate)
        return -self.count * math.log1p(-share) if share < 1.0 else math.inf

    def cells(self, log_delta: float) -> Cells:
        """The law of x(y), y standard normal, as far out as a probability of e^log_delta asks for."""
        nats = max(-log_delta, 0.0) + math.log(max(self.count, 1)) + _SPARE_NATS
        nats = _NATS * math.ceil(nats / _NATS)
        reach = math.sqrt(2.0 * nats) + abs(self.excess) * self.length
        middle = -0.5 * self.length
        left = min(max(round(_CELLS * (reach + middle) / (2.0 * reach)), 1), _CELLS - 1)
        edges = np.concatenate(
            [np.linspace(-reach, middle, left + 1), np.linspace(middle, reach, _CELLS - left + 1)[1:]]
        )
        half = 0.5 * float(np.max(np.diff(edges)))
        centre = 0.5 * (edges[1:] + edges[:-1])
        value, doubt = self._fall(centre, half)
        # x = (kappa/kappa0) rho - 1 = (kappa/kappa0 - 1) - (kappa/kappa0) (1 - rho)
        ratio, moved = self.rate / self.other, (self.rate - self.other) / self.other
        x = moved - ratio * value
        # what doubles may be off by; rates that are equal are exactly so
        doubt = ratio * doubt + 4e-16 * (ratio * abs(self.excess) + (1.0 + abs(moved) if moved else 0.0))
        # beyond the last cell |1 - rho| <= S e^(|1-a| omega |y|): docs/numerics.md, "The lift in cells"
        spread = abs(self.excess) * self.length
        most = math.exp(0.5 * spread * spread) * (1.0 + 1.0 / (self.length * (reach - spread)))
        outside = 2.0 * math.exp(float(log_ndtr(spread - reach)))
        beyond = outside * (abs(moved) + ratio * most * math.exp(0.5 * spread * spread))
        return Cells(normal_masses(edges), x - doubt, x + doubt, outside, beyond)

    def _fall(self, y: Array, half: float) -> tuple[Array, Array]:
        """1 - rho(y) in the middle of cells, and how far it may be from that within `half` a cell's width."""
        if self.excess == 0.0:
            return np.zeros_like(y), np.zeros_like(y)
        if self.short:
            return self._by_euler_maclaurin(y, half)
        omega, b = self.length, self.excess
        # E(j), u_j on the right of -omega/2; on the left the same mirrored, without j = 0
        right = y >= -0.5 * omega
        away = np.where(right, y, -y)
        sign = np.where(right, 1.0, -1.0)
        reach = float(np.max(np.abs(y)))
        last = math.ceil(
            1.0 + 2.0 * abs(b) + math.sqrt(2.0 * (_LAST_NATS + 2.0 * abs(b) * omega * reach + (b * omega) ** 2)) / omega
        )
        value, size, slope = np.zeros_like(y), np.zeros_like(y), np.zeros_like(y)
        for j in range(last + 1):
            log_e = -j * omega * away - 0.5 * (j * omega) ** 2
            u = omega * away + j * omega**2 + sign * 0.5 * b * omega**2
            turned = -sign * b * u
            weight = np.exp(log_e) if j else right.astype(np.float64)
            term = -sign * weight * np.expm1(turned)
            value += term
            size += np.abs(term)
            # |d/dy| of the term anywhere in the cell
            most = abs(b) * omega * np.exp(turned + abs(b) * omega * half)
            slope += weight * math.exp(j * omega * half) * (j * omega * (np.abs(np.expm1(turned)) + half * most) + most)
        return value, half * slope + _ROUNDING * size

    def _by_euler_maclaurin(self, y: Array, half: float) -> tuple[Array, Array]:
        """The same for short jumps: sum over m of (B_m(b) - B_m)/m! (-omega)^(m-1) He_(m-1)(y), m to 4, with its remainder."""
        omega, b = self.length, self.excess
        z = omega * y
        value = b * (
            1.0
            - 0.5 * (b - 1.0) * z
            + (b * b - 1.5 * b + 0.5) / 6.0 * (z * z - omega**2)
            - (b**3 - 2.0 * b * b + b) / 24.0 * (z**3 - 3.0 * omega**2 * z)
        )
        # anywhere in the cell: what is left of the sum, and how far the polynomial goes
        farthest = np.abs(y) + half
        grown = math.exp(abs(b) * omega * (float(np.max(farthest)) + 12.0))
        # docs/numerics.md, "The lift in cells"
        far = np.square(farthest)
        remainder = 0.003 * omega**4 * (far * far + 6.0 * far + 6.0) * grown
        z = omega * farthest
        slope = omega * (
            0.5 * abs(b - 1.0)
            + abs(b * b - 1.5 * b + 0.5) / 3.0 * z
            + abs(b**3 - 2.0 * b * b + b) / 8.0 * (z * z + omega**2)
        )
        return value, abs(b) * (remainder + slope * half)


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a standard normal y: their mass, and the ends between which x lies in each."""

    mass: Array
    low: Array
    high: Array
    # mass of y beyond the cells, and a bound on the mean of |x| there
    outside: float
    beyond: float

    def clip(self, changed: float) -> Clip | None:
        """The narrowest [low, high] around 0 that changes x by at most `changed` in the mean; None where cells end too soon."""
        left = 0.5 * changed - self.beyond
        if not left > 0.0:
            return None
        low, high = -_level(-self.low, self.mass, left), _level(self.high, self.mass, left)
        return Clip(min(low, 0.0), max(high, 0.0), changed)

    def squares(self, clip: Clip) -> Array:
        """The most that x^2 comes to in each cell, x kept within the clip."""
        low, high = np.clip(self.low, clip.low, clip.high), np.clip(self.high, clip.low, clip.high)
        return np.maximum(np.square(low), np.square(high))

    def ends(self, clip: Clip) -> tuple[Array, Array]:
        """The ends of x in each cell, kept within the clip."""
        return np.clip(self.low, clip.low, clip.high), np.clip(self.high, clip.low, clip.high)

    def budget(self, costs: Array, worst: float, records: int, rounds: float, nats: float) -> float:
        """A sum over `rounds` and `records` that mean costs E[cost | the past] exceed with probability e^-nats at most.

        `costs` are the most in each cell, `worst` the most anywhere. The inf over c of (rounds log E e^(c N cost) + nats)/c, by
        Hoelder's inequality over the records of a round; no more than everybody's worst.
        """
        surely = rounds * records * worst
        mean = float(self.mass @ costs) + self.outside * worst
        if not (mean > 0.0 and math.isfinite(worst)):
            return surely
        scaled, top = records * costs, records * worst

        @cache
        def at(step: int) -> float:
            c = math.exp(_STEP * step)
            if c * top > _LARGEST_EXPONENT:
                return math.inf
            grown = float(self.mass @ np.expm1(c * scaled)) + self.outside * math.expm1(c * top)
            return (rounds * math.log1p(grown) + nats) / c

        # a normal sum would ask for about this c, and e^(c top) must stay a number
        second = float(self.mass @ np.square(scaled)) + self.outside * top * top
        guess = 0.5 * math.log(2.0 * max(nats, 1e-3) / (rounds * second))
        step = math.floor(min(guess, math.log(_LARGEST_EXPONENT / top)) / _STEP)
        # the function falls, then rises
        for stride in (16, 4, 1):
            for way in (stride, -stride):
                while at(step + way) < at(step):
                    step += way
        return min(surely, at(step) * (1.0 + _ROUNDING))


def normal_masses(edges: Array) -> Array:
    """Mass of a standard normal variable in each cell, rounded up; of the smaller tails, so that far cells keep their digits."""
    small = ndtr(-np.abs(edges))
    inner = (edges[:-1] < 0.0) & (edges[1:] > 0.0)
    mass = np.where(inner, 1.0 - small[1:] - small[:-1], np.abs(np.diff(small)))
    return np.asarray(mass * (1.0 + 1e-13) + 1e-15 * np.maximum(small[1:], small[:-1]))


def _level(values: Array, mass: Array, mean: float) -> float:
    """The least v with sum of mass (values - v)+ <= mean."""
    order = np.argsort(-values)
    falling, weight = values[order], mass[order]
    heavier = np.cumsum(weight)
    above = np.cumsum(weight * falling)
    # at v = falling[k] the sum is above[k] - v heavier[k], rising with k
    excess = above - falling * heavier
    k = int(np.searchsorted(excess, mean, side="right")) - 1
    # rounding may only leave v too high
    return float((above[k] - mean) / heavier[k]) + 1e-12 * float(max(abs(falling[0]), abs(falling[-1])))
