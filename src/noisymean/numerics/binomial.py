r"""The binomial law as a short list of nodes and weights.

A sum over all batch sizes, sum_k Bin(k; N, q) F(k), is needed with N up to 10^9. Three devices:

- **enumerate** the sizes that carry all but 1e-18 of the mass (Bernstein's inequality says which);
- take every m-th size, m about a twelfth of the deviation: a **lattice**. For the functions F that explicit pairs need it is
  off by less than 1e-290 (docs/numerics.md, "Every m-th size", has the proof), so that even far tails keep their digits;
- where F varies slowly over a standard deviation, use the **Gauss rule of the binomial law** itself
  (orthogonal polynomials: Krawtchouk's, recurrence coefficients in closed form; Golub and Welsch 1969).
  With m nodes it integrates every polynomial in k of degree 2m - 1 exactly. For F(k) = Phi(z0 + r xi),
  xi = (k - Nq)/sd, the coefficient of F at degree j decays like (r^2/(1+r^2))^(j/2), so the error is of the
  order (r^2/(1+r^2))^m, which is how m is chosen. `roughness` is the caller's bound on r.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh_tridiagonal
from scipy.special import gammaln

from noisymean.numerics.logs import Array, log1pmx

_DROPPED_MASS = 1e-18
_GAUSS_ERROR = 1e-15
# What a Gauss rule is charged with (measured errors: docs/numerics.md).
_GAUSS_SLACK = 1e-12
# The Gauss rule is used only where the law has settled to its smooth shape.
_LEAST_DEVIATION_FOR_GAUSS = 6.0
# Sizes rarer than this together are never missed where P is small because Q is: e^700 of it is still nothing.
NEVER_MISSED = 1e-300
# What a lattice misses where nothing may be missed, and how many nats more both of its errors are kept below.
LATTICE_ERROR, _LATTICE_ROOM = 1e-290, 22.0
_HALF_LOG_TWO_PI = 0.9189385332046727


class Nodes(NamedTuple):
    """sum_k Bin(k) F(k) = sum_i weights[i] F(sizes[i]), up to `slack` times the range of F."""

    sizes: Array
    weights: Array
    slack: float


def deviation(count: int, rate: float) -> float:
    """Standard deviation of Bin(count, rate)."""
    return math.sqrt(count * rate * (1.0 - rate))


def small_size(count: int, rate: float) -> float:
    """A size three deviations below the mean, at least 1: where functions of 1/size are at their roughest."""
    return max(count * rate - 3.0 * deviation(count, rate), 1.0)


def effective_range(count: int, rate: float, dropped: float = _DROPPED_MASS) -> tuple[int, int]:
    """First and last size outside of which Bin(count, rate) has mass below `dropped` (Bernstein)."""
    nats = math.log(2.0) - math.log(dropped)
    width = nats / 3.0 + math.sqrt(nats * nats / 9.0 + 2.0 * nats * count * rate * (1.0 - rate))
    mean = count * rate
    return max(0, math.floor(mean - width)), min(count, math.ceil(mean + width))


def pmf(sizes: Array, count: int, rate: float) -> Array:
    """Bin(sizes; count, rate) to near full relative precision at any count (Loader 2000)."""
    sizes = np.asarray(sizes, dtype=np.float64)
    if not 0.0 < rate < 1.0 or count == 0:
        return np.where(sizes == (count if rate >= 1.0 else 0), 1.0, 0.0)
    rest = count - sizes
    inner = (sizes > 0) & (rest > 0)
    k, r = np.where(inner, sizes, 1.0), np.where(inner, rest, 1.0)
    shift = np.where(inner, sizes - count * rate, 0.0)
    log_mass = -(
        _deviance(shift / (count * rate)) * (count * rate)
        + _deviance(-shift / (count * (1.0 - rate))) * (count * (1.0 - rate))
    )
    log_mass = log_mass + _stirling_error(count) - _stirling_error(k) - _stirling_error(r)
    log_mass = log_mass - _HALF_LOG_TWO_PI + 0.5 * (math.log(count) - np.log(k) - np.log(r))
    edge = np.where(sizes <= 0, count * math.log1p(-rate), count * math.log(rate))
    return np.exp(np.where(inner, log_mass, edge))


def _deviance(e: Array) -> Array:
    """(1 + e) log(1 + e) - e, without cancellation."""
    return np.asarray((1.0 + e) * log1pmx(e) + e * e, dtype=np.float64)


def _stirling_error(size: ArrayLike) -> Array:
    """log k! minus Stirling's formula."""
    k = np.asarray(size, dtype=np.float64)
    with np.errstate(over="ignore"):
        i = 1.0 / k
        series = i * (1 / 12 - i * i * (1 / 360 - i * i * (1 / 1260 - i * i * (1 / 1680 - i * i / 1188))))
    if np.all(k > 30.0):
        return np.asarray(series)
    direct = gammaln(k + 1.0) - (k + 0.5) * np.log(k) + k - _HALF_LOG_TWO_PI
    return np.where(k > 30.0, series, direct)


