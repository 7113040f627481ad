r"""A further proof, for few records: the mean that the denominator shrinks is put into the rate of the coins.

    D -> D'    Q'' = sum R_i g_i + r B'g + s Z,  R_i ~ Bern(r q'):    Q -> Q'' -> P
    D' -> D    P'' = r sum R_i g_i + Z,          R_i ~ Bern(q/r):     P -> P'' -> Q

The second link is told from the other arm by N coins of another rate, r q' against q, beside the all-zero pair: exact laws. The
first link has the same mean and the same noise, only its jumps are fewer and longer. Along the path of jumps a g_i, a from 1/r to
1, of rate kappa = q'/a, its score is a conditional mean of

    Phi = sum_i (B_i - kappa)/(1 - kappa) psi(y_i),    y_i = Z.g_i/|g_i|,

and its Renyi divergences follow from the exponential moments of Phi (docs/theory.md, "Few records: the mean in the rate").

K is bounded from above: psi is between two ends in each cell of y for all jumps of a stretch of the path, kappa is the largest
there, and the lattice's part of the score is added. Every choice of stretches, cells, orders and shares of delta is valid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from scipy.special import log_ndtr

from noisymean.compose.engine import Rounds
from noisymean.laws.coins import Block, Coins, thinned
from noisymean.lift import Lift, normal_masses
from noisymean.numerics.logs import Array
from noisymean.planned import Plan, PlannedRounds
from noisymean.tradeoff import Side

# Records up to which it is tried: with more of them the lift is better.
MOST_RECORDS = 60
# Cells of y, orders of Renyi's divergence, and the least of them less 1.
_CELLS, _ORDERS, _LEAST_ORDER = 640, 16, 0.3
# The path's length in log a, cut into stretches no longer than this, and so many of them at most.
_LONGEST, _MOST_STRETCHES = 0.0125, 10
# Lengths of jumps, in deviations of the noise, that are looked at.
_LENGTHS = (0.05, 6.0)
# How far out K may look: e^(N c psi) moves a normal variable by so much at most.
_MOST_MOVED = 12.0
_REACH, _CLOSE = 9.0, 5.0
# Shares of delta for the first link, and for what the binomial laws leave out.
_SHARES, _REST = (0.6, 0.3, 0.05), 1e-3
_ROUNDING = 1e-11
_LAST_NATS = 50.0


@final
@dataclass(frozen=True)
class Imitation:
    """`count` records of probability `rate` and jumps of `length`, against jumps a0 = e^log_ratio times as long and rarer."""

    count: int
    rate: float
    log_ratio: float
    length: float

    @classmethod
    def of(cls, lift: Lift) -> Imitation:
        """The arm that is lifted, imitated with the jumps of the other."""
        return cls(lift.count, lift.rate, -lift.log_ratio, lift.length * math.exp(lift.log_ratio))

    @property
    def other_rate(self) -> float:
        """Of the longer (or shorter) jumps."""
        return self.rate * math.exp(-self.log_ratio)

    @property
    def possible(self) -> bool:
        """Whether all rates and lengths of the path can be looked at."""
        longest, shortest = (self.length * math.exp(f(self.log_ratio, 0.0)) for f in (max, min))
        rates = max(self.rate, self.other_rate)
        return self.count > 0 and 0.0 < rates < 1.0 and _LENGTHS[0] <= shortest and longest <= _LENGTHS[1]

    @cached_property
    def divergences(self) -> tuple[Array, Array]:
        """Orders above 1, and bounds on Renyi's divergence of this arm from its imitation, for one round."""
        return _divergences(self)


@lru_cache(maxsize=16)
def _divergences(one: Imitation) -> tuple[Array, Array]:
    """D_lambda <= lambda times the integral over nu of K_nu(lambda - nu)/(lambda - nu)^2, nu from 0 (the imitation) to 1."""
    g = -one.log_ratio
    worst_odds = max(one.rate, one.other_rate)
    longest = one.length * math.exp(max(one.log_ratio, 0.0))
    # N c |g| psi with psi up to omega y
    most = _MOST_MOVED / (one.count * abs(g) * longest * max(1.0, worst_odds / (1.0 - worst_odds)))
    if most <= 1.0 + _LEAST_ORDER:
        return np.zeros(0), np.zeros(0)
    orders = 1.0 + np.exp(np.linspace(math.log(_LEAST_ORDER), math.log(most - 1.0), _ORDERS))
    total = np.zeros(_ORDERS)
    ends = np.linspace(0.0, 1.0, min(math.ceil(abs(g) / _LONGEST), _MOST_STRETCHES) + 1)
    for first, last in itertools.pairwise(ends.tolist()):
        stretch = _Stretch.of(one, first, last)
        low, high = orders - last, orders - first
        # K is convex, so below its chord, which is integrated against c^-2
        at_low, at_high = stretch.log_moment(low), stretch.log_moment(high)
        slope = (at_high - at_low) / (high - low)
        total += (at_low - slope * low) * (1.0 / low - 1.0 / high) + slope * np.log(high / low)
    return orders, orders * total * (1.0 + _ROUNDING)


