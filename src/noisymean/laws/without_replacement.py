r"""One batch of b out of N records, without replacement: what dominates it where N is the same for both datasets.

With the rate q = b/N, M(D) = (1-q) m0 + q m1 and M(D') = (1-q) m0 + q m1': a batch without the record in question, or with it. A
batch with it is one without it in which it has taken another record's place. Advanced joint convexity (Balle, Barthe and Gaboardi
2018), with e^eps = 1 + q (e^base - 1) and beta = e^(eps - base), gives for eps >= 0

    delta(eps) <= q ((1 - beta) delta_taken(base) + beta delta_own(base)),

delta_own between m1 and m1', delta_taken between m1 and m0, each that of a Gaussian shift. Both directions together are a curve
delta(e^eps) on all of (0, inf); the convex hull of some of its points is that of finitely many outcomes, a dominating pair, so
its powers bound several rounds (docs/theory.md, "Batches of a fixed size").
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from noisymean.laws.closed import Gaussian
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.hulls import corners
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side

# Losses of the base, in deviations of its shift: densely at first, then up to where nothing is left.
_DENSE, _FAR = np.linspace(0.0, 9.0, 1801)[1:], np.linspace(9.0, 37.0, 141)[1:]
# Points, their slopes and their sums are rounded; slopes are differences of neighbours 1/200 of a deviation apart.
_ROUNDING = 1e-11
# Losses up to which e^loss is a number.
_MOST_LOSS = 690.0


class Shifts(NamedTuple):
    """How far, in deviations of the noise, outputs may move when the record itself changes, and when it takes another's place."""

    own: float
    taken: float


@lru_cache(maxsize=32)
def without_replacement(rate: float, forward: Shifts, backward: Shifts) -> FiniteOutcomes | None:
    """The pair that dominates a batch: D' told from D moves by `forward`, D from D' by `backward`.

    None where the noise is so small that e^loss is no number.
    """
    most = max(*forward, *backward)
    if most * (_FAR[-1] + 0.5 * most) > _MOST_LOSS:
        return None
    above, delta = _points(rate, forward)
    under, delta_under = _points(rate, backward)
    # delta(w) = 1 - w + w delta_backward(1/w): beyond (1 - w)+ it has what follows
    epsilon = np.concatenate([[-math.inf], -under[::-1], [0.0], above])
    at_zero = max(_at_zero(rate, forward), _at_zero(rate, backward))
    excess = np.concatenate([[0.0], (np.exp(-under) * delta_under)[::-1], [at_zero], delta])
    at, mass = corners(epsilon, excess * (1.0 + _ROUNDING))
    return FiniteOutcomes(mass, mass * np.exp(at), error=_ROUNDING)


def _at_zero(rate: float, shifts: Shifts) -> float:
    """At epsilon = 0 beta is 1."""
    return rate * float(Gaussian(shifts.own).delta(0.0, Side.ABOVE))


def _points(rate: float, shifts: Shifts) -> tuple[Array, Array]:
    """epsilon > 0, and delta there at the most."""
    larger = max(shifts)
    base = larger * np.concatenate([_DENSE, _FAR]) + 0.5 * larger * larger * np.concatenate(
        [_DENSE / _DENSE[-1], np.ones_like(_FAR)]
    )
    epsilon = np.logaddexp(math.log1p(-rate) if rate < 1.0 else -math.inf, math.log(rate) + base)
    near = base < 1.0
    epsilon[near] = np.log1p(rate * np.expm1(base[near]))
    own, taken = (Gaussian(shift).delta(base, Side.ABOVE) for shift in (shifts.own, shifts.taken))
    beta = np.exp(epsilon - base)
    return epsilon, rate * ((1.0 - beta) * taken + beta * own)
