r"""What a midpoint rule along a line takes for its own: values of the integral at thresholds 2 pi/step away.

With F(t) = e^((theta - pole) t) tail(t), the rule of step h is sum_k (-1)^k F(t + 2 pi k/h), whatever the law is. Its error is
these aliases, k != 0, and no comparison with another step shows them for sure: two steps of which one is a multiple of the other,
or nearly, have some in common. A law that is tilted so far that a few of its largest losses weigh as much as all others has two
bumps, and a wide gap. Chernoff's bound says what aliases can be at most, from K at tilts on both sides of the line.

Outward, away from the pole, F(t + a) <= e^(K(theta + s) - s (t + a)) for s > 0. Inward F(t - a) <= e^(K(theta - s) + s (t - a))
up to the pole; beyond it that holds of F less what the pole contributes, which the rule puts back by its residue. Both fall
geometrically in a. Signs are those of the upper tail; the lower one is mirrored.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from noisymean.cumulants import Cumulants
from noisymean.numerics.logs import Array

# How far beside the line the tilts that are tried lie, as 1/deviation: the first is enough for a law that is nearly normal.
TRIES = (2.5, 0.6, 1.2, 5.0)
# They lie at most this share of the way to the end of the domain.
_OF_ROOM = 0.9
# Nats that an alias has to be below the value itself: what is charged is 1e-10.
ENOUGH = 25.0
_LOG_FOUR = math.log(4.0)


class Beside(NamedTuple):
    """K(theta + s) - K(theta) for an s outward, and K(theta - s) - K(theta) for one inward."""

    outer: Array
    of_outer: Array
    inner: Array
    of_inner: Array


def beside(
    cumulants: Cumulants,
    theta: Array,
    away: Array,
    *,
    value: Array,
    outward: Array,
    inward: tuple[Array, Array],
) -> Beside:
    """K at tilts `away` from lines through theta, where it is `value`; inward they lie between these two distances."""
    low, high = cumulants.domain
    up, above, below = outward > 0.0, _OF_ROOM * (high - theta), _OF_ROOM * (theta - low)
    outer = np.minimum(away, np.where(up, above, below))
    inner = np.minimum(np.maximum(np.minimum(away, np.where(up, below, above)), inward[0]), inward[1])
    of_outer, of_inner = cumulants.moments(np.array([theta + outward * outer, theta - outward * inner])).value - value
    return Beside(outer, of_outer, inner, of_inner)


def log_aliases(known: Beside, t: Array, distance: Array) -> Array:
    """Upper bounds on the logarithm of what aliases add, beside e^K; t is signed as the line is, aliases are `distance` apart."""
    out = known.of_outer - known.outer * (t + distance)
    into = known.of_inner + known.inner * (t - distance)
    # two sides, and the aliases further away, which together are far less: where this is -25, each is e^-20 of the one before
    return np.asarray(np.maximum(out, into) + _LOG_FOUR)
