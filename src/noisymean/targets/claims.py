r"""The claim as a curve: what an accountant of the noisy sum says about the whole release.

Over several rounds delta(eps) is known and f is wanted. Each epsilon gives a line below f, 1 - delta(eps) - e^eps alpha (Dong,
Roth and Su 2022, Proposition 6), and the upper envelope of finitely many is again a trade-off function, never above f: an audit
against it errs in favour of the claim.

A claim of somebody else's making, a pair of numbers or a curve, is looked at before anything is compared with it.
"""

from __future__ import annotations

import math
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.laws.closed import EpsilonDelta
from noisymean.laws.finite import FiniteOutcomes
from noisymean.mechanisms import Mechanism
from noisymean.noisy_sum import claimed
from noisymean.numerics.logs import Array
from noisymean.runs import Run
from noisymean.targets.foreign import Misbehaved, call
from noisymean.tradeoff import Side, TradeOff

# The curve is traced by this many lines on each side of slope -1, up to the epsilon at which delta is this small.
_LINES = 40
_SMALLEST_DELTA = 1e-10
# Where a curve of others is looked at, and by how much rounding may lift it above 1 - alpha.
_LOOKED_AT, _ROUNDED = (0.0, 1e-6, 0.05, 0.5, 0.95, 1.0), 1e-6
# Logarithm of a slope that a double holds; beyond, a line says nothing at any alpha but 0.
_STEEPEST = 700.0


def claimed_curve(mechanism: Mechanism, steps: int = 1) -> TradeOff:
    """The SGM curve of `steps` rounds that is claimed for `mechanism`, whatever it divides by."""
    if steps == 1:
        return claimed(mechanism)
    rounds = Run.of(mechanism, steps).claimed()
    slopes, heights = [], []
    for direction in (rounds, rounds.inverse()):
        last = min(direction.epsilon(_SMALLEST_DELTA, Side.ABOVE), _STEEPEST)
        # denser near 0, where the curve bends most
        for epsilon in last * np.linspace(0.0, 1.0, _LINES) ** 2:
            kept = -math.expm1(min(direction.log_delta(float(epsilon), Side.ABOVE), 0.0))
            slope = math.exp(epsilon)
            # T(Q, P) >= 1 - delta - e^eps alpha, reflected in the diagonal
            slopes.append(slope if direction is rounds else 1.0 / slope)
            heights.append(kept if direction is rounds else kept / slope)
    return below(np.array(slopes), np.array(heights))


def below(slopes: Array, heights: Array) -> FiniteOutcomes:
    """The largest of the lines height - slope * alpha, and 0, as the curve of finitely many outcomes."""
    order = np.lexsort((-heights, -slopes))
    hull: list[tuple[float, float]] = []
    for slope, height in zip(slopes[order].tolist(), heights[order].tolist(), strict=True):
        if hull and hull[-1][0] == slope:
            continue
        while hull and (height >= hull[-1][1] or (len(hull) > 1 and _useless(hull[-2], hull[-1], (slope, height)))):
            hull.pop()
        hull.append((slope, height))
    crossings = [(a[1] - b[1]) / (a[0] - b[0]) for a, b in pairwise(hull)]
    end = hull[-1][1] / hull[-1][0]
    alpha = np.array([0.0, *crossings, end])
    alpha = np.minimum(np.maximum.accumulate(alpha), 1.0)
    beta = np.clip(
        np.array([hull[0][1], *(h - s * x for (s, h), x in zip(hull[1:], crossings, strict=True)), 0.0]), 0.0, 1.0
    )
    beta = np.minimum.accumulate(beta)
    return FiniteOutcomes(
        np.concatenate([[0.0], np.diff(alpha), [1.0 - alpha[-1]]]),
        np.concatenate([[1.0 - beta[0]], -np.diff(beta), [0.0]]),
    )


def _useless(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    """Whether `middle` is nowhere above both others; slopes fall from left to right."""
    return (left[1] - right[1]) * (left[0] - middle[0]) <= (left[1] - middle[1]) * (left[0] - right[0])


def claim_of_others(found: Any, owner: str) -> TradeOff:
    """A claim that a user's code carries, (epsilon, delta) or a curve; `owner` is what a complaint is said of."""
    if isinstance(found, TradeOff):
        _check_curve(found, owner)
        return found
    allowed = "a TradeOff or a pair of numbers, (epsilon, delta)"
    try:
        pair = call(lambda: list(found) if isinstance(found, tuple | list | np.ndarray) and len(found) == 2 else [])
        numbers = call(lambda: [float(one) for one in pair if isinstance(one, Real) and not isinstance(one, bool)])
    except Misbehaved as fault:
        raise InvalidInput("target", owner, allowed, f"it {fault}") from None
    if len(numbers) != 2:
        raise InvalidInput("target", owner, allowed, f"it is a {type(found).__name__}; e.g. (1.0, 1e-5)")
    epsilon, delta = numbers
    if not (0.0 <= epsilon < math.inf and 0.0 <= delta <= 1.0):
        said = f"it is ({epsilon:g}, {delta:g})"
        raise InvalidInput("target", owner, f"{allowed}, with 0 <= epsilon < inf and 0 <= delta <= 1", said)
    return EpsilonDelta(epsilon, delta)


def _check_curve(claim: TradeOff, owner: str) -> None:
    """A curve may be of a class of the user's own: that it is a trade-off function is seen here, at a few alpha."""
    alpha = np.array(_LOOKED_AT)
    allowed = "a trade-off function, 0 <= f(alpha) <= 1 - alpha"
    try:
        values = call(lambda: np.asarray([claim.lower(alpha), claim(alpha)], np.float64))
        delta = call(lambda: float(claim.delta(0.0, Side.ABOVE)))
    except Misbehaved as fault:
        raise InvalidInput("target", owner, allowed, f"it {fault}") from None
    above = 1.0 - alpha + _ROUNDED
    sound = values.shape == (2, alpha.size) and ((values >= 0.0) & (values <= above)).all() and 0.0 <= delta <= 1.0
    if not sound:
        raise InvalidInput("target", owner, allowed, "it is none at some alpha")
