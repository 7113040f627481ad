"""The pair that leaks most, up to coins: all gradients of D are zero, and the new record's is not."""

from __future__ import annotations

import math

import numpy as np

from noisymean.laws.on_a_line import ExplicitPair, LineMixture
from noisymean.mechanisms import Neighbours
from noisymean.pairs import Added


def all_zero(moved: Neighbours, dimension: int, new: float = 1.0) -> ExplicitPair:
    """N(0, I) against s Z + r B' e/sigma: the new record's gradient has length `new` C, and is sampled at the rate of D'."""
    sigma, rate = moved.noises[0], moved.rates[1]
    shrink, scale = math.exp(moved.log_shrink), math.exp(moved.log_scale)
    joined = LineMixture(np.array([1.0 - rate, rate]), np.array([0.0, new * shrink / sigma]), np.full(2, scale))
    return ExplicitPair(
        Added(0.0, new),
        dimension,
        LineMixture(np.ones(1), np.zeros(1), np.ones(1)),
        joined.present(),
        log_scale=moved.log_scale,
        moved=abs(new) * shrink / (sigma * scale),
    )
