r"""Gradients that are all multiples of one unit vector u: one round on such a pair of datasets, exactly.

The output of a round is then a mixture over the hidden batch of N(mean u, scale^2 I_n), on D and on D' alike, and (x1, rho) =
(x.u, |x - x1 u|^2) is sufficient. Two cases:

- **one scale on each side** (a denominator that is a function of N): x1 and rho are independent, so the losses add: `across`.
- **a scale for each batch size** (one that is a function of |B|): cut the (x1, rho) plane into cells and tell the attacker the
  cell only.

Either way the attacker is given *no more* than the real output, a post-processing of it, so the curve that comes out is
never below T(M(D), M(D')): an upper bound on every guarantee. Cutting x1 into cells is a post-processing too; the trapezoidal
rule, used where the integrand is smooth enough for it to be exact, only saves time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.special import ndtr, ndtri

from noisymean.cumulants import Cumulants, Sum
from noisymean.laws.across import LossOnLine, loss_in_cells, tabulated
from noisymean.laws.cells import Cells, Ends, ring_masses
from noisymean.laws.gaussian import across_only, gaussian_pair
from noisymean.laws.line_mixture import FEW, LineMixture
from noisymean.laws.line_rule import LineCumulants, log_normal
from noisymean.numerics.logs import Array, log_of_sum
from noisymean.pairs import Datasets
from noisymean.tradeoff import A_FEW_DOZEN, A_HANDFUL, Law, TradeOff

_MOST_NODES = 512
_CELLS, _RINGS = 384, 192
# Cells of a line: their width in deviations, and how many at least and at most.
_WIDTH, _FEWEST_LINE_CELLS, _MOST_LINE_CELLS = 0.07, 64, 4096
# Deviations that a cell of the line is wide where rounds are few, and from which on a normal law is too small for a double.
_NARROW, _FAR_APART = 0.02, 25.0
# Normal laws that lie no further apart than this many deviations show no ripples: e^(-2 pi^2/1.5^2) of the density.
_BLURRED = 1.5
# Components that are rarer than this are nowhere followed.
_RARE = 1e-17
_SLOPES = 257
_WORTHLESS = 16
# From this many dimensions on the loss across is smooth enough for the trapezoidal rule over the line.
_MANY_DIMENSIONS = 64
# log of a density that no longer matters.
_END = 90.0
# What the trapezoidal rule over x1 is charged with (measured: docs/numerics.md).
_TRAPEZOIDAL = 1e-9
# Beyond this many deviations a Gaussian has less than 1e-17 left.
REACH = 8.6


@final
@dataclass(frozen=True, eq=False)
class ExplicitPair(Law):
    """One round on two datasets whose gradients all lie on one line, as an attacker sees it who knows both."""

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
    # another pair leaks more over many rounds, or nearly as much
    once: bool = False
    # how far the new record moves an output that it is in, in deviations of the noise there
    moved: float = 0.0

    @property
    def components(self) -> int:
        """Normal laws that one release is looked at under."""
        return int(self.p.means.size + self.q.means.size)

    def one_round(self) -> TradeOff:
        """A trade-off function that is nowhere below T(M(D), M(D')), and equal to it up to the cutting into cells."""
        return self.curve

    def several(self) -> TradeOff:
        """Where both laws are mixtures, the line in cells."""
        return self._several(backward=False)

    @cached_property
    def cumulants(self) -> Cumulants | None:
        """Of the whole loss where D has one mean; else of the loss that an attacker has who is told a cell of the line."""
        return self._cumulants(backward=False)

    @property
    def coarse(self) -> bool:
        """Where both laws are mixtures."""
        return self._two_mixtures and self.log_scale != 0.0

    def power(self, count: int) -> Law | None:
        """Closed where the batch is always the same."""
        return self.curve.power(count) if self._one_component else None

    def backward(self) -> Law:
        """The same pair with each cell rounded the other way."""
        return _Backward(self)

    @property
    def slow_rounds(self) -> int:
        return A_FEW_DOZEN if self._many_scales else A_HANDFUL

    def in_parts(self) -> tuple[Law, ...]:
        """The line and what lies across it, where each side has one scale."""
        return self._parts(backward=False)

    def _parts(self, *, backward: bool) -> tuple[Law, ...]:
        if self.log_scale is None or self._one_component:
            return (_Backward(self) if backward else self,)
        if self._far_apart:
            return ()
        line = (self._narrow_cells.backward() if backward else self._narrow_cells).one_round()
        if self.dimension == 1 or self.log_scale == 0.0:
            return (line,)
        return line, across_only(self.dimension - 1, self.log_scale)

    @cached_property
    def curve(self) -> TradeOff:
        """The trade-off curve of one round, from P to Q."""
        return self._seen(backward=False)

    @cached_property
    def _far_apart(self) -> bool:
        """Whether one law lives where the other has cells too small for a double."""
        ends = []
        for one, other in ((self.p, self.q), (self.q, self.p)):
            means = np.sort(other.means)
            after = np.clip(np.searchsorted(means, one.means), 1, means.size - 1) if means.size > 1 else 0
            nearest = np.minimum(np.abs(one.means - means[after]), np.abs(one.means - means[after - 1]))
            ends.append(float(np.max(nearest)) / float(other.scales.min()))
        return max(ends) > _FAR_APART

    @property
    def _one_component(self) -> bool:
        return self.p.means.size == 1 and self.q.means.size == 1

    @property
    def _two_mixtures(self) -> bool:
        return self.log_scale is not None and self.p.means.size > 1

    @property
    def _many_scales(self) -> bool:
        return bool(np.ptp(self.p.scales) > 0.0 or np.ptp(self.q.scales) > 0.0)

    def _seen(self, *, backward: bool) -> TradeOff:
        if self._many_scales:
            return (self._cells.backward() if backward else self._cells).one_round()
        p_scale, q_scale = float(self.p.scales[0]), float(self.q.scales[0])
        log_scale = math.log(q_scale / p_scale) if self.log_scale is None else self.log_scale
        if self._one_component:
            shift = abs(float(self.q.means[0] - self.p.means[0])) / p_scale
            return gaussian_pair(self.dimension, shift, log_scale=log_scale)
        if log_scale > 0.0:
            # the other way round, in units of the noise of D'
            unit = q_scale
            p, q = self.q.in_units(unit), self.p.in_units(unit)
            return _product_curve(self.dimension, p, q, -log_scale, self.left_out, backward=not backward).inverse()
        return _product_curve(self.dimension, self.p, self.q, log_scale, self.left_out, backward=backward)

    def _several(self, *, backward: bool) -> TradeOff:
        if self._many_scales:
            return (self._cells.backward() if backward else self._cells).several()
        if self.log_scale is None or self._one_component:
            return self._seen(backward=backward)
        return loss_in_cells(self._line_cells(backward=backward).several(), self.dimension - 1, self.log_scale or 0.0)

    def _cumulants(self, *, backward: bool) -> Cumulants | None:
        if self._one_component:
            return self.curve.cumulants
        if self.log_scale is None:
            return (self._cells.backward() if backward else self._cells).cumulants
        if self.p.means.size == 1:
            line = from_one_mean(self.p, self.q, self.log_scale)
        elif self.log_scale == 0.0:
            line = _of_one_scale(self.p, self.q)
        else:
            line = self._line_cells(backward=backward).cumulants
        across = gaussian_pair(self.dimension - 1, 0.0, log_scale=self.log_scale).cumulants
        return line if across is None else Sum(((1, line), (1, across)))

    @property
    def rough(self) -> TradeOff:
        """A curve that is above `curve` by a little: from fewer cells where those are dear."""
        return self._in_cells(_CELLS // 4, _RINGS // 4).one_round() if self._many_scales else self.curve

    @cached_property
    def _cells(self) -> Cells:
        """What an attacker sees who is told the cell of (x1, rho), or of x1, only."""
        return self._in_cells(_CELLS, _RINGS)

    def _in_cells(self, cells: int, rings: int) -> Cells:
        edges = _quantiles(cells, self.p, self.q)
        if self.line_only or self.dimension == 1:
            return Cells(self.p.cell_masses(edges), self.q.cell_masses(edges), self.left_out, self.moved)
        across = self.dimension - 1
        radii = _radii(rings, across, self.p, self.q)
        scales, place = np.unique(np.concatenate([self.p.scales, self.q.scales]), return_inverse=True)
        masses = ring_masses(radii, across, scales, self.left_out)
        count = self.p.scales.size
        p = self.p.line_masses(edges).times(masses.at(place[:count]))
        # D' without the new record in the batch is D, in another weight
        same = slice(0, count if self._begins_as_p else 0)
        rest = slice(same.stop, None)
        new = LineMixture(self.q.weights[rest], self.q.means[rest], self.q.scales[rest])
        q = new.line_masses(edges).times(masses.at(place[count:][rest]))
        if self._begins_as_p:
            share = float(self.q.weights[0] / self.p.weights[0])
            q = Ends(q.low + share * p.low, q.high + share * p.high)
        return Cells(p, q, self.left_out, self.moved)

    @property
    def _begins_as_p(self) -> bool:
        count = self.p.scales.size
        return bool(
            self.q.scales.size > count
            and np.array_equal(self.q.means[:count], self.p.means)
            and np.array_equal(self.q.scales[:count], self.p.scales)
            and np.allclose(
                self.q.weights[:count] * self.p.weights[0], self.p.weights * self.q.weights[0], rtol=1e-14, atol=0.0
            )
        )

    @cached_property
    def line_cells(self) -> Cells:
        """What the line alone tells, in cells: for rounds whose loss across is known in closed form."""
        return _line_cells(self.p, self.q, self.left_out, self.moved)

    @cached_property
    def _narrow_cells(self) -> Cells:
        """The same in cells of a width that few rounds do not feel."""
        return _line_cells(self.p, self.q, self.left_out, width=_NARROW)

    def _line_cells(self, *, backward: bool) -> Cells:
        return self.line_cells.backward() if backward else self.line_cells

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


@final
@dataclass(frozen=True, eq=False)
class _Backward(Law):
    """An explicit pair for use by its inverse: T(M(D'), M(D)) is nowhere above the inverse of its curve."""

    pair: ExplicitPair

    @cached_property
    def _curve(self) -> TradeOff:
        return self.pair._seen(backward=True)

    def one_round(self) -> TradeOff:
        return self._curve

    def several(self) -> TradeOff:
        return self.pair._several(backward=True)

    @cached_property
    def cumulants(self) -> Cumulants | None:
        return self.pair._cumulants(backward=True)

    @property
    def coarse(self) -> bool:
        return self.pair.coarse

    def power(self, count: int) -> Law | None:
        return self.pair.power(count)

    @property
    def slow_rounds(self) -> int:
        return self.pair.slow_rounds

    def in_parts(self) -> tuple[Law, ...]:
        return self.pair._parts(backward=True)

    def backward(self) -> Law:
        return self.pair


def from_one_mean(p: LineMixture, q: LineMixture, log_scale: float) -> Cumulants:
    """K of one normal law against a mixture of normals of s times its scale: an all-zero D, on the line."""
    scale = math.exp(log_scale)
    logs, means = np.log(q.weights), (q.means - p.means[0]) / (p.scales[0] * scale)
    # log q1 - log p1 = -log s - (c/2) x^2 + log sum_i w_i exp(m_i x/s - m_i^2/2), means in units of s
    c = math.expm1(-2.0 * log_scale)

    def bumps(x: Array, which: slice) -> Array:
        mean = means[which]
        return np.asarray(logs[which] + mean * (x[:, None] / scale) - 0.5 * np.square(mean))

    def loss(x: Array) -> Array:
        return np.asarray(-log_scale - 0.5 * c * x * x + log_of_sum(x, means.size, bumps))

    tilts = (-1.0 / c if c > 0.0 else -math.inf, -1.0 / c if c < 0.0 else math.inf)
    return LineCumulants(log_normal, loss, 0.0, 1.0, spread=float(np.ptp(means)) / scale, bend=c, tilts=tilts)


def _of_one_scale(p: LineMixture, q: LineMixture) -> Cumulants:
    """K of two mixtures of normals of scale 1."""
    farthest = max(float(np.max(np.abs(mixture.means))) for mixture in (p, q))
    return LineCumulants(
        p.log_density,
        lambda x: q.log_density(x) - p.log_density(x),
        0.0,
        1.0 + farthest,
        spread=float(np.ptp(q.means)),
        base_spread=float(np.ptp(p.means)),
    )


def _product_curve(
    dimension: int, p: LineMixture, q: LineMixture, log_scale: float, left_out: float, *, backward: bool
) -> TradeOff:
    """T when x1 and rho are independent: the line's loss by nodes, the rest in closed form; `backward` for use by its inverse."""
    low, high = _line_ends(p, q)
    spread = abs(np.expm1(-2.0 * log_scale)) * np.sqrt(0.5 * (dimension - 1))
    nodes = (high - low) / _smooth_step(p, q, low, high, spread)
    if dimension <= _MANY_DIMENSIONS or nodes > _MOST_NODES:
        cells = _line_cells(p, q, left_out)
        cells = cells.backward() if backward else cells
        if nodes > _WORTHLESS * _MOST_NODES:
            # the loss across is narrower than a thousandth of the line's: the attacker may as well not look
            return cells.one_round()
        return loss_in_cells(cells.several(), dimension - 1, log_scale)
    x, step = np.linspace(low, high, 1 + math.ceil(nodes), retstep=True)
    log_p, log_q = p.log_density(x), q.log_density(x)
    across = tabulated(dimension - 1, log_scale)
    return LossOnLine(log_q - log_p, step * np.exp(log_p), step * np.exp(log_q), across, left_out, _TRAPEZOIDAL)


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
    """Where x1 lies, but for about 1e-17 of either law."""
    ends = []
    for mixture in (p, q):
        seen = mixture.weights > _RARE
        means, scales = mixture.means[seen], mixture.scales[seen]
        # a rare component need not be followed as far
        reach = np.minimum(REACH, np.sqrt(2.0 * np.log(mixture.weights[seen] / _RARE)))
        ends.append((float(np.min(means - reach * scales)), float(np.max(means + reach * scales))))
    return min(low for low, _ in ends), max(high for _, high in ends)


def _line_cells(p: LineMixture, q: LineMixture, left_out: float, moved: float = 0.0, *, width: float = _WIDTH) -> Cells:
    """P and Q of the cell that x1 falls in, of equal width.

    The laws change over a deviation of the noise, or of all there is where neighbouring means are too close to be told apart.
    """
    low, high = _line_ends(p, q)
    scale = min(float(p.scales.min()), float(q.scales.min()))
    blurred = max(np.max(np.diff(np.sort(m.means)), initial=0.0) for m in (p, q)) <= _BLURRED * scale
    width *= min(_deviation(p), _deviation(q)) if blurred else scale
    count = min(max(math.ceil((high - low) / width), _FEWEST_LINE_CELLS), _MOST_LINE_CELLS)
    edges = np.concatenate([[-np.inf], np.linspace(low, high, count), [np.inf]])
    return Cells(p.cell_masses(edges), q.cell_masses(edges), left_out, moved)


def _deviation(mixture: LineMixture) -> float:
    mean = mixture.weights @ mixture.means
    return math.sqrt(mixture.weights @ (np.square(mixture.scales) + np.square(mixture.means - mean)))


def _quantiles(count: int, p: LineMixture, q: LineMixture) -> Array:
    """Edges that cut the even mixture of p and q into cells of equal normal width, nearly: any edges would do."""
    weights, means, scales = (np.concatenate(each)[:, None] for each in zip(_thinned(p), _thinned(q), strict=True))
    x = np.unique(means + scales * np.linspace(-REACH, REACH, 61))
    x = x[:: max(1, x.size // 512)]
    level = ndtri(np.clip(weights.T @ ndtr((x - means) / scales) / weights.sum(), 1e-300, 1.0 - 1e-16))[0]
    rising = np.concatenate([[True], np.diff(np.maximum.accumulate(level)) > 0.0])
    edges = np.unique(np.interp(np.linspace(-REACH, REACH, count - 1), level[rising], x[rising]))
    return np.concatenate([[-np.inf], edges, [np.inf]])


def _thinned(mixture: LineMixture) -> tuple[Array, Array, Array]:
    """Weights, means and scales of a few components, wide enough to fill the gaps between them."""
    likely = np.flatnonzero(mixture.weights > _RARE)
    kept = likely[:: max(1, likely.size // FEW)]
    weights, means, scales = mixture.weights[kept], mixture.means[kept], mixture.scales[kept]
    gaps = np.abs(np.diff(means, append=means[-1])) if kept.size < likely.size else 0.0
    return weights, means, scales + gaps


def _radii(rings: int, dof: int, p: LineMixture, q: LineMixture) -> Array:
    """Edges in rho: the quantiles of its cube root, which is nearly normal (Wilson and Hilferty)."""
    spread = 2.0 / (9.0 * dof)
    roots = []
    for mixture in (p, q):
        size = np.cbrt(dof * np.square(mixture.scales))
        roots.append(LineMixture(mixture.weights, (1.0 - spread) * size, math.sqrt(spread) * size))
    if p.weights.size > FEW:
        edges = _quantiles(rings, *roots)[1:-1]
    else:
        # a few sizes may be far apart: the same levels for each
        means, place = np.unique(np.concatenate([one.means for one in roots]), return_index=True)
        scales = np.concatenate([one.scales for one in roots])[place]
        edges = np.unique(means[:, None] + scales[:, None] * np.linspace(-REACH, REACH, rings // 2))
        edges = edges[:: max(1, edges.size // (2 * rings))]
    return np.unique(np.maximum(edges, 0.1 * float(roots[0].means.min())) ** 3)
