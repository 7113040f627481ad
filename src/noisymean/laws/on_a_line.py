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
from scipy.special import gammaln, ndtr, ndtri, ndtri_exp

from noisymean.laws.cells import Cells, Ends, line_masses, ring_masses
from noisymean.laws.finite import FiniteOutcomes
from noisymean.laws.gaussian import gaussian_pair
from noisymean.mechanisms import ASGM, DatasetDenominator, Mechanism
from noisymean.numerics import binomial
from noisymean.numerics.chi_square import log_tails
from noisymean.numerics.inversion import solve_decreasing
from noisymean.numerics.logs import Array, log1mexp
from noisymean.pairs import Added, Datasets
from noisymean.tradeoff import Tails, TradeOff

# Pairs whose batch means spread over more sizes than this are left out, in one round and in many: the spread itself hides the
# new record.
_MOST_SIZES, _MOST_SIZES_COMPOSED = 4096, 64
# Mass of batch sizes that one round of that many leaves out.
_MISSED = 1e-40
# With more distinct scales than this the attacker on ASGM looks at x1 only: rho says little about one record in so many.
_MOST_SCALES = 64
_MOST_NODES = 512
_CELLS = 384
_MOST_LINE_CELLS = 4096
# (nodes x thresholds) evaluated at once
_WORK = 1 << 18
_TABLE = 1201
_SLOPES = 257
_WORTHLESS = 16
# From this many dimensions on the loss across is smooth enough for the trapezoidal rule over the line.
_MANY_DIMENSIONS = 64
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
# What the trapezoidal rule over x1 is charged with (measured: docs/numerics.md).
_TRAPEZOIDAL = 1e-9
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

    def log_likelihood(self, along: Array, across: Array, unit: float, degrees: int) -> Array:
        """log of the density of (x1, rho), rho of so many degrees of freedom, up to what does not depend on the mixture."""
        log_scales = np.log(self.scales / unit)
        # beside that of the unit, so that nothing of the size of rho cancels
        bend = -0.5 * np.expm1(-2.0 * log_scales) / unit**2
        with np.errstate(divide="ignore"):
            constant = np.log(self.weights) - (degrees + 1) * log_scales
        found = np.empty(along.size)
        chunk = max(1, _WORK // self.weights.size)
        for start in range(0, along.size, chunk):
            part = slice(start, start + chunk)
            z = (along[part, None] - self.means) / self.scales
            ring = bend * across[part, None] if degrees else 0.0
            terms = constant - 0.5 * z * z + ring
            top = terms.max(axis=1)
            found[part] = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        return found

    def line_masses(self, edges: Array) -> Ends:
        """Mass of each component in each cell of the line, its weight included."""
        masses = line_masses(edges, self.means, self.scales)
        return Ends(masses.low * self.weights[:, None], masses.high * self.weights[:, None])

    def cell_masses(self, edges: Array) -> Ends:
        """Mass of each cell of the line."""
        masses = self.line_masses(edges)
        return Ends(masses.low.sum(axis=0), masses.high.sum(axis=0))

    def sample(self, generator: np.random.Generator, dimension: int, size: int) -> Array:
        """`size` outputs of the round, u being the first axis."""
        index = generator.choice(self.weights.size, size=size, p=self.weights / self.weights.sum())
        outputs = generator.standard_normal((size, dimension)) * self.scales[index, None]
        outputs[:, 0] += self.means[index]
        return outputs


@final
@dataclass(frozen=True, eq=False)
class ExplicitPair:
    """One round on two datasets whose gradients all lie on one line."""

    datasets: Datasets
    dimension: int
    p: LineMixture
    q: LineMixture
    # log of the ratio of the scales where each side has one, for when it is closer to 0 than an ulp of 1
    log_scale: float | None = None
    # the attacker looks at x1 only
    line_only: bool = False
    # mass of batch sizes that are not among the components
    left_out: float = 0.0
    # batches of too many sizes for a sum over rounds
    once: bool = False
    # how far the new record moves an output that it is in, in deviations of the noise there
    moved: float = 0.0

    @cached_property
    def curve(self) -> TradeOff:
        """A trade-off function that is nowhere below T(M(D), M(D')), and equal to it up to the cutting into cells."""
        return self._seen(backward=False)

    @cached_property
    def backward_curve(self) -> TradeOff:
        """One whose inverse is nowhere below T(M(D'), M(D)): the same, with each cell rounded the other way."""
        return self._seen(backward=True)

    def _seen(self, *, backward: bool) -> TradeOff:
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
                    self.dimension,
                    self.q.in_units(unit),
                    self.p.in_units(unit),
                    -log_scale,
                    self.left_out,
                    backward=not backward,
                ).inverse()
            return _product_curve(self.dimension, self.p, self.q, log_scale, self.left_out, backward=backward)
        return self.cells.told(backward=backward)

    @cached_property
    def cells(self) -> Cells:
        """What an attacker sees who is told the cell of (x1, rho), or of x1, only."""
        levels = np.linspace(-_REACH, _REACH, _CELLS - 1)
        edges = np.concatenate([[-np.inf], _mixture_quantiles(levels, self.p, self.q), [np.inf]])
        if self.line_only or self.dimension == 1:
            return Cells(self.p.cell_masses(edges), self.q.cell_masses(edges), self.left_out)
        across = self.dimension - 1
        radii = _radius_quantiles(levels, across, np.concatenate([self.p.scales, self.q.scales]))
        p, q = (
            mixture.line_masses(edges).times(ring_masses(radii, across, mixture.scales)) for mixture in (self.p, self.q)
        )
        return Cells(p, q, self.left_out)

    def line_cells(self) -> Cells:
        """What the line alone tells, in cells: for rounds whose loss across is known in closed form."""
        return _line_cells(self.p, self.q, _MOST_LINE_CELLS, self.left_out)

    def sample(self, generator: np.random.Generator, size: int, *, extra_record: bool) -> Array:
        """`size` outputs on D', or on D; in units of the noise of D (ASGM: of sigma*C)."""
        return (self.q if extra_record else self.p).sample(generator, self.dimension, size)

    def draw(self, generator: np.random.Generator, size: int, *, extra_record: bool) -> tuple[Array, Array]:
        """x.u and |x - x.u u|^2 of `size` outputs on D', or on D: all that tells the two apart, in any dimension."""
        mixture = self.q if extra_record else self.p
        index = generator.choice(mixture.weights.size, size=size, p=mixture.weights / mixture.weights.sum())
        scales = mixture.scales[index]
        along = mixture.means[index] + scales * generator.standard_normal(size)
        across = generator.chisquare(self.dimension - 1, size) if self.dimension > 1 else np.zeros(size)
        return along, np.square(scales) * across

    def loss(self, along: Array, across: Array) -> Array:
        """log of how much likelier an output is on D' than on D, to an attacker who sees what `curve` is for."""
        unit = float(self.p.scales[np.argmax(self.p.weights)])
        seen = 0 if self.line_only else self.dimension - 1
        return self.q.log_likelihood(along, across, unit, seen) - self.p.log_likelihood(along, across, unit, seen)


