r"""N(0, I_n) against N(m, s^2 I_n), exactly, and mixtures of such pairs with a revealed index.

Notation. mu = |m|, a = 1 - s^2, c = a/s^2. Completing the square in the loss l = log dQ/dP leaves one statistic,

    R = |x - m/a|^2,      l = mu^2/(2a) - n log s - (c/2) R,

so for s < 1 the optimal test says Q when R is small, for s > 1 when it is large. Under P, R is noncentral chi-square with
n degrees of freedom and noncentrality mu^2/a^2; under Q, R/s^2 is, with noncentrality mu^2 s^2/a^2. The paper calls this
curve infeasible to compute and uses a central limit theorem; here it is two tails of one contour integral.

As s -> 1 the noncentrality grows like 1/a^2 and R is all cancellation. Distances from the two means,

    E_P[l] = -(n (c - log(1+c)) + mu^2/s^2)/2,      E_Q[l] = (n (-a - log(1-a)) + mu^2)/2,

are not: y - E[y] = -(t - E_P[l])/c under P and -(t - E_Q[l])/a under Q, and they are all that the tails need. For the same
reason the scale is held as log s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from noisymean.cumulants import ECHO, Cumulants, Line, Moments
from noisymean.errors import check_number
from noisymean.laws.closed import Identity
from noisymean.numerics.chi_square import log_tails, saddle
from noisymean.numerics.logs import Array, ComplexArray, log1p_complex, log1pmx, log_weighted_sum, x_minus_arctan
from noisymean.tradeoff import Tails, TradeOff

# (pairs x thresholds) evaluated at once.
_WORK = 1 << 20


@final
@dataclass(frozen=True, eq=False)
class GaussianPairs(TradeOff):
    """sum_i weights[i] T(N(0, I_n), N(shifts[i], s_i^2 I_n)), the index i revealed."""

    dimension: int
    weights: Array
    shifts: Array
    log_scales: Array
    left_out: float = 0.0

    @property
    def slack(self) -> float:
        return self.left_out

    @property
    def terms(self) -> int:
        return int(self.weights.size)

    def tails(self, t: Array) -> Tails:
        t = np.asarray(t, dtype=np.float64)
        flat = t.ravel()
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)
        chunk = max(1, _WORK // self.weights.size)
        parts = []
        for start in range(0, flat.size, chunk):
            sides = _pair_tails(
                flat[None, start : start + chunk], self.dimension, self.shifts[:, None], self.log_scales[:, None]
            )
            parts.append([log_weighted_sum(logs, side) for side in sides])
        if not parts:
            return Tails(*(np.empty_like(t) for _ in range(4)))
        return Tails(*(np.minimum(np.concatenate(side), 0.0).reshape(t.shape) for side in zip(*parts, strict=True)))

    def power(self, count: int) -> GaussianPairs | None:
        """Closed for a single pair: n and mu^2 are multiplied by `count`."""
        possible = self.weights > 0.0
        if np.count_nonzero(possible) != 1:
            return None
        shifts = self.shifts[possible] * np.sqrt(count)
        if not shifts.any() and not self.left_out:
            power = across_only(self.dimension * count, float(self.log_scales[possible][0]))
            return power if isinstance(power, GaussianPairs) else None
        return GaussianPairs(self.dimension * count, np.ones(1), shifts, self.log_scales[possible], self.left_out)

    @cached_property
    def cumulants(self) -> Cumulants | None:
        """Closed for each component; None where they have several scales."""
        if np.ptp(self.log_scales) > 0.0:
            return None
        possible = self.weights > 0.0
        return GaussianPairCumulants(
            float(self.dimension),
            self.weights[possible],
            self.shifts[possible],
            float(self.log_scales[0]),
            self.left_out,
        )


def gaussian_pair(
    dimension: int, shift: float, scale: float | None = None, *, log_scale: float | None = None
) -> TradeOff:
    """T(N(0, I_n), N(m, s^2 I_n)) with |m| = shift and s = scale (or its logarithm, exact near s = 1).

    >>> round(float(gaussian_pair(dimension=20, shift=0.8, scale=0.8)(0.1)), 6)
    0.389772
    """
    check_number("dimension", dimension, least=0)
    check_number("shift", shift, least=0.0)
    if log_scale is None:
        check_number("scale", 0.0 if scale is None else scale, above=0.0)
        log_scale = float(np.log(scale))  # type: ignore[arg-type]
    if dimension == 0:
        return Identity()
    return GaussianPairs(dimension, np.ones(1), np.array([float(shift)]), np.array([float(log_scale)]))


@lru_cache(maxsize=64)
def across_only(dimension: int, log_scale: float) -> TradeOff:
    """A change of scale alone; the same object each time, so that sums over rounds know it again."""
    return gaussian_pair(dimension, 0.0, log_scale=log_scale)


def _pair_tails(t: ArrayLike, dimension: int, shift: ArrayLike, log_scale: ArrayLike) -> Tails:
    """The four log tails of single pairs, all arguments broadcast."""
    t, shift, log_scale = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (t, shift, log_scale)))
    same = log_scale == 0.0
    if same.all():
        return _shift_only(t, shift)
    safe = np.where(same, -1.0, log_scale)
    a, c = -np.expm1(2.0 * safe), np.expm1(-2.0 * safe)
    square = shift * shift
    mean_p = 0.5 * (dimension * log1pmx(c) - square * np.exp(-2.0 * safe))
    mean_q = 0.5 * (square - dimension * log1pmx(-a))
    k = 0.5 * dimension
    half_noncentrality = 0.5 * np.square(shift / a)
    with np.errstate(over="ignore"):
        b, tilt_p = saddle(k, half_noncentrality, -(t - mean_p) / c)
        _, tilt_q = saddle(k, half_noncentrality * np.exp(2.0 * safe), -(t - mean_q) / a)
    # the two tilts differ by 2 log s exactly, and far from both means that is the better way to the second one
    with np.errstate(invalid="ignore"):
        tilt_q = np.where(np.abs(tilt_p) > 0.5, tilt_p + 2.0 * safe, tilt_q)
    # they may leave the range of R, or what is told of it, at different roundings of t
    for end in (np.inf, -np.inf):
        outside = (tilt_p == end) | (tilt_q == end)
        tilt_p, tilt_q = np.where(outside, end, tilt_p), np.where(outside, end, tilt_q)
    (p_low, p_high), (q_low, q_high) = log_tails(k, b, tilt_p, tilt_q)
    small_says_q = safe < 0.0
    result = Tails(
        np.where(small_says_q, p_low, p_high),
        np.where(small_says_q, p_high, p_low),
        np.where(small_says_q, q_low, q_high),
        np.where(small_says_q, q_high, q_low),
    )
    if not same.any():
        return result
    plain = _shift_only(t, shift)
    return Tails(*(np.where(same, left, right) for left, right in zip(plain, result, strict=True)))


def _shift_only(t: Array, shift: Array) -> Tails:
    """s = 1: G_mu, elementwise; mu = 0 is the identity."""
    flat = Identity().tails(t)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z, half = t / shift, 0.5 * shift
        bent = (log_ndtr(-z - half), log_ndtr(z + half), log_ndtr(half - z), log_ndtr(z - half))
    return Tails(*(np.where(shift > 0.0, curved, straight) for curved, straight in zip(bent, flat, strict=True)))


@final
@dataclass(frozen=True, eq=False)
class GaussianPairCumulants(Cumulants):
    """N(0, I_n) against N(m, s^2 I_n), mixed over a revealed index: K = log sum_i w_i exp K_i, each K_i closed.

    With c = s^-2 - 1 and S = 1 + c theta, K_i = (n/2) (theta log(1+c) - log S) - mu^2 theta (1-theta) / (2 s^2 S).
    """

    dimension: float
    weights: Array
    shifts: Array
    log_scale: float
    missed: float = 0.0

    @property
    def left_out(self) -> float:
        return self.missed

    @cached_property
    def _c(self) -> float:
        return float(np.expm1(-2.0 * self.log_scale))

    @cached_property
    def _log1pmc(self) -> float:
        """log(1 + c) - c."""
        return float(log1pmx(self._c))

    @cached_property
    def _squares(self) -> Array:
        return np.square(self.shifts) * math.exp(-2.0 * self.log_scale)

    @cached_property
    def _log_weights(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights))

    @property
    def echo(self) -> float:
        if self.weights.size == 1:
            return 1.0
        return max(1.0, ECHO * float(np.max(self.shifts)) * math.exp(-self.log_scale))

    @property
    def domain(self) -> tuple[float, float]:
        c = self._c
        if c == 0.0:
            return -np.inf, np.inf
        return (-1.0 / c, np.inf) if c > 0.0 else (-np.inf, -1.0 / c)

    def _one(self, theta: Array) -> tuple[Array, Array, Array]:
        """K_i, K_i', K_i'' with the components on the last axis."""
        c, constant, square = self._c, self._log1pmc, self._squares
        theta = theta[..., None]
        big = 1.0 + c * theta
        half = 0.5 * self.dimension
        # theta log(1+c) - log(1 + c theta), both second order at theta = 0 and 1
        scale = half * (theta * constant - log1pmx(c * theta))
        value = scale - 0.5 * square * theta * (1.0 - theta) / big
        slope = half * (constant + c * c * theta / big) - 0.5 * square * (1.0 - 2.0 * theta - c * theta**2) / big**2
        curvature = half * np.square(c / big) + square * (1.0 + c) / big**3
        return value, slope, curvature

    def moments(self, theta: Array) -> Moments:
        value, slope, curvature = self._one(theta)
        if self.weights.size == 1:
            return Moments(*(np.asarray(one[..., 0]) for one in (self._log_weights + value, slope, curvature)))
        weights, log_total = self._responsibilities(value)
        mean = np.sum(weights * slope, axis=-1)
        variance = np.sum(weights * (curvature + np.square(slope - mean[..., None])), axis=-1)
        return Moments(log_total, mean, variance)

    def _responsibilities(self, value: Array) -> tuple[Array, Array]:
        exponent = self._log_weights + value
        top = exponent.max(axis=-1)
        weights = np.exp(exponent - top[..., None])
        total = weights.sum(axis=-1)
        return weights / total[..., None], top + np.log(total)

    def remainder(self, theta: Array, line: Line) -> ComplexArray:
        c, square = self._c, self._squares
        big = (1.0 + c * theta)[..., None]
        tau = line.tau[..., None]
        z = c * tau / big
        z2 = z * z
        half = 0.5 * self.dimension
        # scale part: -(n/2) (log(1 + iz) - iz)
        real = -0.5 * half * np.log1p(z2)
        imag = half * x_minus_arctan(z)
        # shift part: with g(theta) = theta(1-theta)/S, g(theta + i tau) - g - i tau g' = tau^2 (1+c)/S^3 / (1 + iz)
        bend = 0.5 * square * (1.0 + c) * np.square(tau) / (big**3 * (1.0 + z2))
        real, imag = real - bend, imag + bend * z
        if self.weights.size == 1:
            return np.asarray((real + 1j * imag)[..., 0])
        # sum_i w_i exp(R_i + i tau (slope_i - mean)) - 1, then its logarithm
        value, slope, _ = self._one(theta)
        weights, _ = self._responsibilities(value)
        mean = np.sum(weights * slope, axis=-1)
        angle = imag + tau * (slope - mean[..., None])
        growth = np.expm1(real)
        versine = 2.0 * np.square(np.sin(0.5 * angle))
        total_real = np.sum(weights * (growth - (1.0 + growth) * versine), axis=-1)
        total_imag = np.sum(weights * (1.0 + growth) * np.sin(angle), axis=-1)
        return log1p_complex(total_real, total_imag)
