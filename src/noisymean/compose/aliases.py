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

# How far beside the line the tilts that are tried lie, as 1/deviation; and the share of the way to the end of the domain at most.
_BESIDE = (0.6, 1.7, 5.0)
_OF_ROOM = 0.9
# Nats that an alias has to be below the value itself: what is charged is 1e-10.
ENOUGH = 25.0


class Beside(NamedTuple):
    """K(theta + outward s) - K(theta) at some distances s outward, and some inward; a row for each s, a column for each line."""

    outer: Array
    of_outer: Array
    inner: Array
    of_inner: Array


def beside(
    cumulants: Cumulants, theta: Array, value: Array, deviation: Array, outward: Array, least: Array, most: Array
) -> Beside:
    """K at tilts beside lines through theta, where it is `value`; inward between `least` and `most` away."""
    low, high = cumulants.domain
    up = outward > 0.0
    room_out, room_in = np.where(up, high - theta, theta - low), np.where(up, theta - low, high - theta)
    steps = np.array(_BESIDE)[:, None] / deviation
    outer = np.minimum(steps, _OF_ROOM * room_out)
    inner = np.minimum(np.maximum(np.minimum(steps, _OF_ROOM * room_in), least), most)
    at = np.concatenate([theta + outward * outer, theta - outward * inner])
    found = cumulants.moments(at.ravel()).value.reshape(at.shape) - value
    return Beside(outer, found[: len(_BESIDE)], inner, found[len(_BESIDE) :])


def log_aliases(known: Beside, t: Array, distance: Array) -> Array:
    """Upper bounds on the logarithm of what aliases add, beside e^K; t is signed as the line is, aliases are `distance` apart."""
    out = np.min(known.of_outer - known.outer * (t + distance), axis=0)
    into = np.min(known.of_inner + known.inner * (t - distance), axis=0)
    # those further away, together, are far less than the first: where this is -25, each is e^-20 of the one before
    return np.asarray(np.logaddexp(out, into) + math.log(2.0))