def explicit_pairs(mechanism: Mechanism) -> list[ExplicitPair]:
    """The family that `leakage` takes the best of: D all-zero or all aligned, the new record's gradient from -C to C."""
    match mechanism:
        case DatasetDenominator():
            return _expected_pairs(mechanism)
        case ASGM():
            return _asgm_pairs(mechanism)
    raise TypeError(mechanism)


def _expected_pairs(mechanism: DatasetDenominator) -> list[ExplicitPair]:
    moved = mechanism.neighbours
    sigma, log_scale = moved.noises[0], moved.log_scale
    shrink, scale, dimension = float(np.exp(moved.log_shrink)), float(np.exp(log_scale)), mechanism.dimension or 1
    # 1 - c/c', which must not be a difference of two numbers near 1
    lost = float(moved.growth / (1 + moved.growth))
    q = mechanism.rate_with
    pairs = []

    def add(
        shared: int, new: float, sizes: Array, weights: Array, left_out: float = 0.0, *, once: bool = False
    ) -> None:
        # the origin is the middle of D's means, so that s * size and size never cancel
        middle = shared * float(sizes[np.argmax(weights)])
        p_means = shared * sizes - middle
        shrunk = p_means - shared * sizes * lost
        q_means = np.concatenate([shrunk, shrunk + shrink * new])
        q_weights = np.concatenate([(1.0 - q) * weights, q * weights])
        p = LineMixture(weights, p_means / sigma, np.ones_like(p_means)).present()
        q_mix = LineMixture(q_weights, q_means / sigma, np.full_like(q_means, scale)).present()
        pairs.append(
            ExplicitPair(
                Added(float(shared), new),
                dimension,
                p,
                q_mix,
                log_scale=log_scale,
                left_out=left_out,
                once=once,
                moved=abs(new) * shrink / (sigma * scale),
            )
        )

    same = moved.growth == 0 and not mechanism.noise_moves
    for new in (1.0,) if same else (1.0, 0.75, 0.5, 0.25):
        add(0, new, np.zeros(1), np.ones(1))
    moves = mechanism.rate_moves or mechanism.noise_moves
    if not same and not moves and mechanism.dataset_size is not None:
        first, last = binomial.effective_range(mechanism.dataset_size, q)
        many = last - first >= _MOST_SIZES_COMPOSED
        if last - first < _MOST_SIZES:
            nodes = binomial.enumerated(mechanism.dataset_size, q, _MISSED if many else binomial.NEVER_MISSED)
            for new in (-1.0, -0.5, 1.0):
                add(1, new, nodes.sizes, nodes.weights, nodes.slack, once=many)
    return pairs


