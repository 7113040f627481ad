r"""Exact delta(epsilon) of a few coins flipped one after the other; without noisymean.

Coin j is Bern(k) in the first arm and Bern(k (1 + x_j)) in the second, x_j a function of the past. Telling the second from the
first,

    delta of m coins at w  =  k (1+x) delta of m-1 coins at w/(1+x)  +  (1-k)(1-t x) delta of m-1 coins at w/(1-t x),    w = e^epsilon,

t = k/(1-k), and delta of no coins is (1 - w)+. The best strategy takes the largest of this over x at every step, within its budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import binom

Array = np.ndarray
Cost = Callable[[float], float]


def constant(rate: float, x: float, count: int, epsilon: Array) -> Array:
    """All coins alike: two binomial laws."""
    heads = np.arange(count + 1)
    log_first, log_second = binom.logpmf(heads, count, rate), binom.logpmf(heads, count, rate * (1.0 + x))
    with np.errstate(over="ignore"):
        over = np.exp(log_second) * -np.expm1(np.minimum(epsilon[:, None] + log_first - log_second, 0.0))
    return np.asarray(over.sum(axis=1))


def best(rate: float, choices: Sequence[float], cost: Cost, count: int, budget: float, epsilon: Array) -> Array:
    """The largest that any strategy reaches which flips coins of these x within the budget, at each epsilon by itself."""
    odds = rate / (1.0 - rate)
    price = {x: cost(x) for x in choices}

    def value(left: int, purse: float, at: Array) -> Array:
        found = -np.expm1(np.minimum(at, 0.0))
        if left == 0:
            return found
        for x in choices:
            if price[x] <= purse:
                rest = purse - price[x]
                heads = value(left - 1, rest, at - math.log1p(x))
                tails = value(left - 1, rest, at - math.log1p(-odds * x))
                found = np.maximum(found, rate * (1.0 + x) * heads + (1.0 - rate) * (1.0 - odds * x) * tails)
        return found

    return value(count, budget, epsilon)


def by_paths(
    rate: float, strategy: Callable[[Sequence[int], float], float], cost: Cost, count: int, budget: float
) -> tuple[Array, Array]:
    """Probability in the second arm and loss of each of the 2^count paths; `strategy` sees the past and what is left."""
    odds = rate / (1.0 - rate)
    paths: list[tuple[tuple[int, ...], float, float, float]] = [((), 1.0, 0.0, budget)]
    for _ in range(count):
        grown = []
        for past, weight, loss, purse in paths:
            x = strategy(past, purse)
            rest = purse - cost(x)
            assert rest >= -1e-12 * budget, "a strategy keeps to its budget"
            grown.append(((*past, 1), weight * rate * (1.0 + x), loss + math.log1p(x), rest))
            grown.append(((*past, 0), weight * (1.0 - rate) * (1.0 - odds * x), loss + math.log1p(-odds * x), rest))
        paths = grown
    return np.array([one[1] for one in paths]), np.array([one[2] for one in paths])


def delta_of_paths(weight: Array, loss: Array, epsilon: Array) -> Array:
    return np.asarray(-np.expm1(np.minimum(epsilon[:, None] - loss, 0.0)) @ weight)
