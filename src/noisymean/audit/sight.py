r"""What an audit of so many trials would have caught: its power, computed without running anything.

An audit contradicts the claim f if the right guesses or one corner (alpha_r, beta_r) lie outside of what f allows (`verdict`).
Let the truth be another curve g, and let the attacker's score be the optimal one, so that the decision with false positive
rate r has false negative rate g(r). Then the counts of errors are binomial, and for each statement alone it can be said whether
it contradicts f with a probability of at least P:

    guesses   W = Bin(m, alpha) + Bin(m, beta) is at most its P-quantile, and that of Bin(2m, (alpha + beta)/2) is no smaller
              where it lies above the mean (Hoeffding 1956, Theorem 4)
    a corner  both counts are independent, and each is at most its sqrt(P)-quantile

Whatever the others do adds to that, so P is on the safe side. What is assumed is the truth and the score:

    g         the claimed mechanism with less noise, if one round of the (subsampled) Gaussian mechanism is claimed; for every
              other claim a Gaussian mechanism, N(0, 1) against N(mu, 1)
    the score optimal, and its thresholds where RATES asks for them; one that is learned comes close at best
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from noisymean.audit.distinguishers.base import RATES
from noisymean.audit.intervals import Levels, advantage_limit, upper_limit
from noisymean.audit.result import Audit
from noisymean.audit.trials import MOST_TRIALS
from noisymean.errors import Undefined
from noisymean.laws.closed import EpsilonDelta, Gaussian
from noisymean.laws.subsampled import Subsampled
from noisymean.numerics.logs import Array
from noisymean.outward import at_most
from noisymean.tradeoff import Side, TradeOff

PROBABILITY = 0.9
# Shifts over noise that are looked at: beyond the last two datasets are told apart by every release.
_LEAST_SHIFT, _MOST_SHIFT = 1e-6, 64.0
_DIGITS = 1e-3


@final
@dataclass(frozen=True)
class Broken:
    """How a claim is thought to be broken: the (subsampled) Gaussian mechanism, its shift over its noise free."""

    rate: float

    @classmethod
    def like(cls, claim: TradeOff) -> Broken:
        """The claimed mechanism itself, where it is such a one."""
        return cls(claim.rate if isinstance(claim, Subsampled) and isinstance(claim.base, Gaussian) else 1.0)

    def curve(self, shift: float) -> TradeOff:
        return Gaussian(shift) if self.rate == 1.0 else Subsampled(Gaussian(shift), self.rate)

    def main_point(self, shift: float) -> tuple[float, float]:
        """Both errors of the best guess: where the likelihood ratio is 1, half way."""
        below = float(ndtr(0.5 * shift))
        return 1.0 - below, (1.0 - self.rate) * below + self.rate * (1.0 - below)

    def __str__(self) -> str:
        return "a Gaussian mechanism" if self.rate == 1.0 else f"a Gaussian mechanism sampled at q = {self.rate:g}"


@final
@dataclass(frozen=True)
class Sight:
    """The least epsilon at which `broken` would have been caught with `probability`; None: none, however large."""

    epsilon: float | None
    delta: float
    claimed: float
    broken: Broken
    probability: float
    trials: int
    confidence: float

    @property
    def factor(self) -> float:
        """By how much the claimed epsilon has to be broken to be seen."""
        return math.inf if self.epsilon is None or self.claimed <= 0.0 else self.epsilon / self.claimed

    def __str__(self) -> str:
        size = f"{self.trials:,} trials at {100.0 * self.confidence:g} % confidence"
        if self.epsilon is None:
            return f"{size} would not have caught {self.broken}, however large its epsilon"
        times = (
            f", {at_most(self.factor, '.3g')} times the claimed {at_most(self.claimed, '.4g')}" if self.claimed else ""
        )
        return (
            f"{size} would have caught {self.broken} of epsilon >= {at_most(self.epsilon, '.4g')} at delta ="
            f" {self.delta:g}{times}, with probability {100.0 * self.probability:g} %"
        )


@final
@dataclass(frozen=True)
class Check:
    """A claim, and how it is put to the test: with corners beside the main threshold's, or without."""

    claim: TradeOff
    delta: float
    confidence: float
    corners: bool

    def sees(self, broken: Broken, shift: float, runs: int) -> bool:
        """Whether `runs` on each dataset contradict the claim with PROBABILITY, if `broken` is what is run."""
        return runs > 0 and (self._by_guesses(broken, shift, runs) or self._by_a_corner(broken, shift, runs))

    def sees_event(self, probability: float, runs: int) -> bool:
        """The same of an event that has this probability on D' and never happens on D: its delta at every epsilon."""
        error = Levels(self.confidence).corner(2 * len(RATES)) if self.corners else Levels(self.confidence).side
        return runs > 0 and self._below(np.zeros(1), np.array([1.0 - probability]), runs, error)

    def _by_guesses(self, broken: Broken, shift: float, runs: int) -> bool:
        rate = 0.5 * sum(broken.main_point(shift))
        wrong = max(int(binom.ppf(PROBABILITY, 2 * runs, rate)), math.ceil(2 * runs * rate))
        allowed = float(self.claim.delta(0.0, Side.ABOVE))
        return advantage_limit(wrong, runs, Levels(self.confidence).guesses) > allowed

    def _by_a_corner(self, broken: Broken, shift: float, runs: int) -> bool:
        levels, rates, truth = Levels(self.confidence), np.array(RATES), broken.curve(shift)
        first, second = (np.array([rate]) for rate in broken.main_point(shift))
        if self._below(first, second, runs, levels.side):
            return True
        alpha, beta = np.append(rates, truth.inverse()(rates)), np.append(truth(rates), rates)
        return self.corners and self._below(alpha, beta, runs, levels.corner(alpha.size))

    def _below(self, alpha: Array, beta: Array, runs: int, error: float) -> bool:
        each = math.sqrt(PROBABILITY)
        corner_alpha, corner_beta = (
            upper_limit(binom.ppf(each, runs, np.clip(rate, 0.0, 1.0)), runs, error) for rate in (alpha, beta)
        )
        return bool(np.any(self.claim.lower(corner_alpha) > corner_beta))

    @property
    def claimed(self) -> float:
        """The claimed epsilon, as it is written where that is for no larger delta."""
        if isinstance(self.claim, EpsilonDelta) and self.claim.dlt <= self.delta:
            return self.claim.eps
        return self.epsilon_of(self.claim)

    def epsilon_of(self, curve: TradeOff) -> float:
        """The larger of the two directions, at this test's delta."""
        return max(curve.epsilon(self.delta, Side.ABOVE), curve.inverse().epsilon(self.delta, Side.ABOVE))