@final
@dataclass(frozen=True, eq=False)
class _Stretch:
    """A stretch of the path: cells of y with their mass, and the two ends of psi in each."""

    count: int
    kappa: float
    # d log a/d nu
    g: float
    mass: Array
    low: Array
    high: Array
    longest: float
    reach: float
    # the largest size of the lattice's part of the score
    lattice: float

    @classmethod
    def of(cls, one: Imitation, first: float, last: float) -> _Stretch:
        """nu from `first` to `last`; log a = (1 - nu) log a0."""
        ends = sorted(one.length * math.exp((1.0 - nu) * one.log_ratio) for nu in (first, last))
        kappa = one.rate * one.length / ends[0] * (1.0 + 1e-14)
        middle, half = 0.5 * (ends[0] + ends[1]), 0.5 * (ends[1] - ends[0]) * (1.0 + 1e-14) + 1e-16
        reach = _REACH + _MOST_MOVED
        left = -0.5 * middle
        ranges = ((-_REACH, -_CLOSE, 1), (-_CLOSE, left, 8), (left, _CLOSE, 8), (_CLOSE, _REACH, 2), (_REACH, reach, 2))
        edges = np.unique(
            np.concatenate([np.linspace(low, high, share * _CELLS // 21 + 2) for low, high, share in ranges])
        )
        low, high = _psi(edges, left, middle, half)
        window = max(-left, left + ends[1])
        odds = kappa / (1.0 - kappa)
        lattice = one.count * odds * math.sqrt(2.0 * math.pi) * math.exp(0.5 * window**2) * _lattice_sum(ends[1])
        return cls(one.count, kappa, -one.log_ratio, normal_masses(edges), low, high, ends[1], reach, lattice)

    def log_moment(self, c: Array) -> Array:
        """K(c) >= log E e^(c g (score)): by Hoelder the N-th power of one record's, integrated over y; c rising or not."""
        tau = self.g * c[:, None]
        # a coin has mean zero, so that its moments are least at psi = 0; of two signs the product is more than either
        same = (self.low >= 0.0) | (self.high <= 0.0)
        larger = np.where(np.abs(self.low) > np.abs(self.high), self.low, self.high)
        log_m = _log_moment(tau * larger, self.kappa)
        log_m[:, ~same] += _log_moment(tau * np.where(larger == self.low, self.high, self.low)[~same], self.kappa)
        grown = np.expm1(np.minimum(self.count * log_m, 700.0)) @ self.mass
        # beyond the cells: 0 <= psi <= omega y on the right, -1 <= psi <= 0 on the left
        odds = self.kappa / (1.0 - self.kappa)
        up, down = (self.count * np.maximum(sign * tau[:, 0], -sign * tau[:, 0] * odds) for sign in (1.0, -1.0))
        moved = up * self.longest
        with np.errstate(over="ignore"):
            far = np.exp(0.5 * moved * moved + log_ndtr(moved - self.reach)) + np.exp(down + log_ndtr(-_REACH))
        value = np.log1p((grown + far) * (1.0 + _ROUNDING) + 1e-14)
        return np.asarray(value + c * abs(self.g) * self.lattice)


def _log_moment(x: Array, kappa: float) -> Array:
    """log(kappa e^x + (1-kappa) e^(-x kappa/(1-kappa))), which is at least 0."""
    other = -x * (kappa / (1.0 - kappa))
    near = np.log1p(kappa * np.expm1(np.minimum(x, 30.0)) + (1.0 - kappa) * np.expm1(np.minimum(other, 30.0)))
    far = np.logaddexp(math.log(kappa) + x, math.log1p(-kappa) + other)
    large = np.maximum(x, other) > 20.0
    return np.asarray(np.maximum(np.where(large, far, near), 0.0) + 1e-16)


def _psi(edges: Array, left: float, omega: float, half: float) -> tuple[Array, Array]:
    r"""Ends of psi in each cell of y, for all jumps within `half` of omega.

    psi = sum over k >= 0 of w (y + k w) e^(-k w y - k^2 w^2/2) - 1 right of `left`, and on the left, with y mirrored, the same
    without k = 0. In the middle of a cell, and from there by bounds on both derivatives: those of a term are
    w e^.. (1 - k w (y + k w)) and e^.. ((y + 2 k w) - k w (y + k w)^2).
    """
    centre, width = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    right = centre > left
    away = np.where(right, centre, -centre)
    value, doubt = np.full_like(centre, -1.0), np.full_like(centre, _ROUNDING)
    longest, shortest = omega + half, omega - half
    # the least y of the cell, and the one of larger size
    least, largest = away - width, np.abs(away) + width
    last = math.ceil(2.0 + math.sqrt(2.0 * _LAST_NATS) / shortest)
    for k in range(last + 1):
        weight = right.astype(np.float64) if k == 0 else 1.0
        value += weight * omega * (away + k * omega) * np.exp(-k * omega * away - 0.5 * (k * omega) ** 2)
        bound = np.exp(-k * np.where(least > 0.0, shortest, longest) * least - 0.5 * (k * shortest) ** 2)
        far = largest + k * longest
        doubt += weight * bound * width * longest * (1.0 + k * longest * far)
        doubt += weight * bound * half * (largest + 2.0 * k * longest + k * longest * far * far)
    return value - doubt, value + doubt


def _lattice_sum(omega: float) -> float:
    """The largest of |sum over k of w (y + k w) phi(y + k w)|, by Poisson's formula; it rises with w up to 2 pi."""
    total = sum(m * math.exp(-2.0 * math.pi**2 * m * m / omega**2) for m in range(1, 64))
    return 4.0 * math.pi / omega * total * (1.0 + 1e-9)


@final
@dataclass(frozen=True, eq=False)
class RateChained(PlannedRounds):
    """Upper bounds on delta(epsilon) of a run by this proof."""

    @cached_property
    def _imitations(self) -> tuple[Imitation, ...]:
        return tuple(Imitation.of(lift) for lift in self._lifts)

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True, side: Side = Side.ABOVE) -> bool | None:
        """Whether epsilon(delta) <= epsilon is seen at once."""
        main = self._second_link(log_delta)
        # without the first link it would be less
        if main is None or main[0].at_most(epsilon, log_delta, rough=False) is False:
            return False
        plans = [plan for plan in self._plans(log_delta) if plan.shift < epsilon]
        seen = [plan.rounds.at_most(epsilon - plan.shift, plan.log_left, rough=rough) for plan in plans]
        return True if any(seen) else (None if None in seen else False)

    # --- plans: every one is valid ---------------------------------------------------------------------------------------

    def _planned(self, log_delta: float) -> Iterator[Plan]:
        main = self._second_link(log_delta)
        if main is None:
            return
        # what the binomial laws leave out is multiplied by the first link as well
        rounds, charged = main
        for share in _SHARES:
            shift = self._first_link(math.log(share) + log_delta)
            left = math.exp(math.log1p(-share) + log_delta - shift) - charged if math.isfinite(shift) else 0.0
            if left > 0.0:
                spent = math.log(share * math.exp(log_delta) + math.exp(shift) * charged)
                yield Plan(rounds, shift, math.log(left), spent)

    def _second_link(self, log_delta: float) -> tuple[Rounds, float] | None:
        """The all-zero pairs beside the coins, and what the latter leave out; None where there is no imitation."""
        if log_delta not in self._links:
            self._links[log_delta] = self._made_second_link(log_delta)
        return self._links[log_delta]

    @cached_property
    def _links(self) -> dict[float, tuple[Rounds, float] | None]:
        return {}

    def _made_second_link(self, log_delta: float) -> tuple[Rounds, float] | None:
        if not all(one.possible for one in self._imitations):
            return None
        blocks = self._blocks(log_delta)
        if blocks is None:
            return None
        rounds = Rounds((*self._starts, *((1, block.law) for block in blocks), *self.still), self.reverse)
        return rounds, sum(block.delta for block in blocks)

    def _blocks(self, log_delta: float) -> list[Block] | None:
        """The coins of each segment: binomial laws of two rates, exactly."""
        found = []
        for one, lift, imitation in zip(self.moving, self._lifts, self._imitations, strict=True):
            x = (imitation.other_rate - lift.other) / lift.other
            if x == 0.0:
                continue
            coins = Coins(lift.other, min(x, 0.0), max(x, 0.0))
            rest = _REST * math.exp(log_delta) / len(self.moving)
            block = thinned(coins, one.steps * lift.count, rest, flipped=self.reverse) if coins.possible else None
            if block is None:
                return None
            found.append(block)
        return found

    def _first_link(self, log_delta: float) -> float:
        """epsilon(delta) of all rounds of the first link: the best of the orders that all segments know."""
        # jumps of the same length are no imitation
        each = [
            (moving.steps, one.divergences)
            for moving, one in zip(self.moving, self._imitations, strict=True)
            if one.log_ratio != 0.0
        ]
        if not each:
            return 0.0
        orders = min((known for _, (known, _) in each), key=lambda known: known.size)
        if not orders.size:
            return math.inf
        divergence = np.zeros_like(orders)
        for steps, (known, values) in each:
            # of a larger order it is no less
            divergence += steps * np.append(values, math.inf)[np.searchsorted(known, orders)]
        bounds = divergence + np.log1p(-1.0 / orders) - (log_delta + np.log(orders)) / (orders - 1.0)
        return max(float(np.min(bounds)), 0.0)
