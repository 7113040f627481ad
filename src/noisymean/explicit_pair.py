r"""Explicit pairs of datasets, and exactly what an attacker who knows them achieves: certified leakage.

When every gradient is a multiple of one unit vector u, the output of a round is a mixture over the hidden batch of
N(mean u, scale^2 I_n), on D and on D' alike, and (x1, rho) = (x.u, |x - x1 u|^2) is sufficient. Two cases:

- **one scale on each side** (EASGM, FEASGM): x1 and rho are independent, so the loss is l1(x1) + l_perp(rho), and l_perp is
  the loss of a scale-only Gaussian pair in n - 1 dimensions, closed form.
- **a scale for each batch size** (ASGM): cut the (x1, rho) plane into cells and tell the attacker the cell only.

Either way the attacker is given *no more* than the real output, a post-processing of it, so the curve that comes out is
never below T(M(D), M(D')): an upper bound on every guarantee. Cutting x1 into cells is a post-processing too; the trapezoidal
rule, used where the integrand is smooth enough for it to be exact, only saves time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import chdtr, chdtrc, gammainc, gammaincc, gammaln, ndtr, ndtri, ndtri_exp

from noisymean.gaussian_pair import gaussian_pair
from noisymean.mechanisms import ASGM, Expected, Mechanism, OpacusLoader, denominators, new_record_rate
from noisymean.numerics import binomial
from noisymean.numerics.chi_square import log_tails, saddle
from noisymean.numerics.inversion import solve_decreasing
from noisymean.numerics.logs import Array
from noisymean.tradeoff import FiniteOutcomes, Tails, TradeOff

# Pairs whose batch means spread over more sizes than this are left out: the spread itself hides the new record.
_MOST_SIZES = 4096
# With more distinct scales than this the attacker on ASGM looks at x1 only: rho says little about one record in so many.
_MOST_SCALES = 64
_MOST_NODES = 512
_CELLS = 384
# (nodes x thresholds) evaluated at once
_WORK = 1 << 18
_TABLE = 1201
_SLOPES = 257
_WORTHLESS = 16
# From this many dimensions on the loss across is smooth enough for a table in t itself.
_MANY_DIMENSIONS = 64
# Tails are tabulated down to e^-90.
_END = 90.0
# Thresholds from which on e^-|t| nears the least double, up to where a double can tell e^t P from Q, and the ulps of t lost.
_HIGH, _FARTHEST, _ULPS = 600.0, 1e14, 4e-15
# A cell that rounding has emptied is still possible.
_NEVER = 1e-300
_LARGE_DOF = 10_000
# Beyond this many deviations a Gaussian has less than 1e-17 left.
_REACH = 8.6


@final
@dataclass(frozen=True, eq=False)
class LineMixture:
    """sum_i weights[i] N(means[i] u, scales[i]^2 I_n)."""

    weights: Array
    means: Array
    scales: Array

    def present(self) -> LineMixture:
        """Without the components of weight zero."""
        kept = self.weights > 0.0
        return LineMixture(self.weights[kept], self.means[kept], self.scales[kept])

    def in_units(self, unit: float) -> LineMixture:
        """The same law of x / unit."""
        return LineMixture(self.weights, self.means / unit, self.scales / unit)

    def log_density(self, x: Array) -> Array:
        """log of the density of x1."""
        z = (x[:, None] - self.means) / self.scales
        with np.errstate(divide="ignore"):
            terms = np.log(self.weights / self.scales) - 0.5 * z * z
        top = terms.max(axis=1)
        return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)) - 0.9189385332046727)

    def cell_masses(self, edges: Array) -> Array:
        """Mass of each component in each cell of the line, components first; edges run from -inf to inf."""
        z = (edges - self.means[:, None]) / self.scales[:, None]
        # difference of the tail that is small, so that far cells keep their digits
        middle = 0.5 * (z[:, 1:] + z[:, :-1])
        return np.asarray(np.where(middle > 0.0, ndtr(-z[:, :-1]) - ndtr(-z[:, 1:]), ndtr(z[:, 1:]) - ndtr(z[:, :-1])))

    def sample(self, generator: np.random.Generator, dimension: int, size: int) -> Array:
        """`size` outputs of the round, u being the first axis."""
        index = generator.choice(self.weights.size, size=size, p=self.weights / self.weights.sum())
        outputs = generator.standard_normal((size, dimension)) * self.scales[index, None]
        outputs[:, 0] += self.means[index]
        return outputs


@final
@dataclass(frozen=True, eq=False)
class ExplicitPair:
    """Two datasets whose gradients all lie on one line: D's equal `shared`*C*u, the new record's `new`*C*u."""

    description: str
    dimension: int
    p: LineMixture
    q: LineMixture
    # log of the ratio of the scales where each side has one, for when it is closer to 0 than an ulp of 1
    log_scale: float | None = None
    # the attacker looks at x1 only
    line_only: bool = False
    # mass of batch sizes that are not among the components
    left_out: float = 0.0

    @cached_property
    def curve(self) -> TradeOff:
        """A trade-off function that is nowhere below T(M(D), M(D')), and equal to it up to the cutting into cells."""
        p_scale, q_scale = np.unique(self.p.scales), np.unique(self.q.scales)
        if p_scale.size == 1 and q_scale.size == 1:
            log_scale = float(np.log(q_scale[0] / p_scale[0])) if self.log_scale is None else self.log_scale
            if self.p.means.size == 1 and self.q.means.size == 1:
                shift = abs(float(self.q.means[0] - self.p.means[0])) / float(p_scale[0])
                return gaussian_pair(self.dimension, shift, log_scale=log_scale)
            if log_scale > 0.0:
                # the other way round, in units of the noise of D'
                unit = float(q_scale[0])
                return _product_curve(
                    self.dimension, self.q.in_units(unit), self.p.in_units(unit), -log_scale
                ).inverse()
            return _product_curve(self.dimension, self.p, self.q, log_scale)
        return _cell_curve(1 if self.line_only else self.dimension, self.p, self.q, self.left_out)

    def sample(self, generator: np.random.Generator, size: int, *, extra_record: bool) -> Array:
        """`size` outputs on D', or on D; in units of the noise of D (ASGM: of sigma*C)."""
        return (self.q if extra_record else self.p).sample(generator, self.dimension, size)


def explicit_pairs(mechanism: Mechanism) -> list[ExplicitPair]:
    """The family that `leakage` takes the best of: D all-zero or all aligned, the new record's gradient from -C to C."""
    return _asgm_pairs(mechanism) if isinstance(mechanism, ASGM) else _expected_pairs(mechanism)


def _describe(shared: int, new: float) -> str:
    others = "every gradient of D is zero" if shared == 0 else "every gradient of D is C*u"
    return f"{others}, the new record's is {new:g}*C*u"


def _expected_pairs(mechanism: Expected) -> list[ExplicitPair]:
    before, after = denominators(mechanism)
    log_scale = -float(np.log1p((after - before) / before))
    scale, sigma, dimension = float(np.exp(log_scale)), mechanism.noise_multiplier, mechanism.dimension or 1
    q = new_record_rate(mechanism)
    pairs = []

    def add(shared: int, new: float, sizes: Array, weights: Array) -> None:
        # the origin is the middle of D's means, so that s * size and size never cancel
        middle = shared * float(sizes[np.argmax(weights)])
        p_means = shared * sizes - middle
        shrunk = p_means - shared * sizes * ((after - before) / after)
        q_means = np.concatenate([shrunk, shrunk + scale * new])
        q_weights = np.concatenate([(1.0 - q) * weights, q * weights])
        p = LineMixture(weights, p_means / sigma, np.ones_like(p_means)).present()
        q_mix = LineMixture(q_weights, q_means / sigma, np.full_like(q_means, scale)).present()
        pairs.append(ExplicitPair(_describe(shared, new), dimension, p, q_mix, log_scale=log_scale))

    same = before == after
    for new in (1.0,) if same else (1.0, 0.75, 0.5, 0.25):
        add(0, new, np.zeros(1), np.ones(1))
    moves = isinstance(mechanism, OpacusLoader) and mechanism.rate_moves
    if not same and not moves and mechanism.dataset_size is not None:
        first, last = binomial.effective_range(mechanism.dataset_size, q)
        if last - first < _MOST_SIZES:
            nodes = binomial.enumerated(mechanism.dataset_size, q)
            for new in (-1.0, -0.5, 1.0):
                add(1, new, nodes.sizes, nodes.weights)
    return pairs


def _asgm_pairs(mechanism: ASGM) -> list[ExplicitPair]:
    q, sigma, count = mechanism.q, mechanism.noise_multiplier, mechanism.dataset_size
    first, last = binomial.effective_range(count, q)
    line_only = last - first >= _MOST_SCALES
    if line_only:
        # cells of x1 are smooth in the size: over one deviation of it a threshold z moves by (z + 2/sigma) deviation / size
        spread = binomial.deviation(count, q) / binomial.small_size(count, q)
        nodes = binomial.nodes(count, q, roughness=(4.0 + 2.0 / sigma) * spread)
    else:
        nodes = binomial.enumerated(count, q)
    sizes, weights = nodes.sizes, nodes.weights
    divisor, divisor_with = np.maximum(sizes, 1.0), sizes + 1.0
    # every batch is the whole dataset: one scale on each side, and their ratio must not be rounded to an ulp of 1
    log_scale = -math.log1p(1.0 / count) if q == 1.0 and count > 0 else None
    pairs = []
    for shared, new in ((1, -1.0), (1, -0.5), (0, 1.0)):
        # the origin is the mean of a batch of D, so that nothing cancels
        p = LineMixture(weights, np.where(sizes > 0.0, 0.0, -shared / sigma), 1.0 / divisor)
        q_mix = LineMixture(
            np.concatenate([(1.0 - q) * weights, q * weights]),
            np.concatenate([p.means, (new - shared) / (divisor_with * sigma)]),
            np.concatenate([p.scales, 1.0 / divisor_with]),
        )
        pairs.append(
            ExplicitPair(
                _describe(shared, new),
                mechanism.dimension,
                p.present(),
                q_mix.present(),
                log_scale=log_scale,
                line_only=line_only,
                left_out=nodes.slack,
            )
        )
    return pairs


@final
@dataclass(frozen=True, eq=False)
class LossOnLine(TradeOff):
    """Loss l1 with finitely many values, plus the independent loss of `across`: tails are a weighted sum of shifted tails."""

    losses: Array
    p: Array
    q: Array
    across: TabulatedPair

    @property
    def slack(self) -> float:
        # the trapezoidal rule over nodes
        return 1e-9

    @property
    def relative_error(self) -> float:
        # the spline of `across` (measured: docs/numerics.md)
        return 1e-6 if self.across.dof < _MANY_DIMENSIONS else 2e-8

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
        return Tails(*logs.reshape((4, *t.shape)))

    def _keep_what_underflows(self, t: Array, logs: Array) -> None:
        """P[l > t] for large t and Q[l <= t] for large -t: too small for a double, while e^t and e^-t times them are not.

        With l = l_i on the line and u = t - l_i across it, e^t P[l > t] = sum_i q_i e^u P[across > u]: no factor exceeds 1,
        and what lies outside of the nodes is at most their Q. Taken as zero they would make delta too large.
        """
        chunk = max(1, _WORK // self.losses.size)
        for small, weights, sign in ((0, self.q, 1.0), (3, self.p, -1.0)):
            far = np.flatnonzero((sign * t > _HIGH) & (np.abs(t) < _FARTHEST))
            for start in range(0, far.size, chunk):
                part = far[start : start + chunk]
                grown = self.across.grown_tail(t[None, part] - self.losses[:, None], sign)
                with np.errstate(divide="ignore"):
                    logs[small, part] = np.log(weights @ grown) - sign * t[part] + _ULPS * np.abs(t[part])


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
    def _top(self) -> float:
        return -self.dof * self.log_scale

    @property
    def _few(self) -> bool:
        return self.dof < _MANY_DIMENSIONS

    def _coordinate(self, t: Array) -> Array:
        return -np.log(np.maximum(self._top - t, 1e-300)) if self._few else t

    @cached_property
    def _table(self) -> tuple[Array, CubicSpline, CubicSpline]:
        exact = gaussian_pair(self.dof, 0.0, log_scale=self.log_scale)
        both = _ends(exact)
        ends = self._coordinate(np.array([both[:, 0].min(), both[:, 1].max()]))
        c, k = np.expm1(-2.0 * self.log_scale), 0.5 * self.dof
        if self._few:
            # P[chi^2 <= r] ~ (r/2)^k / Gamma(1 + k) = e^-_END, and the loss is at (c/2) r from its end
            ends[1] = -np.log(c) + (_END - gammaln(1.0 + k)) / k
        x = np.linspace(ends[0], ends[1], _TABLE)
        if self._few:
            # from r itself, which t next to its end no longer knows
            y = np.exp(-x) / c
            with np.errstate(divide="ignore"):
                tails = Tails(*(np.log(f(k, u)) for u in (y, y * (1.0 + c)) for f in (gammainc, gammaincc)))
        else:
            tails = exact.tails(x)
        quantiles = (
            np.where(above < below, ndtri_exp(above), -ndtri_exp(below))
            for above, below in ((tails.p_above, tails.p_below), (tails.q_above, tails.q_below))
        )
        p, q = (CubicSpline(x, z) for z in quantiles)
        return x[[0, -1]], p, q

    @cached_property
    def _ratios(self) -> tuple[CubicSpline, CubicSpline]:
        """log of e^t P[l > t] / Q[l > t] where Q sees the loss, and of e^-t Q[l <= t] / P[l <= t] where P does."""
        exact = gaussian_pair(self.dof, 0.0, log_scale=self.log_scale)
        by_p, by_q = (np.linspace(low, high, _TABLE) for low, high in _ends(exact).tolist())
        p, q = exact.tails(by_p), exact.tails(by_q)
        return CubicSpline(by_q, by_q + q.p_above - q.q_above), CubicSpline(by_p, p.q_below - by_p - p.p_below)

    def probabilities(self, t: Array) -> tuple[Array, Array, Array, Array]:
        """P[l > t], P[l <= t], Q[l > t], Q[l <= t]."""
        ends, p_spline, q_spline = self._table
        x = np.clip(self._coordinate(t), *ends)
        inside = (x > ends[0]) & (x < ends[1])
        if np.count_nonzero(inside) < 0.5 * x.size:
            # most of the plane is far from the threshold: there the tails are 0 and 1 to e^-90
            p = q = np.where(x >= ends[1], -np.inf, np.inf)
            p, q = p.copy(), q.copy()
            p[inside], q[inside] = p_spline(x[inside]), q_spline(x[inside])
        else:
            p, q = p_spline(x), q_spline(x)
        return ndtr(p), ndtr(-p), ndtr(q), ndtr(-q)

    def grown_tail(self, t: Array, sign: float) -> Array:
        """e^t P[l > t] for sign 1, e^-t Q[l <= t] for -1: never too small to be told beside Q[l > t] and P[l <= t]."""
        if self.dof < _HIGH:
            # no spline follows the ends of the loss; a threshold this far is rare in few dimensions
            tails = gaussian_pair(self.dof, 0.0, log_scale=self.log_scale).tails(t)
            return np.asarray(np.exp(np.minimum(sign * t + tails[0 if sign > 0.0 else 3], 0.0)))
        _, p_below, q_above, _ = self.probabilities(t)
        large, ratio = (q_above, self._ratios[0]) if sign > 0.0 else (p_below, self._ratios[1])
        # beyond the table one of the two is below e^-90, and neither tail exceeds 1
        inside = np.clip(t, ratio.x[0], ratio.x[-1])
        return np.asarray(large * np.exp(np.minimum(ratio(inside), np.minimum(sign * t, 0.0))))

    def tails(self, t: Array) -> Tails:
        with np.errstate(divide="ignore"):
            return Tails(*(np.log(side) for side in self.probabilities(np.asarray(t, dtype=np.float64))))


@lru_cache(maxsize=64)
def _tabulated(dof: int, log_scale: float) -> TabulatedPair:
    return TabulatedPair(dof, log_scale)


def _ends(curve: TradeOff) -> Array:
    """Thresholds outside of which P, and Q, see the loss with less than e^-90: a row for each of the two."""
    odds = np.array([_END, -_END])
    under_p = solve_decreasing(lambda t: np.subtract(*curve.tails(t)[:2]), odds)
    under_q = solve_decreasing(lambda t: np.subtract(*curve.tails(t)[2:]), odds)
    return np.stack([under_p, under_q])


def _product_curve(dimension: int, p: LineMixture, q: LineMixture, log_scale: float) -> TradeOff:
    """T when x1 and rho are independent: the line's loss by nodes, the rest in closed form."""
    low = min(float(np.min(m.means - _REACH * m.scales)) for m in (p, q))
    high = max(float(np.max(m.means + _REACH * m.scales)) for m in (p, q))
    spread = abs(np.expm1(-2.0 * log_scale)) * np.sqrt(0.5 * (dimension - 1))
    nodes = (high - low) / _smooth_step(p, q, low, high, spread)
    if nodes > _WORTHLESS * _MOST_NODES:
        # the loss across is narrower than a thousandth of the line's: the attacker may as well not look
        return _outcomes(*_line_cells(p, q, low, high, 8 * _MOST_NODES), 0.0)
    across = _tabulated(dimension - 1, log_scale)
    if dimension <= _MANY_DIMENSIONS or nodes > _MOST_NODES:
        p_mass, q_mass = _line_cells(p, q, low, high, _MOST_NODES)
        return LossOnLine(np.log(q_mass / p_mass), p_mass, q_mass, across)
    x, step = np.linspace(low, high, 1 + math.ceil(nodes), retstep=True)
    log_p, log_q = p.log_density(x), q.log_density(x)
    return LossOnLine(log_q - log_p, step * np.exp(log_p), step * np.exp(log_q), across)


def _smooth_step(p: LineMixture, q: LineMixture, low: float, high: float, spread: float) -> float:
    """A step at which the trapezoidal rule over x1 is exact to rounding.

    The integrand is a Gaussian of the smaller scale times a tail of the loss across, whose width in x1 is its spread over the
    slope of l1; half of the joint width leaves an error of exp(-2 pi^2 / 0.25).
    """
    x = np.linspace(low, high, _SLOPES)
    log_p, log_q = p.log_density(x), q.log_density(x)
    matters = np.maximum(log_p, log_q) > -_END
    slope = float(np.max(np.abs(np.diff((log_q - log_p)[matters])), initial=0.0)) / float(x[1] - x[0])
    scale = min(float(p.scales.min()), float(q.scales.min()))
    return 0.5 / float(np.hypot(1.0 / scale, slope / max(spread, 1e-300)))


def _line_cells(p: LineMixture, q: LineMixture, low: float, high: float, count: int) -> tuple[Array, Array]:
    """P and Q of the cell that x1 falls in."""
    edges = np.concatenate([[-np.inf], np.linspace(low, high, count - 1), [np.inf]])
    p_mass, q_mass = p.weights @ p.cell_masses(edges), q.weights @ q.cell_masses(edges)
    return np.maximum(p_mass, _NEVER), np.maximum(q_mass, _NEVER)


def _cell_curve(dimension: int, p: LineMixture, q: LineMixture, left_out: float) -> TradeOff:
    """T of the cell of the (x1, rho) plane, for mixtures of several scales."""
    levels = np.linspace(-_REACH, _REACH, _CELLS - 1)
    edges = np.concatenate([[-np.inf], _mixture_quantiles(levels, p, q), [np.inf]])
    p_cells, q_cells = p.cell_masses(edges), q.cell_masses(edges)
    if dimension == 1:
        return _outcomes(p.weights @ p_cells, q.weights @ q_cells, left_out)
    radii = _radius_quantiles(levels, dimension - 1, np.concatenate([p.scales, q.scales]))
    p_rings, q_rings = (_ring_masses(radii, dimension - 1, m.scales) for m in (p, q))
    return _outcomes(
        ((p_cells * p.weights[:, None]).T @ p_rings).ravel(),
        ((q_cells * q.weights[:, None]).T @ q_rings).ravel(),
        left_out,
    )


def _outcomes(p: Array, q: Array, left_out: float) -> FiniteOutcomes:
    """Cells as outcomes: each mass is a difference of distribution functions, good to an ulp of 1."""
    return FiniteOutcomes(np.maximum(p, _NEVER), np.maximum(q, _NEVER), left_out + 2e-16 * p.size)


def _mixture_quantiles(levels: Array, p: LineMixture, q: LineMixture) -> Array:
    """Edges that cut the even mixture of p and q into cells of equal normal width."""
    means, scales = np.concatenate([p.means, q.means]), np.concatenate([p.scales, q.scales])
    weights = 0.5 * np.concatenate([p.weights, q.weights])
    x = np.unique(np.concatenate([means[:, None] + scales[:, None] * np.linspace(-_REACH, _REACH, 61)], axis=None))
    x = x[:: max(1, x.size // 512)]
    level = ndtri(np.clip(weights @ ndtr((x - means[:, None]) / scales[:, None]), 1e-300, 1.0 - 1e-16))
    rising = np.concatenate([[True], np.diff(np.maximum.accumulate(level)) > 0.0])
    return np.unique(np.interp(levels, level[rising], x[rising]))


def _radius_quantiles(levels: Array, dof: int, scales: Array) -> Array:
    """Edges in rho: the normal levels of each distinct scale's chi-square, thinned to about _CELLS of them."""
    distinct = np.unique(scales)
    per_scale = levels[:: max(1, distinct.size // 2)]
    # Wilson and Hilferty's cube root; edges may be anywhere, they only have to be close to useful
    spread = 2.0 / (9.0 * dof)
    unit = dof * np.maximum(1.0 - spread + per_scale * np.sqrt(spread), 1e-3) ** 3
    edges = np.unique(np.square(distinct)[:, None] * unit)
    return edges[:: max(1, edges.size // (2 * _CELLS))]


def _ring_masses(edges: Array, dof: int, scales: Array) -> Array:
    """Mass of each component's rho in each ring."""
    y = edges / np.square(scales)[:, None]
    if dof < _LARGE_DOF:
        below, above = chdtr(dof, y), chdtrc(dof, y)
    else:
        # scipy's far tails are a quarter off at 1e8 degrees of freedom
        tails = log_tails(0.5 * dof, *saddle(0.5 * dof, 0.0, 0.5 * (y - dof)))
        below, above = np.exp(tails[0][0]), np.exp(tails[0][1])
    zero, one = np.zeros((scales.size, 1)), np.ones((scales.size, 1))
    below, above = np.hstack([zero, below, one]), np.hstack([one, above, zero])
    return np.maximum(np.where(below[:, 1:] < 0.5, np.diff(below, axis=1), -np.diff(above, axis=1)), 0.0)