def sight(found: Audit) -> Sight:
    """What an audit of this size would have caught."""
    check, runs = _check(found), found.found.judged // 2
    broken = Broken.like(check.claim)
    seen: float | None = None
    if check.sees(broken, _MOST_SHIFT, runs):
        shift = _least(lambda value: check.sees(broken, value, runs), _LEAST_SHIFT, _MOST_SHIFT)
        seen = check.epsilon_of(broken.curve(shift))
    return Sight(seen, check.delta, check.claimed, broken, PROBABILITY, found.finished, check.confidence)


def least_event(found: Audit) -> float | None:
    """The least delta, at the claimed epsilon, of an event of D' alone that would have contradicted the claim; None: none."""
    check, runs = _check(found), found.found.judged // 2
    if not check.sees_event(1.0, runs):
        return None
    return min(1.0, _least(lambda value: check.sees_event(min(value, 1.0), runs), 1e-9, 1.0))


def trials_to_see(found: Audit, factor: float) -> int | None:
    """Trials, to two digits, with which the same audit sees the claimed epsilon broken by `factor`; None if a billion do not."""
    check, judged = _check(found), found.found.judged / found.finished
    broken = Broken.like(check.claim)
    wanted = factor * check.claimed
    if not check.epsilon_of(broken.curve(_MOST_SHIFT)) > wanted > 0.0:
        return None
    shift = _least(lambda value: check.epsilon_of(broken.curve(value)) >= wanted, _LEAST_SHIFT, _MOST_SHIFT)

    def enough(trials: float) -> bool:
        return check.sees(broken, shift, int(trials * judged) // 2)

    if not enough(MOST_TRIALS):
        return None
    least = _least(enough, 2.0, float(MOST_TRIALS))
    unit = int(10 ** max(math.floor(math.log10(least)) - 1, 0))
    return min(math.ceil(least / unit) * unit, MOST_TRIALS)


def _check(found: Audit) -> Check:
    if found.claim is None:
        raise Undefined("claim", None, "given, to say what would have contradicted it")
    limits = found.found
    return Check(found.claim, limits.delta, limits.confidence, corners=limits.corner_alpha.size > 1)


def _least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where `holds` begins to, on the side where it does; a ratio of 1 + _DIGITS wide."""
    while high > low * (1.0 + _DIGITS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
