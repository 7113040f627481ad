"""Logarithms that keep their digits when the naive formula cancels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
Value = TypeVar("Value", float, Array)

LOG_2 = 0.6931471805599453

_LEAST_LOG = -700.0
# Sums of no more terms than the first are added up as they stand; else x is cut into pieces, and what is e^-_LEFT_OUT of a sum is
# left out of it.
_FEW_TERMS, _PIECES, _LEFT_OUT = 1 << 16, 96, 42.0
# Below this |x| the Taylor series converge to full precision in _terms(|x|) terms.
_SERIES_RADIUS = 0.125


def _terms(radius: float) -> int:
    """How many terms of a power series in a variable of at most `radius` reach 1e-18."""
    return 2 + math.ceil(18.0 / -math.log10(min(max(radius, 1e-18), _SERIES_RADIUS)))


def log1pmx(x: ArrayLike) -> Array:
    """log(1 + x) - x, to full relative precision; never positive."""
    x = np.asarray(x, dtype=np.float64)
    if x.size == 1 and abs(one := x.item()) < _SERIES_RADIUS:
        return np.full(x.shape, _series_of_log1pmx(one, abs(one)))
    small = np.abs(x) < _SERIES_RADIUS
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.log1p(x) - x
    if not small.any():
        return np.asarray(direct, dtype=np.float64)
    z = np.where(small, x, 0.0)
    return np.asarray(np.where(small, _series_of_log1pmx(z, float(np.max(np.abs(z)))), direct), dtype=np.float64)


def _series_of_log1pmx(z: Value, radius: float) -> Value:
    """-z^2 (1/2 - z/3 + z^2/4 - ...), Horner from the last term, |z| <= radius."""
    series = 0.0 * z
    for power in range(_terms(radius) + 2, 1, -1):
        series = 1.0 / power - z * series
    return -z * z * series


def x_minus_arctan(x: ArrayLike) -> Array:
    """x - arctan(x), to full relative precision."""
    x = np.asarray(x, dtype=np.float64)
    square = np.square(x)
    small = square < _SERIES_RADIUS**2
    z = np.where(small, square, 0.0)
    series = np.zeros_like(z)
    for power in range(2 * _terms(float(np.max(z))) + 3, 1, -2):
        series = 1.0 / power - z * series
    return np.asarray(np.where(small, x * z * series, x - np.arctan(x)), dtype=np.float64)


def log1p_complex(real: Array, imag: Array) -> ComplexArray:
    """log(1 + real + i imag), without cancellation for small arguments; a zero becomes e^-700, whose powers are numbers too."""
    with np.errstate(divide="ignore", invalid="ignore"):
        near = 0.5 * np.log1p(real * (2.0 + real) + imag * imag)
        far = np.log(np.hypot(1.0 + real, imag))
    size = np.maximum(np.where(real > -0.5, near, far), _LEAST_LOG)
    return np.asarray(size + 1j * np.arctan2(imag, 1.0 + real))


def log_mean_exp(rate: float, x: ArrayLike) -> Array:
    """log(1 - rate + rate e^x), to full relative precision however small the rate or x is; 0 < rate < 1."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore"):
        gain = rate * np.expm1(x)
    small = np.abs(gain) <= 0.5
    if small.all():
        return np.asarray(np.log1p(gain))
    near = np.log1p(np.maximum(np.minimum(gain, 1.0), -0.5))
    return np.asarray(np.where(small, near, np.logaddexp(math.log1p(-rate), math.log(rate) + x)))


def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(x)) for x <= 0: the logarithm of the complement of a probability."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x > -LOG_2, np.log(-np.expm1(x)), np.log1p(-np.exp(x))))


def log_difference(larger: ArrayLike, smaller: ArrayLike) -> Array:
    """log(exp(larger) - exp(smaller)); -inf where the difference is not positive."""
    larger = np.asarray(larger, dtype=np.float64)
    smaller = np.asarray(smaller, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isneginf(smaller), -np.inf, smaller - larger)
    return np.where(gap < 0.0, larger + log1mexp(np.minimum(gap, 0.0)), -np.inf)


def log_weighted_sum(log_weights: Array, log_values: Array) -> Array:
    """log sum_i exp(log_weights[i] + log_values[i, ...]) over the first axis."""
    terms = log_values + log_weights.reshape((-1,) + (1,) * (log_values.ndim - 1))
    top = np.max(terms, axis=0)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(safe + np.log(np.sum(np.exp(terms - safe), axis=0)), dtype=np.float64)


def log_of_sum(x: Array, count: int, terms: Callable[[Array, slice], Array]) -> Array:
    """log of the sum of e^term over `count` terms at each of the rising x; `terms(x, which)` has a row for each x.

    Two terms must differ by a linear function of x. What is 42 nats and log(count) less than another term at both ends of a
    piece of the line is so in between, and such terms together are less than e^-42 of the sum.
    """

    def added(part: Array, which: slice) -> Array:
        each = terms(part, which)
        top = each.max(axis=1)
        return np.asarray(top + np.log(np.exp(each - top[:, None]).sum(axis=1)))

    if x.size * count <= _FEW_TERMS or x.size <= 2 * _PIECES:
        return added(x, slice(None))
    ends = np.linspace(0, x.size - 1, _PIECES + 1).astype(np.int64)
    at_ends = terms(x[ends], slice(None))
    # the largest in the middle of each piece
    largest = np.argmax(at_ends[1:] + at_ends[:-1], axis=1)[:, None]
    less = [side - np.take_along_axis(side, largest, axis=1) for side in (at_ends[:-1], at_ends[1:])]
    kept = np.maximum(*less) >= -_LEFT_OUT - math.log(count)
    first, last = np.argmax(kept, axis=1), count - np.argmax(kept[:, ::-1], axis=1)
    found = np.empty_like(x)
    for piece in range(_PIECES):
        part = slice(int(ends[piece]), int(ends[piece + 1]) + 1)
        found[part] = added(x[part], slice(int(first[piece]), int(last[piece])))
    return found
