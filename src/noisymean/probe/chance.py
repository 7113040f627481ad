"""What may be called chance: every statistical decision of a probe has a level, and a correct implementation fails none of them.

A probe makes fewer than 500 decisions, each at LEVEL; those over many rounds, records or axes share one LEVEL among them. So a
correct implementation is accused in fewer than one of a million probes. Tails are exact (binomial, chi-square, beta) or bounded
(Chernoff); only sums of ten thousand terms and more are taken for normal.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from noisymean.numerics.logs import Array

LEVEL = 1e-9
# deviations of a normal law beyond which it lies with probability LEVEL
DEVIATIONS = -float(special.ndtri(LEVEL / 2.0))


def binomial_tails(counts: ArrayLike, trials: float, rate: float) -> tuple[Array, Array]:
    """The probabilities of as few and of as many, for 0 < rate < 1."""
    found = np.asarray(counts, dtype=np.float64)
    few = np.where(found >= trials, 1.0, special.betaincc(found + 1.0, np.maximum(trials - found, 1e-300), rate))
    many = np.where(found <= 0.0, 1.0, special.betainc(np.maximum(found, 1e-300), trials - found + 1.0, rate))
    return few, many


def binomial_is_improbable(counts: ArrayLike, trials: float, rate: float, among: int = 1) -> bool:
    """Whether so many of `trials` independent draws at `rate` are too many or too few; `among`: one of so many counts."""
    if not 0.0 < rate < 1.0:
        return bool(np.any(np.asarray(counts) != trials * rate))
    few, many = binomial_tails(counts, trials, rate)
    return bool((np.minimum(few, many) < LEVEL / (2.0 * among)).any())


def chi_square_range(degrees: float, among: int = 1) -> tuple[float, float]:
    """Between which a mean square of so many standard normal numbers lies."""
    tail = LEVEL / (2.0 * among)
    half = degrees / 2.0
    return float(special.gammaincinv(half, tail)) / half, float(special.gammainccinv(half, tail)) / half


def least_correlation(length: int, pairs: int) -> float:
    """Above which no correlation of `pairs` pairs of independent normal vectors of that length lies."""
    return math.sqrt(float(special.betainccinv(0.5, max(length - 1, 1) / 2.0, LEVEL / max(pairs, 1))))


def rate_interval(count: float, trials: float) -> tuple[float, float]:
    """Clopper and Pearson: the rates at which so many draws are not improbable."""
    low = 0.0 if count == 0 else float(special.betaincinv(count, trials - count + 1.0, LEVEL / 2.0))
    high = 1.0 if count == trials else float(special.betainccinv(count + 1.0, trials - count, LEVEL / 2.0))
    return low, high


def sum_is_improbable(total: float, count: int, values: Array, probabilities: Array) -> bool:
    """Whether the sum of `count` independent draws of `values` is too large or too small, by Chernoff's bound."""
    values, probabilities = values[probabilities > 0.0], probabilities[probabilities > 0.0]
    mean = float(values @ probabilities)
    spread = math.sqrt(max(float((values - mean) ** 2 @ probabilities), 1e-300))
    side = 1.0 if total >= count * mean else -1.0
    # any tilt gives a bound; the best of a grid is close to the best of all
    tilts = side * np.geomspace(1e-3, 30.0, 200) / spread
    cumulants = special.logsumexp(tilts[:, None] * (values - mean)[None, :] + np.log(probabilities)[None, :], axis=1)
    bound = float((count * cumulants - tilts * (total - count * mean)).min())
    return bound < math.log(LEVEL / 2.0)


def is_normal(sample: Array) -> bool:
    """Whether a large sample of mean square one is one of normal numbers: Kolmogorov's distance, and the tails."""
    ordered = np.sort(sample.ravel())
    count = len(ordered)
    expected = special.ndtr(ordered)
    steps = np.arange(count + 1) / count
    distance = float(max(np.abs(expected - steps[:-1]).max(), np.abs(expected - steps[1:]).max()))
    if distance > float(special.kolmogi(LEVEL)) / math.sqrt(count):
        return False
    # the sample was scaled by its own deviation, which is a little off
    error = 6.0 / math.sqrt(2.0 * count)
    for far in (3.0, 3.5, 4.0):
        # one that is cut off at three piles up just there, and has nothing beyond
        beyond = float((np.abs(ordered) > far).sum())
        low, high = (2.0 * float(special.ndtr(-far * (1.0 + side * error))) for side in (1.0, -1.0))
        few, many = binomial_tails(beyond, count, low)[0], binomial_tails(beyond, count, high)[1]
        if min(few, many) < LEVEL / 2.0:
            return False
    return True
