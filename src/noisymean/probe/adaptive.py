"""A clipping bound that moves: what the noisy count of unclipped gradients is divided by.

The bound of round t + 1 is C_t exp(-rate (count / d - quantile)). Large records show C_t / c in round t and small ones 1 / c,
so the ratio of two rounds gives count / d; the count is seen in the batch, and d is what is left. The bound wanders, and with
it the noise, so that rounds are few and begin anew.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from noisymean.probe.finding import Bearing, Remark, Severity
from noisymean.probe.records import Axes, Reading
from noisymean.probe.runs import by_knob, designed
from noisymean.targets.protocol import Adaptation, Raised, Runnable

_RUNS, _ROUNDS, _RECORDS = 6, 25, 25
_SETTINGS = by_knob((_RECORDS, Fraction(3, 10)), (_RECORDS, 10))


def remarks(subject: Runnable, seed: int) -> list[Remark]:
    """What the count is divided by, for subjects whose bound moves."""
    rule = subject.adaptation
    if rule is None:
        return []
    axes = Axes(_RECORDS)
    found: list[tuple[int, float]] = []
    try:
        for part in range(_RUNS):
            releases = designed(
                subject, _SETTINGS[subject.knob], axes.gradients(), seed + part, _ROUNDS, moving_bound=True
            )
            found += _counted(axes.read(releases), rule)
    except Raised as fault:
        return [Remark(Severity.FAULT, f"with a bound that moves it {fault}")]
    severity, words = Severity.UNKNOWN, "something unknown"
    if len(found) >= 10:
        sizes, divisors = (np.array(column) for column in zip(*found, strict=True))
        if np.abs(divisors / sizes - 1.0).max() < 0.05:
            severity, words = Severity.LEAK, "|B|, the exact size of the batch"
        elif np.abs(divisors / divisors.mean() - 1.0).max() < 0.05:
            words = f"{divisors.mean():.3g}; what it leaks is not known"
    return [Remark(severity, f"the noisy count of unclipped gradients is divided by {words}", Bearing.BESIDES)]


def _counted(readings: Sequence[Reading], rule: Adaptation) -> list[tuple[int, float]]:
    """(|B|, d) for each round that shows both, and whose next one shows the bound."""
    found = []
    for now, after in itertools.pairwise(readings):
        if now.scale is None or after.scale is None or not now.unclipped:
            continue
        # scale_t = C_0 / C_t
        fraction = rule.quantile - math.log(now.scale / after.scale) / rule.learning_rate
        if fraction > 0.0:
            found.append((now.size, now.unclipped / fraction))
    return found
