r"""A block of coins: flipped one after the other, each a little biased by what came before.

In the first arm coin j is Bern(kappa0), in the second Bern(kappa0 (1 + x_j)), where x_j in [low, high] may be any function of the
past and of anything drawn before. That is all that the gradients of D may add to the pair of all-zero datasets (docs/theory.md,
"The all-zero pair is the worst, up to N coins"). Three bounds on what such a block gives away, the second arm told from the
first; each is a pair of measures that stands for it in a sum over rounds:

    renyi_hull   sum of x_j^2 <= budget: Renyi's divergences and a second moment, the convex hull of both
    thinned      all x_j of one sign: every coin is a thinning of the most biased one, so that two binomial laws dominate
    normal       sum of costs C(x_j) <= budget, every coin tiny beside all of them: a Gaussian of about the budget's variance
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from noisymean.cumulants import Cumulants
from noisymean.laws.finite import FiniteOutcomes, Outcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.laws.hulls import corners
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Law, TradeOff

# Thresholds at which the hull is looked at, on either side of 0, and orders of Renyi's divergence.
_THRESHOLDS, _ORDERS = 64, 192
# Logarithms of the least order, less 1, that is looked at, and of how far beyond the last threshold's own they go.
_LEAST_ORDER, _BEYOND = -4.0, 3.0
# How much larger the variance of the hull is than that of the coins.
_OF_HULL = 1.7
# Losses up to which e^loss is a number, and half of which a block may have for its variance.
_MOST_LOSS = 690.0
# Outcomes of a binomial law that a sum over rounds can afford.
_MOST_OUTCOMES = 4096
# What summing and exponentials may round a mass by.
_ROUNDING = 1e-12


class Coins(NamedTuple):
    """Bern(rate) against Bern(rate (1 + x)), low <= x <= high."""

    rate: float
    low: float
    high: float

    @property
    def odds(self) -> float:
        """t = kappa0 / (1 - kappa0): in the second arm tails are 1 - t x times as likely."""
        return self.rate / (1.0 - self.rate)

    @property
    def possible(self) -> bool:
        """Whether every x leaves a probability strictly between 0 and 1."""
        return self.rate < 1.0 and self.low > -1.0 and self.odds * self.high < 1.0

    @property
    def largest(self) -> float:
        """The largest |x|."""
        return max(-self.low, self.high, 0.0)

    def curvature(self, power: Array) -> Array:
        """The most that kappa0 (1+x)^power + kappa0 t (1 - t x)^power comes to, and no less than at x = 0."""
        heads = np.maximum(power * math.log1p(self.high), power * math.log1p(self.low))
        tails = np.maximum(power * math.log1p(-self.odds * self.low), power * math.log1p(-self.odds * self.high))
        with np.errstate(over="ignore"):
            grown = np.exp(np.maximum(heads, 0.0)) + self.odds * np.exp(np.maximum(tails, 0.0))
        return np.asarray(self.rate * grown)

    @property
    def variance(self) -> float:
        """Of the loss, for each x^2."""
        return self.rate * (1.0 + self.odds)


class Block(NamedTuple):
    """A pair of measures that bounds a block of coins, and what it adds to every delta by itself."""

    law: Law
    delta: float
    # of its loss, roughly: which of several blocks will turn out best
    variance: float


@final
@dataclass(frozen=True, eq=False)
class FewLosses(Law):
    """Finitely many losses of D' against D, with the logarithms of their masses on D. Not quite laws: some mass is elsewhere."""

    losses: Array
    log_p: Array

    @classmethod
    def of_arms(cls, losses: Array, log_first: Array, *, flipped: bool) -> FewLosses:
        """Losses of the second arm against the first; `flipped` where the second arm is that of D."""
        return cls(-losses, log_first + losses) if flipped else cls(losses, log_first)

    def one_round(self) -> TradeOff:
        return self._curve

    @cached_property
    def _curve(self) -> FiniteOutcomes:
        return FiniteOutcomes(np.exp(self.log_p), np.exp(self.log_p + self.losses))

    @cached_property
    def cumulants(self) -> Cumulants:
        return Outcomes(self.losses, np.exp(self.log_p), self.log_p, atoms=self.losses.size > 1)


def fair() -> Block:
    """Coins without a bias: the two arms are one."""
    return Block(FewLosses(np.zeros(1), np.zeros(1)), 0.0, 0.0)


# --- Renyi's divergences and a second moment ---------------------------------------------------------------------------


def renyi_hull(coins: Coins, budget: float, delta: float, *, flipped: bool) -> Block | None:
    """The block under sum of x_j^2 <= `budget`; infinite losses cost at most `delta`. None where nothing is left to say.

    A true delta is convex in w = e^eps, so that the hull of upper bounds at a few w is one as well. It is the curve of finitely
    many outcomes: a loss at each corner, whose mass in the first arm is the change of slope there.
    """
    variance = budget * coins.variance
    if not 0.0 < variance < 0.5 * _MOST_LOSS:
        return None
    deviation = math.sqrt(variance)
    reach = variance + deviation * math.sqrt(2.0 * (math.log(1.0 / delta) + 1.0))
    while reach < _MOST_LOSS:
        positive = deviation * np.sinh(np.linspace(0.0, math.asinh(reach / deviation), _THRESHOLDS + 1)[1:])
        above = np.minimum(
            _by_renyi(coins, budget, positive, backward=False), _by_second_moment(coins, budget, positive)
        )
        if above[-1] <= delta:
            break
        reach *= 1.3
    else:
        return None
    # what they exceed (1 - w)+ by, so that the least losses keep their digits
    below = np.minimum(
        np.exp(-positive) * _by_renyi(coins, budget, positive, backward=True),
        _by_second_moment(coins, budget, -positive),
    )
    epsilon = np.concatenate([[-np.inf], -positive[::-1], [0.0], positive])
    middle = _by_second_moment(coins, budget, np.zeros(1))
    excess = np.concatenate([[0.0], below[::-1], middle, np.minimum.accumulate(above)])
    at, mass = corners(epsilon, excess * (1.0 + _ROUNDING))
    law = FewLosses.of_arms(at, np.log(mass), flipped=flipped)
    return Block(law, float(above[-1]) * (1.0 + _ROUNDING), _OF_HULL * variance)


