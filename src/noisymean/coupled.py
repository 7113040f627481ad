"""Rate, denominator and noise may all move with N: a guarantee from both batches, drawn together and revealed.

docs/theory.md, "When the rate moves". Valid always, and loose: it is what is left where no other proof applies.
"""

from __future__ import annotations

import math

import numpy as np

from noisymean.laws.gaussian import GaussianPairs
from noisymean.mechanisms import DatasetDenominator
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array

# Groups of each of two numbers where batches are coupled, those of both that f(alpha) of one round is made of; and a weight that
# is charged instead of looked at.
_OF_EACH, _GROUPS_OF_COUPLED, _NEGLIGIBLE = 32, 64, 1e-24


def coupled(mechanism: DatasetDenominator, groups: int) -> GaussianPairs:
    r"""Rate, denominator and noise may all move: the two batches are drawn together, and both are revealed.

    Every record is in both batches with the lesser rate, and in that of the larger rate only with what is left; the new one joins
    B' with the rate of D'. Of k records in both and d in one, given that, N(0, I) is told from N(mu, s^2 I) with
    mu <= (|1-r| k + max(1, r) d + r [joined])/sigma, r = c/c' (docs/theory.md, "When the rate moves"). k and d are bounded by
    independent variables that are stochastically larger, and every group of them by its largest.
    """
    moved, count = mechanism.neighbours, mechanism.dataset_size or 0
    both, changed = min(moved.rates), abs(moved.rates[0] - moved.rates[1])
    shrink, sigma, joins = math.exp(moved.log_shrink), moved.noises[0], moved.rates[1]
    # without `groups` it is f(alpha) of one round that is asked for, and a Gauss rule over sizes is not known to fit
    few = groups or _GROUPS_OF_COUPLED
    _, shared, mass, left_out = binomial.grouped(count, both / (1.0 - changed), _OF_EACH)
    _, alone, mass_alone, left_out_alone = binomial.grouped(count, changed, _OF_EACH)
    lost = 1.0 if moved.rates[0] > moved.rates[1] else shrink
    joined = np.array([0.0, shrink])
    shifts = abs(math.expm1(moved.log_shrink)) * shared[:, None, None] + lost * alone[:, None] + joined
    weights = mass[:, None, None] * mass_alone[:, None] * np.array([1.0 - joins, joins])
    shifts, weights = np.ravel(shifts) / sigma, np.ravel(weights)
    kept = weights > _NEGLIGIBLE
    lost_weight = float(weights[~kept].sum())
    shifts, weights = _in_groups(shifts[kept], weights[kept], few)
    return GaussianPairs(
        mechanism.needed_dimension,
        weights,
        shifts,
        np.full(shifts.size, moved.log_scale),
        left_out + left_out_alone + lost_weight,
    )


def _in_groups(shifts: Array, weights: Array, count: int) -> tuple[Array, Array]:
    """At most so many groups of shifts, equally wide and each bounded by its largest one: the curve falls with it."""
    least, most = float(shifts.min()), float(shifts.max())
    if shifts.size <= count or not most > least:
        return shifts, weights
    group = np.minimum((shifts - least) * (count / (most - least)), count - 1.0).astype(np.int64)
    largest, total = np.full(count, -math.inf), np.zeros(count)
    np.maximum.at(largest, group, shifts)
    np.add.at(total, group, weights)
    return largest[total > 0.0], total[total > 0.0]
