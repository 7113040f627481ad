"""What may be called chance: every statistical decision of a probe has a level, and a correct implementation fails none of them.

A probe makes fewer than 500 decisions, each at LEVEL; those over many rounds, records or axes share one LEVEL among them. So a
correct implementation is accused in fewer than one of a million probes. Tails are exact (binomial, chi-square, beta) or bounded
(Chernoff); only sums of ten thousand terms and more are taken for normal.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from noisymean.numerics.logs import Array

LEVEL = 1e-9
# deviations of a normal law beyond which it lies with probability LEVEL
DEVIATIONS = float(stats.norm.isf(LEVEL / 2.0))


def binomial_is_improbable(count: float, trials: float, rate: float, among: int = 1) -> bool:
    """Whether so many of `trials` independent draws at `rate` are too many or too few."""
    if not 0.0 < rate < 1.0:
        return count != trials * rate
    tail = LEVEL / (2.0 * among)
    return bool(stats.binom.cdf(count, trials, rate) < tail or stats.binom.sf(count - 1.0, trials, rate) < tail)


def chi_square_range(degrees: float, among: int = 1) -> tuple[float, float]:
    """Between which a mean square of so many standard normal numbers lies."""
    tail = LEVEL / (2.0 * among)
    return float(stats.chi2.ppf(tail, degrees)) / degrees, float(stats.chi2.isf(tail, degrees)) / degrees


def least_correlation(length: int, pairs: int) -> float:
    """Above which no correlation of `pairs` pairs of independent normal vectors of that length lies."""
    return math.sqrt(float(stats.beta.isf(LEVEL / max(pairs, 1), 0.5, max(length - 1, 1) / 2.0)))


def rate_interval(count: float, trials: float) -> tuple[float, float]:
    """Clopper and Pearson: the rates at which so many draws are not improbable."""
    low = 0.0 if count == 0 else float(stats.beta.ppf(LEVEL / 2.0, count, trials - count + 1.0))
    high = 1.0 if count == trials else float(stats.beta.isf(LEVEL / 2.0, count + 1.0, trials - count))
    return low, high


def sum_is_improbable(total: float, count: int, values: Array, probabilities: Array) -> bool:
    """Whether the sum of `count` independent draws of `values` is too large or too small, by Chernoff's bound."""
    mean = float(values @ probabilities)
    spread = math.sqrt(max(float((values - mean) ** 2 @ probabilities), 1e-300))
    side = 1.0 if total >= count * mean else -1.0
    # any tilt gives a bound; the best of a grid is close to the best of all
    tilts = side * np.geomspace(1e-3, 30.0, 200) / spread
    exponents = tilts[:, None] * (values - mean)[None, :]
    most = exponents.max(axis=1)
    cumulants = most + np.log(np.exp(exponents - most[:, None]) @ probabilities)
    bound = float((count * cumulants - tilts * (total - count * mean)).min())
    return bound < math.log(LEVEL / 2.0)


def is_normal(sample: Array) -> bool:
    """Whether a large sample of mean square one is one of normal numbers: Kolmogorov's distance, and the tail beyond three."""
    ordered = np.sort(sample.ravel())
    count = len(ordered)
    expected = stats.norm.cdf(ordered)
    steps = np.arange(count + 1) / count
    distance = float(max(np.abs(expected - steps[:-1]).max(), np.abs(expected - steps[1:]).max()))
    if distance > float(stats.kstwobign.isf(LEVEL)) / math.sqrt(count):
        return False
    beyond = float((np.abs(ordered) > 3.0).sum())
    # the sample was scaled by its own deviation, which is a little off
    error = 6.0 / math.sqrt(2.0 * count)
    low, high = (2.0 * float(stats.norm.sf(3.0 * (1.0 + side * error))) for side in (1.0, -1.0))
    tail = LEVEL / 2.0
    return not (stats.binom.cdf(beyond, count, low) < tail or stats.binom.sf(beyond - 1.0, count, high) < tail)