def _asgm_pairs(mechanism: ASGM) -> list[ExplicitPair]:
    q, sigma, count = mechanism.q, mechanism.noise_multiplier, mechanism.dataset_size
    first, last = binomial.effective_range(count, q)
    line_only = last - first >= _MOST_SCALES
    # a threshold lies within _REACH + 2/sigma deviations of a mean, all of them proportional to 1/size
    nodes = binomial.lattice(count, q, steepness=(_REACH + 2.0 / sigma) / max(count * q, 1.0))
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
                Added(float(shared), new),
                mechanism.dimension,
                p.present(),
                q_mix.present(),
                log_scale=log_scale,
                line_only=line_only,
                left_out=nodes.slack,
                moved=abs(new - shared) / sigma,
            )
        )
    return pairs


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
    def _nodes(self) -> tuple[Array, Array, Tails]:
        """Coordinates, thresholds and the tails there, from where P has e^-90 left to where Q has."""
        exact = gaussian_pair(self.dof, 0.0, log_scale=self.log_scale)
        ends = _ends(exact)
        if not self._few:
            t = np.linspace(ends[:, 0].min(), ends[:, 1].max(), _TABLE)
            return t, t, exact.tails(t)
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
        exact = gaussian_pair(self.dof, 0.0, log_scale=self.log_scale)
        by_p, by_q = (np.linspace(low, high, _TABLE) for low, high in _ends(exact).tolist())
        p, q = exact.tails(by_p), exact.tails(by_q)
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


def _ends(curve: TradeOff) -> Array:
    """Thresholds outside of which P, and Q, see the loss with less than e^-90: a row for each of the two."""
    odds = np.array([_END, -_END])
    under_p = solve_decreasing(lambda t: np.subtract(*curve.tails(t)[:2]), odds)
    under_q = solve_decreasing(lambda t: np.subtract(*curve.tails(t)[2:]), odds)
    return np.stack([under_p, under_q])


def _product_curve(
    dimension: int, p: LineMixture, q: LineMixture, log_scale: float, left_out: float, *, backward: bool
) -> TradeOff:
    """T when x1 and rho are independent: the line's loss by nodes, the rest in closed form; `backward` for use by its inverse."""
    low, high = _line_ends(p, q)
    spread = abs(np.expm1(-2.0 * log_scale)) * np.sqrt(0.5 * (dimension - 1))
    nodes = (high - low) / _smooth_step(p, q, low, high, spread)
    if nodes > _WORTHLESS * _MOST_NODES:
        # the loss across is narrower than a thousandth of the line's: the attacker may as well not look
        return _line_cells(p, q, 8 * _MOST_NODES, left_out).told(backward=backward)
    across = tabulated(dimension - 1, log_scale)
    if dimension <= _MANY_DIMENSIONS or nodes > _MOST_NODES:
        return loss_in_cells(_line_cells(p, q, _MOST_NODES, left_out).told(backward=backward), across)
    x, step = np.linspace(low, high, 1 + math.ceil(nodes), retstep=True)
    log_p, log_q = p.log_density(x), q.log_density(x)
    return LossOnLine(log_q - log_p, step * np.exp(log_p), step * np.exp(log_q), across, left_out, _TRAPEZOIDAL)


def loss_in_cells(line: FiniteOutcomes, across: TabulatedPair) -> LossOnLine:
    """The attacker is told the cell of x1, and rho. A cell that one of the measures does not have adds nothing to delta."""
    seen = (line.p > 0.0) & (line.q > 0.0)
    p, q = line.p[seen], line.q[seen]
    return LossOnLine(np.log(q) - np.log(p), p, q, across, short=line.short)


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


def _line_ends(p: LineMixture, q: LineMixture) -> tuple[float, float]:
    """Where x1 lies, but for 1e-17 of either law."""
    low = min(float(np.min(m.means - _REACH * m.scales)) for m in (p, q))
    return low, max(float(np.max(m.means + _REACH * m.scales)) for m in (p, q))


def _line_cells(p: LineMixture, q: LineMixture, count: int, left_out: float) -> Cells:
    """P and Q of the cell that x1 falls in, of equal width."""
    edges = np.concatenate([[-np.inf], np.linspace(*_line_ends(p, q), count - 1), [np.inf]])
    return Cells(p.cell_masses(edges), q.cell_masses(edges), left_out)


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