@lru_cache(maxsize=8)
def enumerated(count: int, rate: float, dropped: float = _DROPPED_MASS) -> Nodes:
    """Every size that matters, one node each."""
    first, last = effective_range(count, rate, dropped)
    sizes = np.arange(first, last + 1, dtype=np.float64)
    weights = pmf(sizes, count, rate)
    for kept in (sizes, weights):
        # whoever asks next gets the same
        kept.flags.writeable = False
    return Nodes(sizes, weights, 0.0 if last - first == count else dropped)


def lattice(count: int, rate: float, steepness: float, error: float = LATTICE_ERROR) -> Nodes:
    """Every m-th size with m times its weight, for F a cell's mass under N(a, b/k^2), or N(a k, b): off by less than `error`.

    `steepness` bounds how many of its deviations a threshold of F moves when the size changes by one. Where m would be 1, or an
    empty batch, which has a denominator of its own, is possible at all, every size is a node.
    """
    variance, dropped = count * rate * (1.0 - rate), max(1e-10 * error, NEVER_MISSED)
    nats = _LATTICE_ROOM - math.log(error)
    if min(variance, count * rate) > nats:
        # the two ways in which the sum over every m-th size can miss: docs/numerics.md
        widest = min(math.pi / math.acos(1.0 - nats / variance), math.pi / (math.sqrt(2.0 * nats) * steepness))
        if widest >= 2.0:
            stride, (first, last) = math.floor(widest), effective_range(count, rate, dropped)
            sizes = np.arange(max(first, 1), last + 1, stride, dtype=np.float64)
            return Nodes(sizes, stride * pmf(sizes, count, rate), error)
    return enumerated(count, rate, dropped)


def grouped(count: int, rate: float, most: int) -> tuple[Array, Array, Array, float]:
    """(smallest size, largest size, mass, left out) of about `most` groups of neighbouring sizes: for monotone bounds."""
    every = enumerated(count, rate)
    width = -(-every.sizes.size // most)
    # size 0, whose denominator is 1 by convention, is a group of its own
    alone = int(every.sizes[0] == 0.0)
    starts = np.concatenate([np.arange(alone), np.arange(alone, every.sizes.size, width)])
    ends = np.append(starts[1:], every.sizes.size) - 1
    return every.sizes[starts], every.sizes[ends], np.add.reduceat(every.weights, starts), every.slack


def nodes(count: int, rate: float, roughness: float) -> Nodes:
    """The cheaper of the two devices of this module's docstring, for an F no rougher than `roughness`."""
    spread = deviation(count, rate)
    first, last = effective_range(count, rate)
    ratio = roughness * roughness / (1.0 + roughness * roughness)
    if spread < _LEAST_DEVIATION_FOR_GAUSS or not ratio < 0.999:
        return enumerated(count, rate)
    # half as many again: the rate is that of a normal F, and a skew one converges more slowly
    order = 5 + math.ceil(1.5 * math.log(_GAUSS_ERROR) / math.log(max(ratio, 1e-12)))
    if order * 3 > last - first:
        return enumerated(count, rate)
    return _gauss(count, rate, order, _GAUSS_SLACK)


def _gauss(count: int, rate: float, order: int, slack: float) -> Nodes:
    """Golub and Welsch: nodes are eigenvalues of the recurrence, weights the squared first components."""
    spread = deviation(count, rate)
    degree = np.arange(order, dtype=np.float64)
    diagonal = degree * (1.0 - 2.0 * rate) / spread
    squares = degree[1:] * (1.0 - (degree[1:] - 1.0) / count)
    abscissae, vectors = eigh_tridiagonal(diagonal, np.sqrt(squares))
    return Nodes(count * rate + spread * abscissae, vectors[0] ** 2, slack)