def _by_renyi(coins: Coins, budget: float, epsilon: Array, *, backward: bool) -> Array:
    """delta(epsilon) by divergences of many orders: of the second arm from the first, or `backward`."""
    last = math.log1p(float(epsilon[-1]) / (budget * coins.variance)) + _BEYOND
    excess = np.exp(np.linspace(_LEAST_ORDER, last, _ORDERS))[:, None]
    order = 1.0 + excess
    with np.errstate(over="ignore", invalid="ignore"):
        divergence = 0.5 * order * budget * coins.curvature(-order - 1.0 if backward else order - 2.0)
        exponent = excess * (divergence - epsilon + np.log(excess / order)) - np.log(order)
    return np.asarray(np.exp(np.minimum(np.nanmin(exponent, axis=0), 0.0)))


def _by_second_moment(coins: Coins, budget: float, epsilon: Array) -> Array:
    """E Y+ <= (E Y + (E Y^2)^(1/2))/2 for Y = 1 - w d(first)/d(second): what it exceeds (1 - w)+ by."""
    distance = np.abs(np.expm1(epsilon))
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.exp(2.0 * epsilon) * np.expm1(budget * coins.curvature(np.array([-3.0])))
        excess = spread / (2.0 * (distance + np.sqrt(np.square(distance) + spread)))
    # delta is at most 1, whatever overflows
    return np.asarray(np.fmin(excess, np.exp(np.minimum(epsilon, 0.0))))


# --- coins of one sign -------------------------------------------------------------------------------------------------


def thinned(coins: Coins, count: int, delta: float, *, flipped: bool) -> Block | None:
    """`count` coins whose x are all of one sign, or None: Bin(count, kappa0) against Bin(count, kappa0 (1 + the largest))."""
    if coins.low < 0.0 < coins.high:
        return None
    x = coins.high if coins.high > 0.0 else coins.low
    biased = coins.rate * (1.0 + x)
    first, last = binomial.effective_range(count, biased, 0.5 * delta)
    if last - first >= _MOST_OUTCOMES:
        return None
    sizes = np.arange(first, last + 1, dtype=np.float64)
    losses = sizes * math.log1p(x) + (count - sizes) * math.log1p(-coins.odds * x)
    with np.errstate(divide="ignore"):
        log_second = np.log(binomial.pmf(sizes, count, biased))
    seen = np.isfinite(log_second)
    law = FewLosses.of_arms(losses[seen], (log_second - losses)[seen], flipped=flipped)
    return Block(law, delta, coins.variance * count * x * x)


# --- many tiny coins ---------------------------------------------------------------------------------------------------


class Costs(NamedTuple):
    """What a coin may cost of a Gaussian's variance: the Gaussian begins with `least`, and is looked at up to `reach` away."""

    coins: Coins
    least: float
    reach: float

    def of(self, x: Array) -> Array:
        """C(x), convex and rising with |x|; inf where a coin is too large."""
        largest = max(1.0, self.coins.odds) * np.abs(x)
        with np.errstate(all="ignore"):
            log_ratio = -np.log1p(-np.minimum(largest, 1.0))
            growth = self.coins.odds * np.maximum(1.0, 1.0 / (1.0 - self.coins.odds * x))
            twice_kl = np.square(x) * self.coins.rate * (np.maximum(1.0, 1.0 / (1.0 + x)) + growth)
            base = twice_kl * np.exp(self.reach * log_ratio / self.least)
            # C = base exp((1 + A + C) C / (2 V0)): from below by iterating, then a little more than that
            cost = base
            for _ in range(_ITERATIONS):
                cost = base * np.exp((1.0 + self.reach + cost) * cost / (2.0 * self.least))
            cost = cost * _ENOUGH
            enough = cost >= base * np.exp((1.0 + self.reach + cost) * cost / (2.0 * self.least))
        return np.where(enough & np.isfinite(cost) & (largest < 1.0), cost, np.inf)

    def missed(self, variance: float) -> float:
        """What a Gaussian of that variance in the end may be short of."""
        largest = -math.log1p(-max(1.0, self.coins.odds) * self.coins.largest)
        distance = max(self.reach - largest, 0.0)
        return variance / math.sqrt(2.0 * math.pi * self.least) * math.exp(-0.5 * distance * distance / variance)


# Steps of the iteration for C, and the share by which what it leaves is made up for.
_ITERATIONS, _ENOUGH = 4, 1.0 + 1e-6


def normal(costs: Costs, budget: float) -> Block:
    """The block under sum of C(x_j) <= `budget`: a Gaussian of variance V0 + budget, the same either way round."""
    variance = costs.least + budget
    return Block(gaussian_pair(1, math.sqrt(variance), log_scale=0.0), costs.missed(variance), variance)
