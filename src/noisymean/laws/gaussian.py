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

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from noisymean.errors import check_number
from noisymean.laws.closed import Identity
from noisymean.numerics.chi_square import log_tails, saddle
from noisymean.numerics.logs import Array, log1pmx, log_weighted_sum
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

    def power(self, count: int) -> GaussianPairs:
        """The tensor power; closed for a single pair: n and mu^2 are multiplied by `count`."""
        if self.weights.size != 1:
            raise ValueError(f"components={self.weights.size}: the tensor power is closed for one component only")
        return GaussianPairs(
            self.dimension * count, self.weights, self.shifts * np.sqrt(count), self.log_scales, self.left_out
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
