r"""How sure an audit is: Clopper-Pearson intervals whose levels add up, so that all its numbers hold *together*.

With confidence 1 - g, the error g is shared out before anything is seen (docs/audit.md, "Levels"):

    guesses   60 %   how often the decision at the main threshold is right: bounds 1 - alpha - beta, delta at epsilon = 0
    point     20 %   both sides of alpha and of beta at the main threshold
    curve     20 %   the upper sides of alpha and beta at every other threshold, by Bonferroni

Runs on D and on D' are independent, so two intervals that each hold with probability sqrt(1 - e) hold together with 1 - e.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from noisymean.errors import check_number
from noisymean.numerics.logs import Array

GUESSES, POINT, CURVE = 0.6, 0.2, 0.2


@final
@dataclass(frozen=True)
class Interval:
    """A rate, and where it lies."""

    estimate: float
    lower: float
    upper: float


@final
@dataclass(frozen=True)
class Levels:
    """Probability of error of each statement of an audit."""

    confidence: float

    def __post_init__(self) -> None:
        check_number("confidence", self.confidence, least=0.6, most=1.0 - 1e-9)

    @property
    def guesses(self) -> float:
        """Of the bound on 1 - alpha - beta."""
        return GUESSES * (1.0 - self.confidence)

    @property
    def side(self) -> float:
        """Of each of the four sides at the main threshold."""
        return 0.5 * -math.expm1(0.5 * math.log1p(-POINT * (1.0 - self.confidence)))

    def corner(self, thresholds: int) -> float:
        """Of each of the two upper sides at each of so many other thresholds."""
        return -math.expm1(0.5 * math.log1p(-CURVE * (1.0 - self.confidence) / max(thresholds, 1)))


def upper_limit(successes: ArrayLike, trials: ArrayLike, error: float) -> Array:
    """Clopper and Pearson 1934: the rate at which so few successes would have probability `error`."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        value = betaincinv(k + 1.0, np.maximum(n - k, 1e-300), 1.0 - error)
    return np.asarray(np.where(k >= n, 1.0, value))


def lower_limit(successes: ArrayLike, trials: ArrayLike, error: float) -> Array:
    """The rate at which so many successes would have probability `error`."""
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return 1.0 - upper_limit(n - k, n, error)


def two_sided(successes: int, trials: int, error: float) -> Interval:
    """Each side wrong with probability `error`."""
    if trials == 0:
        return Interval(math.nan, 0.0, 1.0)
    lower, upper = (float(limit(successes, trials, error)) for limit in (lower_limit, upper_limit))
    return Interval(successes / trials, lower, upper)


def advantage_limit(wrong: int, pairs: int, error: float) -> float:
    """A lower limit of 1 - alpha - beta from `wrong` guesses in `pairs` runs on D and as many on D'.

    Guesses are wrong at the average rate (alpha + beta)/2, and their number is at least as concentrated as a binomial of that
    rate (Hoeffding 1956, Theorem 4; docs/audit.md, "Right guesses"), so the binomial's limit holds for errors below 1/4.
    """
    return max(0.0, 1.0 - 2.0 * float(upper_limit(wrong, 2 * pairs, error))) if pairs else 0.0
