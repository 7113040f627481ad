r"""The dimensions across a line: a change of scale alone, tabulated, and a loss on the line added to it.

When x1 and the rest of the output are independent, the loss is l1(x1) + l_perp(rho), and l_perp is that of a scale-only Gaussian
pair in n - 1 dimensions, closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import gammaln, ndtr, ndtri_exp

from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.numerics.chi_square import log_tails
from noisymean.numerics.inversion import solve_decreasing
from noisymean.numerics.logs import Array, log1mexp
from noisymean.tradeoff import Tails, TradeOff

# (nodes x thresholds) evaluated at once
_WORK = 1 << 18
_TABLE = 1201
# Tails are tabulated down to e^-90.
_END = 90.0
# Thresholds from which on e^-|t| nears the least double, up to where a double can tell e^t P from Q, and the ulps of t lost.
_HIGH, _FARTHEST, _ULPS = 600.0, 1e14, 4e-15
# Below so many degrees of freedom the end of the loss is felt, and a table follows the logarithm of the distance to it.
_MANY_DEGREES = 4096
# With log s below this and many degrees of freedom the losses under P and Q are too far apart for one table of both.
_FAR_APART = -0.3
# log of the mean of a chi-square law over a value that counts as small, and over one that is as good as 0.
_BEND, _NEXT_TO_ZERO = 4.0, 36.0


@final
@dataclass(frozen=True, eq=False)
class LossOnLine(TradeOff):
    """Loss l1 with finitely many values, plus the independent loss of `across`: tails are a weighted sum of shifted tails.

    `left_out` is mass that l1 does not account for, under P or Q: it is added to both errors of every test, whatever e^t makes
    of it. `short` is what P or Q lacks where cells were rounded (module `cells`). `rule_error` is that of a trapezoidal rule over
    nodes, as a share of min(1, e^t).
    """

    losses: Array
    p: Array
    q: Array
    across: TabulatedPair
    left_out: float = 0.0
    rule_error: float = 0.0
    short: tuple[float, float] = (0.0, 0.0)

    @property
    def slack(self) -> float:
        return self.rule_error

    @property
    def terms(self) -> int:
        # a node costs less than a term of closed form
        return max(1, int(self.losses.size) // 32)

    @property
    def relative_error(self) -> float:
        return self.across.relative_error

    @property
    def masses(self) -> tuple[float, float]:
        return math.fsum(self.p) + self.left_out, math.fsum(self.q) + self.left_out

    def tails(self, t: Array) -> Tails:
        t = np.asarray(t, dtype=np.float64)
        flat = t.ravel()
        sides = np.empty((4, flat.size))
        chunk = max(1, _WORK // self.losses.size)
        for start in range(0, flat.size, chunk):
            part = slice(start, start + chunk)
            p_above, p_below, q_above, q_below = self.across.probabilities(flat[None, part] - self.losses[:, None])
            sides[:, part] = self.p @ p_above, self.p @ p_below, self.q @ q_above, self.q @ q_below
        with np.errstate(divide="ignore"):
            logs = np.minimum(np.log(sides), 0.0)
        self._keep_what_underflows(flat, logs)
        if self.left_out > 0.0:
            logs[[0, 3]] = np.logaddexp(logs[[0, 3]], math.log(self.left_out))
        return Tails(*logs.reshape((4, *t.shape)))

    def _keep_what_underflows(self, t: Array, logs: Array) -> None:
        """P[l > t] and Q[l <= t] where they are too small for a double: taken as zero they would make delta too large.

        That is so for large t and -t, and in many dimensions wherever the losses under P and Q are far apart. With l = l_i on the
        line and u = t - l_i across it, e^t P[l > t] = sum_i q_i e^u P[across > u]: no factor exceeds 1, and what lies outside of
        the nodes is at most their Q.
        """
        chunk = max(1, _WORK // self.losses.size)
        for small, weights, sign in ((0, self.q, 1.0), (3, self.p, -1.0)):
            far = np.flatnonzero(((sign * t > _HIGH) | (logs[small] < -_HIGH)) & (np.abs(t) < _FARTHEST))
            for start in range(0, far.size, chunk):
                part = far[start : start + chunk]
                grown = self.across.log_grown_tail(t[None, part] - self.losses[:, None], sign)
                with np.errstate(divide="ignore"):
                    total = np.logaddexp.reduce(np.log(weights)[:, None] + grown, axis=0)
                logs[small, part] = total - sign * t[part] + _ULPS * np.abs(t[part])


@final
@dataclass(frozen=True)
class TabulatedPair(TradeOff):
    """T(N(0, I_m), N(0, s^2 I_m)) for s < 1, its tails read off a spline of their normal quantiles: 20 times faster.

    The loss has an upper end, -m log s; in few dimensions the quantile is singular there and the logarithm of the distance
    to it is the smooth coordinate, in many it is the loss itself.
    """

    dof: int
    log_scale: float

    @property
    def relative_error(self) -> float:
        """Of the smaller tail, read off the splines (measured: docs/numerics.md)."""
        far_apart = self.log_scale < _FAR_APART and not self._few
        return 1e-6 if far_apart else 2e-8

    @property
    def _top(self) -> float:
        return -self.dof * self.log_scale

    @property
    def _few(self) -> bool:
        return self.dof < _MANY_DEGREES

    def _coordinate(self, t: Array) -> Array:
        return -np.log(np.maximum(self._top - t, 1e-300)) if self._few else t

    @cached_property
    def _exact(self) -> TradeOff:
        return gaussian_pair(self.dof, 0.0, log_scale=self.log_scale)

    @cached_property
    def _ends(self) -> Array:
        """Thresholds outside of which P, and Q, see the loss with less than e^-90: a row for each of the two."""
        odds = np.array([_END, -_END])
        under_p = solve_decreasing(lambda t: np.subtract(*self._exact.tails(t)[:2]), odds)
        under_q = solve_decreasing(lambda t: np.subtract(*self._exact.tails(t)[2:]), odds)
        return np.stack([under_p, under_q])

    @cached_property
    def _nodes(self) -> tuple[Array, Array, Tails]:
        """Coordinates, thresholds and the tails there, from where P has e^-90 left to where Q has."""
        ends = self._ends
        if not self._few:
            t = np.linspace(ends[:, 0].min(), ends[:, 1].max(), _TABLE)
            return t, t, self._exact.tails(t)
        # with r/2 = y under P the loss is -m log s - c y, and t next to its end no longer knows y
        k, c = 0.5 * self.dof, math.expm1(-2.0 * self.log_scale)
        first = float(self._coordinate(ends[:, 0].min()))
        # Q[y <= u] < (u/s^2)^k / Gamma(1 + k)
        last = -math.log(c) - 2.0 * self.log_scale + (_END - float(gammaln(1.0 + k))) / k
        # the tails bend where y is about its mean, over a range that is short beside the rest
        bend = min(_BEND - math.log(c * k), 0.5 * (first + last))
        x = np.concatenate([np.linspace(first, bend, _TABLE), np.linspace(bend, last, _TABLE)[1:]])
        tilt = x + math.log(c * k)
        p, q = (_central_tails(k, one) for one in (tilt, tilt + 2.0 * self.log_scale))
        return x, self._top - np.exp(-x), Tails(*p, *q)

    @cached_property
    def _table(self) -> tuple[Array, CubicSpline]:
        """The two ends, and between them the normal quantiles of P[l > t] and Q[l > t]."""
        x, _, tails = self._nodes
        quantiles = [
            np.where(above < below, ndtri_exp(above), -ndtri_exp(below))
            for above, below in ((tails.p_above, tails.p_below), (tails.q_above, tails.q_below))
        ]
        return x[[0, -1]], CubicSpline(x, np.stack(quantiles, axis=-1))

    @cached_property
    def _ratios(self) -> tuple[CubicSpline, CubicSpline]:
        """log of e^t P[l > t] / Q[l > t] where Q sees the loss, and of e^-t Q[l <= t] / P[l <= t] where P does."""
        if self._few:
            x, t, tails = self._nodes
            return CubicSpline(x, t + tails.p_above - tails.q_above), CubicSpline(x, tails.q_below - t - tails.p_below)
        by_p, by_q = (np.linspace(low, high, _TABLE) for low, high in self._ends.tolist())
        p, q = self._exact.tails(by_p), self._exact.tails(by_q)
        return CubicSpline(by_q, by_q + q.p_above - q.q_above), CubicSpline(by_p, p.q_below - by_p - p.p_below)

    def probabilities(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """P[l > t], P[l <= t], Q[l > t], Q[l <= t]."""
        ends, spline = self._table
        x = np.clip(self._coordinate(t), *ends)
        inside = (x > ends[0]) & (x < ends[1])
        if np.count_nonzero(inside) < 0.5 * x.size:
            quantiles = np.zeros((*x.shape, 2))
            quantiles[inside] = spline(x[inside])
        else:
            quantiles = spline(x)
        # outside, the smaller tails are taken for none: both at once, so that an attacker only loses by it
        quantiles[x >= ends[1]] = -np.inf
        quantiles[x <= ends[0]] = np.inf
        # the smaller tail has all of its digits, and so has what is left of 1
        small = ndtr(-np.abs(quantiles))
        large = 1.0 - small
        above, below = np.where(quantiles < 0.0, small, large), np.where(quantiles < 0.0, large, small)
        return above[..., 0], below[..., 0], above[..., 1], below[..., 1]

    def log_grown_tail(self, t: Array, sign: float) -> Array:
        """log of e^t P[l > t] for sign 1, of e^-t Q[l <= t] for -1: beside Q[l > t] and P[l <= t], whatever their size."""
        _, p_below, q_above, _ = self.probabilities(t)
        large, ratio = (q_above, self._ratios[0]) if sign > 0.0 else (p_below, self._ratios[1])
        # beyond the table one of the two is below e^-90, and neither tail exceeds 1
        inside = np.clip(self._coordinate(t), ratio.x[0], ratio.x[-1])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(large) + np.minimum(ratio(inside), np.minimum(sign * t, 0.0)))

    def tails(self, t: Array) -> Tails:
        with np.errstate(divide="ignore"):
            return Tails(*(np.log(side) for side in self.probabilities(np.asarray(t, dtype=np.float64))))


def _central_tails(k: float, tilt: Array) -> tuple[Array, Array]:
    """log P[Y <= y], log P[Y > y] for 2Y ~ chi-square with 2k degrees of freedom, y = k e^-tilt."""
    near = np.minimum(tilt, _NEXT_TO_ZERO)
    ((below, above),) = log_tails(k, 0.0, near)
    # y^k / Gamma(1 + k), off by a factor of 1 - y
    tiny = k * (math.log(k) - tilt) - float(gammaln(1.0 + k))
    below = np.where(tilt < _NEXT_TO_ZERO, below, tiny)
    return below, np.where(tilt < _NEXT_TO_ZERO, above, log1mexp(np.minimum(tiny, -1e-300)))


@lru_cache(maxsize=64)
def tabulated(dof: int, log_scale: float) -> TabulatedPair:
    """The table of one pair, made once."""
    return TabulatedPair(dof, log_scale)


def loss_in_cells(line: FiniteOutcomes, dof: int, log_scale: float) -> TradeOff:
    """The attacker is told the cell of x1, and rho. A cell that one of the measures does not have adds nothing to delta."""
    if dof == 0 or log_scale == 0.0:
        return line
    seen = (line.p > 0.0) & (line.q > 0.0)
    p, q = line.p[seen], line.q[seen]
    if log_scale < 0.0:
        return LossOnLine(np.log(q) - np.log(p), p, q, tabulated(dof, log_scale), short=line.short)
    # the other way round, in units of the noise of D'
    return LossOnLine(np.log(p) - np.log(q), q, p, tabulated(dof, -log_scale), short=line.short[::-1]).inverse()
