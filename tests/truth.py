r"""The true privacy loss of one or T rounds of DP-SGD on named pairs of datasets, two-sided; without noisymean.

D has N records, D' one more. On a line (every gradient a multiple of one unit vector u) the output of one round is a
Gaussian mixture over the batch sizes along u, and a Gaussian of the same scale across. The law of the numerator (Q
forward, P backward) is cut into cells. With the masses of both laws in a cell, and the least and greatest loss in it:

- every cell merged to one outcome is post-processing: a lower end of delta for one round and for T;
- every cell split into its least and its greatest loss, both masses kept, dominates: an upper end, likewise.

T rounds are a power of a Fourier transform on a uniform grid of losses. For the upper end an outcome between two grid
points is split to both with both masses kept; for the lower end outcomes near a grid point are merged and the loss is
rounded down. Mass outside the windows and the rounding of the transform are counted against each end. Masses of cells
are Gauss-Lobatto sums of the density in logarithms, so that P may be e^-1000 where Q lives (differences of distribution
functions for ASGM in the plane); extrema of the loss inside a cell are allowed for by second differences. These two
are not proofs, but errors far below the width. Units: the noise's standard deviation on D (of a batch of one record
for ASGM) is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, gammaln, log_ndtr, ndtr, xlog1py, xlogy

Array = np.ndarray

# Components and windows leave out mass of this order; the upper end is charged with it.
TINY = 1e-21
# Sizes of batches less likely than this are nowhere the likeliest explanation of an outcome.
LEAST_LOG_WEIGHT = -150.0
CELLS, MIXTURE_WORK, PLANE_WORK = 3000, 60_000, 350_000
LEAST_MASS = 1e-280
POINTS = 1 << 14
# Of delta, what windows of T rounds may leave out.
SHARE = 3e-4


class Setting(NamedTuple):
    """A run. `sample_rate` is None for the loader, `batch_size` for the others; N and n mean nothing to sgm."""

    mechanism: str
    dataset_size: int
    dimension: int
    sample_rate: Fraction | None
    batch_size: int | None
    noise_multiplier: float
    steps: int
    delta: float


class Configuration(NamedTuple):
    """Gradients of D are `shared` times u, the new record's is `new` times u; mixed: floor(N/2) are +u, the rest -u.

    orthogonal: those of D are `shared` times v instead, a unit vector orthogonal to u.
    """

    shared: int
    new: float
    mixed: bool = False
    orthogonal: bool = False


class Loader(NamedTuple):
    """What Opacus 1.x makes of a data loader."""

    rate: float
    told_rate: float
    denominator: int


def loader(size: int, batch_size: int) -> Loader:
    """In Python's floating point, as there."""
    rate = 1 / -(-size // batch_size)
    told = 1 / int(1 / rate)
    return Loader(rate, told, int(size * told))


class Round(NamedTuple):
    """Rates on D and D', log of denominator(D) / denominator(D'); None for asgm, which has none."""

    rate: float
    rate_with: float
    log_scale: float | None


def round_of(setting: Setting) -> Round:
    size = setting.dataset_size
    if setting.mechanism == "opacus-loader":
        assert setting.batch_size is not None
        one, other = loader(size, setting.batch_size), loader(size + 1, setting.batch_size)
        return Round(one.rate, other.rate, _log_ratio(one.denominator, other.denominator))
    assert setting.sample_rate is not None
    rate = float(setting.sample_rate)
    match setting.mechanism:
        case "sgm":
            return Round(rate, rate, 0.0)
        case "easgm":
            return Round(rate, rate, _log_ratio(size, size + 1))
        case "feasgm":
            floors = [max(math.floor(count * setting.sample_rate), 1) for count in (size, size + 1)]
            return Round(rate, rate, _log_ratio(floors[0], floors[1]))
        case _:
            return Round(rate, rate, None)


def _log_ratio(before: int, after: int) -> float:
    return -math.log1p((after - before) / before)


def package_family(setting: Setting) -> list[Configuration]:
    """The pairs that the package's leakage may be named after."""
    it = round_of(setting)
    if it.log_scale is None:
        return [Configuration(1, -1.0), Configuration(1, -0.5), Configuration(0, 1.0)]
    if it.log_scale == 0.0 and it.rate == it.rate_with:
        return [Configuration(0, 1.0)]
    zero = [Configuration(0, new) for new in ((1.0,) if it.log_scale == 0.0 else (1.0, 0.0))]
    aligned = [Configuration(1, new) for new in (-1.0, -0.5, 1.0)]
    across = [Configuration(1, 1.0, orthogonal=True)] if setting.dimension > 1 else []
    return zero + aligned + across


def configurations(setting: Setting) -> list[Configuration]:
    """The pairs at which a guarantee is tested: those of the package, and some that it does not look at."""
    family = package_family(setting)
    if setting.mechanism == "sgm":
        return family
    more = [Configuration(0, 1.0), Configuration(1, -1.0), Configuration(1, 1.0)]
    if setting.dataset_size <= (400 if setting.mechanism != "asgm" else 20 if setting.dimension == 1 else 6):
        more.append(Configuration(0, 1.0, mixed=True))
    if setting.mechanism == "asgm":
        more.append(Configuration(0, 0.5))
    return family + [it for it in more if it not in family]


# --- one round ----------------------------------------------------------------------------------------------------------


class Cells(NamedTuple):
    """Masses of the numerator, the loss of the whole cell, its least and greatest loss; the mass without a cell."""

    mass: Array
    loss: Array
    low: Array
    high: Array
    outside: float

    @classmethod
    def of(cls, log_mass: Array, log_other: Array, low: Array, high: Array, outside: float) -> Cells:
        loss = np.clip(log_mass - log_other, low, high)
        return cls(np.exp(log_mass), loss, low, high, outside)

    def only(self, kept: Array) -> Cells:
        return Cells(self.mass[kept], self.loss[kept], self.low[kept], self.high[kept], self.outside)


# Points that are looked at together: few where there are many components, of which most are far away.
_ROWS = 256


def _log_sum(exponent: Array) -> Array:
    top = exponent.max(axis=-1)
    return top + np.log(np.exp(exponent - top[:, None]).sum(axis=-1))


class Mixture(NamedTuple):
    """Gaussian components on the line; `across` more dimensions of the same scale, of which the radius is looked at."""

    log_weights: Array
    means: Array
    scales: Array
    across: int = 0

    def log_density(self, x: Array, radius: Array | None = None) -> Array:
        """At x, or at x and the radius across (of the chi law, per unit of radius)."""
        constant = self.log_weights - (self.across + 1) * np.log(self.scales) - 0.5 * math.log(2.0 * math.pi)
        if radius is None and self.means.size == 1:
            return constant[0] - 0.5 * ((x - self.means[0]) / self.scales[0]) ** 2
        if radius is None:
            rows = [self._rows(x[at : at + _ROWS], constant) for at in range(0, x.size, _ROWS)]
            return np.concatenate(rows)
        # the exponents are sums of one of x and one of the radius
        along = constant - 0.5 * ((x[:, None] - self.means) / self.scales) ** 2
        around = -0.5 * (radius[:, None] / self.scales) ** 2
        half = self.across / 2.0
        level = xlogy(self.across - 1.0, radius) - (half - 1.0) * math.log(2.0) - gammaln(half)
        return np.stack([_log_sum(row + around) for row in along]) + level

    def _rows(self, x: Array, constant: Array) -> Array:
        """Without the components that are e^-50 of another all over these x."""
        ends = np.array([[x.min()], [x.max()]])
        least = (constant - 0.5 * ((ends - self.means) / self.scales) ** 2).min(axis=0).max()
        nearest = np.clip(self.means, ends[0], ends[1])
        near = constant - 0.5 * ((nearest - self.means) / self.scales) ** 2 > least - 50.0
        z = (x[:, None] - self.means[near]) / self.scales[near]
        return _log_sum(constant[near] - 0.5 * z * z)

    def and_(self, other: Mixture, share: float) -> Mixture:
        """(1 - share) of this one and `share` of the other."""
        with np.errstate(divide="ignore"):
            weights = np.concatenate([self.log_weights + np.log1p(-share), other.log_weights + np.log(share)])
        return Mixture(
            weights,
            np.concatenate([self.means, other.means]),
            np.concatenate([self.scales, other.scales]),
            self.across,
        )


class Pair(NamedTuple):
    """P on D, Q = (1-q) A + q R on D': A without the new record in the batch, R with it.

    `factor` dimensions across are independent of the line; those of the mixtures themselves (ASGM) are not.
    """

    p: Mixture
    a: Mixture
    r: Mixture
    rate: float
    log_scale: float
    factor: int
    # another line, independent of this one
    beside: Pair | None = None

    def cells(self, *, backward: bool, fine: float = 1.0) -> Cells:
        """One round along u (with the radius across where it is no factor)."""
        numerator = self.p if backward else self.a.and_(self.r, self.rate)
        return (_plane_cells if self.p.across else _line_cells)(self, numerator, backward, fine)

    def densities(self, x: Array, radius: Array | None, backward: bool) -> tuple[Array, Array]:
        """Log density of the numerator and the loss, numerator over the other."""
        p = self.p.log_density(x, radius)
        a = p if self.a is self.p else self.a.log_density(x, radius)
        tilt = _log_mean(self.r.log_density(x, radius) - a, self.rate)
        loss = (a - p) + tilt
        return (p, -loss) if backward else (a + tilt, loss)

    def across(self, steps: int, *, backward: bool, fine: float = 1.0) -> Cells | None:
        """All rounds across: one chi-square law of T (n-1) degrees against itself scaled by s^2."""
        freedom, log_scale = steps * self.factor, self.log_scale
        if freedom == 0 or log_scale == 0.0:
            return None
        middle = math.sqrt(freedom)
        edges = np.linspace(max(middle - 10.5, 0.0), middle + 10.5, int(CELLS * fine / 3))
        slope, level = 0.5 * math.expm1(2.0 * log_scale), -freedom * log_scale
        if backward:
            slope, level = 0.5 * math.expm1(-2.0 * log_scale), -level
        # the numerator in its own units: Q over P is level + slope r^2
        middle_loss = level + slope * freedom

        def both(r: Array) -> tuple[Array, Array]:
            with np.errstate(divide="ignore"):
                density = xlogy(freedom - 1.0, r / middle) - 0.5 * (r - middle) * (r + middle)
            return density, middle_loss + slope * (r - middle) * (r + middle)

        cells = _summed(edges, np.ones(edges.size - 1, dtype=bool), both, 0.0, bent=False)
        return cells._replace(mass=cells.mass / cells.mass.sum(), outside=4.0 * TINY)


def pair_of(setting: Setting, configuration: Configuration) -> Pair:
    """One round on the two datasets of the configuration."""
    if configuration.orthogonal:
        line = setting._replace(dimension=setting.dimension - 1)
        beside = pair_of(line, Configuration(configuration.shared, 0.0))
        return pair_of(line, Configuration(0, configuration.new))._replace(beside=beside)
    it, sigma = round_of(setting), setting.noise_multiplier
    weights, sums, sizes = _batches(setting.dataset_size, it.rate, configuration, separate=it.log_scale is None)
    ones = np.ones_like(sums)
    if it.log_scale is None:
        across = setting.dimension - 1
        divisor = np.maximum(sizes, 1.0)
        middle = float(configuration.shared)
        p = Mixture(weights, (sums / divisor - middle) / sigma, ones / divisor, across)
        with_new = (sums - middle * sizes + configuration.new - middle) / (sizes + 1.0)
        r = Mixture(weights, with_new / sigma, ones / (sizes + 1.0), across)
        return Pair(p, p, r, it.rate, 0.0, 0)
    scale = math.exp(it.log_scale)
    middle = float(sums[np.argmax(weights)])
    p = Mixture(weights, (sums - middle) / sigma, ones)
    a = p
    if it.log_scale != 0.0 or it.rate != it.rate_with:
        weights, sums, _ = _batches(setting.dataset_size, it.rate_with, configuration, separate=False)
        shrunk = (sums - middle) + sums * math.expm1(it.log_scale)
        a = Mixture(weights, shrunk / sigma, np.full_like(sums, scale))
    r = a._replace(means=a.means + scale * configuration.new / sigma)
    return Pair(p, a, r, it.rate_with, it.log_scale, setting.dimension - 1)


def _binomial(count: int, rate: float, *, every: bool) -> tuple[Array, Array]:
    """Sizes and log weights of the batches: every size, or those that matter where all scales are the same."""
    if rate == 1.0:
        return np.array([float(count)]), np.zeros(1)
    deviation = math.sqrt(count * rate * (1.0 - rate))
    far = count if every else 20 * deviation + 200
    low, high = max(0, int(count * rate - far)), min(count, int(count * rate + far) + 1)
    sizes = np.arange(low, high + 1, dtype=float)
    weights = gammaln(count + 1.0) - gammaln(sizes + 1.0) - gammaln(count - sizes + 1.0)
    weights += xlogy(sizes, rate) + xlog1py(count - sizes, -rate)
    if every:
        return sizes, weights
    kept = np.flatnonzero(weights >= LEAST_LOG_WEIGHT)
    few = slice(max(kept[0] - 3, 0), kept[-1] + 4)
    return sizes[few], weights[few]


def _batches(count: int, rate: float, configuration: Configuration, *, separate: bool) -> tuple[Array, Array, Array]:
    """Log weights, sums along u and sizes of the batches; sizes told apart where `separate`."""
    if not configuration.mixed:
        sizes, weights = _binomial(count, rate, every=separate)
        if not separate and configuration.shared == 0:
            return np.zeros(1), np.zeros(1), np.zeros(1)
        return weights, configuration.shared * sizes, sizes
    plus, plus_weights = _binomial(count // 2, rate, every=separate)
    minus, minus_weights = _binomial(count - count // 2, rate, every=separate)
    weights = (plus_weights[:, None] + minus_weights).ravel()
    sums, sizes = (plus[:, None] - minus).ravel(), (plus[:, None] + minus).ravel()
    if separate:
        return weights, sums, sizes
    values, place = np.unique(sums, return_inverse=True)
    total = np.full(values.size, -np.inf)
    np.logaddexp.at(total, place, weights)
    return total, values, values


def _log_mean(x: Array, rate: float) -> Array:
    """log(1 - q + q e^x) without loss of digits near 0."""
    if rate == 1.0:
        return x
    with np.errstate(over="ignore"):
        near = np.log1p(rate * np.expm1(np.clip(x, -1.0, 1.0)))
        far = np.logaddexp(math.log1p(-rate), math.log(rate) + x)
    return np.where(np.abs(x) <= 1.0, near, far)


def _edges(left: Array, right: Array, density: Array, count: int) -> tuple[Array, Array]:
    """Edges of about `count` cells over the intervals, as dense as the narrowest there; which cells are in one."""
    points = np.unique(np.concatenate([left, right]))
    middle = (points[1:] + points[:-1]) / 2.0
    covered = (left <= middle[:, None]) & (middle[:, None] <= right)
    height = np.where(covered, density, 0.0).max(axis=1)
    measure = np.concatenate([[0.0], np.cumsum(height * np.diff(points))])
    edges = np.interp(np.linspace(0.0, measure[-1], count + 1), measure, points)
    gaps = height == 0.0
    edges = np.unique(np.concatenate([edges, points[:-1][gaps], points[1:][gaps], points[[0, -1]]]))
    centres = (edges[1:] + edges[:-1]) / 2.0
    inside = height[np.clip(np.searchsorted(points, centres) - 1, 0, height.size - 1)] > 0.0
    return edges, inside


def _reach(mixture: Mixture) -> tuple[Array, Array, float]:
    """Components that have mass to show, how many deviations of each, and what is left out of all."""
    present = mixture.log_weights > math.log(TINY)
    reach = np.sqrt(2.0 * (mixture.log_weights[present] - math.log(TINY)))
    left_out = np.exp(mixture.log_weights[~present]).sum()
    left_out += 2.0 * np.exp(mixture.log_weights[present] + log_ndtr(-reach)).sum()
    return present, reach, float(left_out)


_LOBATTO = 1.0 / math.sqrt(5.0)


def _summed(
    edges: Array, inside: Array, both: Callable[[Array], tuple[Array, Array]], outside: float, *, bent: bool = True
) -> Cells:
    """Cells between edges by four points each; `bent`: the loss may have an extremum between two of them."""
    left, right = edges[:-1][inside], edges[1:][inside]
    half = (right - left) / 2.0
    centre = left + half
    density, loss = both(np.concatenate([edges, centre - half * _LOBATTO, centre + half * _LOBATTO]))
    first, second = edges.size, edges.size + left.size

    def four(values: Array) -> Array:
        return np.stack(
            [values[:first][:-1][inside], values[first:second], values[second:], values[:first][1:][inside]]
        )

    densities, losses = four(density), four(loss)
    weights = np.array([1.0, 5.0, 5.0, 1.0])[:, None] / 6.0
    low, high = losses.min(axis=0), losses.max(axis=0)
    if bent:
        bend = np.abs(np.diff(losses, n=2, axis=0)).max(axis=0)
        low, high = low - 0.25 * bend, high + 0.25 * bend
    top = densities.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    relative = weights * np.exp(densities - top)
    centre_loss = losses[1]
    mass = relative.sum(axis=0)
    other = (relative * np.exp(centre_loss - losses)).sum(axis=0)
    log_mass = np.log(half) + top + np.log(mass)
    return Cells.of(log_mass, log_mass - centre_loss + np.log(other / mass), low, high, outside)


def _line_cells(pair: Pair, numerator: Mixture, backward: bool, fine: float) -> Cells:
    present, reach, outside = _reach(numerator)
    means, scales = numerator.means[present], numerator.scales[present]
    left, right = means - reach * scales, means + reach * scales
    # components that are close together are all worked out at every point there
    overlap = (right - left).sum() / (right.max() - left.min()) if np.ptp(scales) == 0.0 else means.size
    count = int(min(max(MIXTURE_WORK / max(overlap, 1.0), 1000), CELLS) * fine)
    edges, inside = _edges(left, right, 1.0 / scales, count)
    return _summed(edges, inside, lambda x: pair.densities(x, None, backward), outside)


def _plane_cells(pair: Pair, numerator: Mixture, backward: bool, fine: float) -> Cells:
    """Cells of (x, radius across) by distribution functions; losses at the corners."""
    present, reach, outside = _reach(numerator)
    means, scales, centre = numerator.means[present], numerator.scales[present], math.sqrt(numerator.across)
    count = int(fine * min(max(math.sqrt(PLANE_WORK / (2 * pair.p.means.size)), 80), 300))
    # the density is zero at radius 0 but for one dimension; what is left out is of the order of the square
    least = 0.0 if numerator.across == 1 else 1e-12
    x, inside_x = _edges(means - reach * scales, means + reach * scales, 1.0 / scales, count)
    r, inside_r = _edges(
        np.maximum(centre - reach - 1.0, least) * scales, (centre + reach) * scales, 1.0 / scales, count
    )
    _, losses = pair.densities(x, r, backward)
    inside = inside_x[:, None] & inside_r
    p, with_new = (_rectangles(mixture, x, r)[inside] for mixture in (pair.p, pair.r))
    corners = np.stack([losses[:-1, :-1], losses[1:, :-1], losses[:-1, 1:], losses[1:, 1:]])[:, inside]
    bend = np.zeros_like(losses)
    bend[1:-1] += np.abs(np.diff(losses, n=2, axis=0))
    bend[:, 1:-1] += np.abs(np.diff(losses, n=2, axis=1))
    bend = np.maximum(np.maximum(bend[:-1, :-1], bend[1:, :-1]), np.maximum(bend[:-1, 1:], bend[1:, 1:]))[inside]
    low, high = corners.min(axis=0) - 0.25 * bend, corners.max(axis=0) + 0.25 * bend
    mass = p if backward else (1.0 - pair.rate) * p + pair.rate * with_new
    # where a mass is too small to be written down the least of the losses in the cell is what is certain
    known = (p > LEAST_MASS) & (with_new > LEAST_MASS)
    ratio = np.log(np.where(known, with_new, 1.0)) - np.log(np.where(known, p, 1.0))
    loss = _log_mean(ratio, pair.rate) * (-1.0 if backward else 1.0)
    loss = np.clip(np.where(known, loss, low), low, high)
    # there both ends are wanted, and the loss in between is not known: the upper end takes the greatest
    low = np.where(known, low, high)
    return Cells(mass, loss, low, high, outside + 8.0 * TINY)


def _rectangles(mixture: Mixture, x: Array, r: Array) -> Array:
    """Masses between the edges, each difference taken in the smaller tail."""
    z = (x[:, None] - mixture.means) / mixture.scales
    along = np.where(z[1:] < 0.0, np.diff(ndtr(z), axis=0), -np.diff(ndtr(-z), axis=0))
    half, square = mixture.across / 2.0, 0.5 * (r[:, None] / mixture.scales) ** 2
    around = np.where(
        square[1:] < half, np.diff(gammainc(half, square), axis=0), -np.diff(gammaincc(half, square), axis=0)
    )
    return (along * np.exp(mixture.log_weights)) @ around.T


# --- many rounds --------------------------------------------------------------------------------------------------------


class Losses(NamedTuple):
    """A loss under the numerator's law: delta is the sum of mass (1 - e^(epsilon - loss))_+, and a charge besides."""

    loss: Array
    mass: Array
    charge: float

    def delta(self, epsilon: float) -> float:
        above = self.loss > epsilon
        total = float(-(self.mass[above] @ np.expm1(epsilon - self.loss[above]))) + self.charge
        return min(max(total, 0.0), 1.0)

    def epsilon(self, delta: float) -> float:
        if self.delta(0.0) <= delta:
            return 0.0
        top = float(self.loss.max())
        if self.delta(top) > delta:
            return math.inf
        return float(brentq(lambda epsilon: self.delta(epsilon) - delta, 0.0, top, xtol=1e-13 * top, rtol=1e-12))


def _share_above(low: Array, high: Array, loss: Array) -> Array:
    """Of a mass at `loss`, what goes to `high` when it is split to `low` and `high`, masses of both laws kept."""
    width = high - low
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.expm1(low - loss) / np.expm1(-width)
    return np.clip(np.where(width > 0.0, share, 1.0), 0.0, 1.0)


def _split(cells: Cells) -> tuple[Array, Array]:
    share = _share_above(cells.low, cells.high, cells.loss)
    return np.concatenate([cells.low, cells.high]), np.concatenate([cells.mass * (1.0 - share), cells.mass * share])


class Window(NamedTuple):
    """The losses j h with first <= j < first + points hold the sum of all rounds but for `left_out` at either end."""

    step: float
    first: int
    points: int
    left_out: float


def _trimmed(cells: Cells, each: float) -> tuple[Cells, float, float]:
    """Without the cells of the greatest and the least losses, `each` of mass at most; the masses taken away."""
    order = np.argsort(cells.high)
    total = np.cumsum(cells.mass[order])
    above = np.cumsum(cells.mass[order][::-1])[::-1]
    top, bottom = order[above <= each], order[total <= each]
    kept = np.ones(cells.mass.size, dtype=bool)
    kept[top] = kept[bottom] = False
    lost_top, lost_bottom = float(cells.mass[top].sum()), float(cells.mass[bottom].sum())
    return cells.only(kept), lost_top, lost_bottom


def _without_hopeless(parts: list[tuple[int, Cells]]) -> list[tuple[int, Cells]]:
    """Without losses so low that the sum is below 0 whatever the others are: no delta(epsilon >= 0) knows of them."""
    most = sum(n * float(c.high.max()) for n, c in parts)
    kept = []
    for n, cells in parts:
        hopeful = cells.high + (most - float(cells.high.max())) >= 0.0
        kept.append((n, cells.only(hopeful) if hopeful.any() else cells))
    return kept


def _window(parts: list[tuple[int, Cells]], left_out: float, points: int) -> Window:
    """By Chernoff's bound."""
    variance = sum(n * float(c.mass @ (c.loss - c.mass @ c.loss) ** 2) for n, c in parts)
    spread = max(math.sqrt(variance), 1e-300)

    def bound(tilt: float, sign: float) -> float:
        total = -math.log(left_out)
        for n, c in parts:
            exponent = tilt * sign * (c.high if sign > 0 else c.low)
            top = float(exponent.max())
            total += n * (top + math.log(c.mass @ np.exp(exponent - top)))
        return total / tilt

    ends = []
    for sign in (1.0, -1.0):
        tilts = np.geomspace(0.01, 40.0, 9) / spread
        best = min(tilts, key=lambda tilt: bound(tilt, sign))
        near = best * np.geomspace(0.45, 2.2, 6)
        ends.append(sign * min(bound(tilt, sign) for tilt in near))
    rounds = sum(n for n, _ in parts)
    # a loss that is one number still needs a grid
    width = max(ends[0] - ends[1], 1e-6 * max(abs(ends[0]), abs(ends[1])), 1e-250)
    step = width / (points - 3 * rounds - 12)
    return Window(step, math.floor(ends[1] / step) - rounds - 4, points, left_out)


def _upper_grid(cells: Cells, window: Window) -> tuple[Array, float]:
    """Masses on the grid, and how far below it they really are (here not at all)."""
    loss, mass = _split(cells)
    place = np.floor(loss / window.step)
    share = _share_above(place * window.step, (place + 1.0) * window.step, loss)
    index = place.astype(np.int64) % window.points
    grid = np.bincount(index, mass * (1.0 - share), window.points)
    return grid + np.bincount((index + 1) % window.points, mass * share, window.points), 0.0


def _lower_grid(cells: Cells, window: Window) -> tuple[Array, float]:
    """A cell goes to either of the two grid points beside it, sooner to the nearer, and what comes together is merged.

    That is a little more or less than the grid point: the whole grid is moved down by a little.
    """
    place = np.floor(cells.loss / window.step)
    near = cells.loss / window.step - place
    index = place.astype(np.int64)
    first = int(index.min())
    mass = np.bincount(
        np.concatenate([index, index + 1]) - first, np.concatenate([cells.mass * (1.0 - near), cells.mass * near])
    )
    # masses of the other law, times e^(the grid point)
    other = cells.mass * np.exp(place * window.step - cells.loss)
    shares = np.concatenate([other * (1.0 - near), other * (near * math.exp(window.step))])
    other = np.bincount(np.concatenate([index, index + 1]) - first, shares)
    present = mass > 0.0
    short = np.zeros_like(mass)
    short[present] = np.maximum(np.log(other[present] / mass[present]), 0.0)
    # moved down by that much all smaller shortfalls are covered; the others are moved down by one more step
    order = np.argsort(short)
    uncovered = np.maximum(mass.sum() - np.cumsum(mass[order]), 0.0)
    down = short[order][np.argmin(short[order] + window.step * uncovered)]
    index = first + np.arange(mass.size) - (short > down)
    return np.bincount(index % window.points, mass, window.points), float(down)


def _composed(parts: list[tuple[int, Cells]], delta: float, points: int) -> tuple[Losses, Losses]:
    """(lower, upper) ends of the law of the sum of the losses of all rounds."""
    rounds = sum(n for n, _ in parts)
    trimmed, infinite = [], 0.0
    for n, cells in parts:
        kept, top, bottom = _trimmed(cells, SHARE * delta / (8.0 * n))
        # of what is taken away at the bottom nothing is known any more: for the upper end it is beyond everything
        infinite += n * (top + bottom + cells.outside)
        trimmed.append((n, kept))
    trimmed = _without_hopeless(trimmed)
    window = _window(trimmed, SHARE * delta, points)
    rounding = 4e-16 * (rounds + 10)
    ends = []
    for grid, charge in (
        (_lower_grid, -window.left_out - rounding),
        (_upper_grid, window.left_out + rounding + infinite),
    ):
        transform: Array | float = 1.0
        moved = 0.0
        for n, cells in trimmed:
            masses, down = grid(cells, window)
            transform, moved = transform * np.fft.rfft(masses) ** n, moved + n * down
        mass = np.roll(np.fft.irfft(transform, window.points), -(window.first % window.points))
        loss = (window.first + np.arange(window.points)) * window.step - moved
        ends.append(Losses(loss, np.maximum(mass, 0.0) if charge > 0 else mass, charge))
    return ends[0], ends[1]


class Truth:
    """delta(epsilon) and epsilon(delta) of all rounds on one pair of datasets, (lower, upper) end.

    Windows leave out a share of the setting's delta: much smaller deltas are not resolved.
    """

    def __init__(self, pair: Pair, steps: int, delta: float, fine: float = 1.0) -> None:
        self.pair, self.steps, self.least, self.fine = pair, steps, delta, fine

    def delta(self, epsilon: float, *, backward: bool) -> tuple[float, float]:
        """Forward: sup Q(A) - e^epsilon P(A), Q the law on D'."""
        lower, upper = self._ends(backward)
        return lower.delta(epsilon), upper.delta(epsilon)

    def epsilon(self, delta: float, *, backward: bool) -> tuple[float, float]:
        """The least epsilon >= 0 with delta(epsilon) <= delta."""
        lower, upper = self._ends(backward)
        return lower.epsilon(delta), upper.epsilon(delta)

    def _ends(self, backward: bool) -> tuple[Losses, Losses]:
        return self._backward if backward else self._forward

    @cached_property
    def _forward(self) -> tuple[Losses, Losses]:
        return self._made(False)

    @cached_property
    def _backward(self) -> tuple[Losses, Losses]:
        return self._made(True)

    def _made(self, backward: bool) -> tuple[Losses, Losses]:
        along = self.pair.cells(backward=backward, fine=self.fine)
        across = self.pair.across(self.steps, backward=backward, fine=self.fine)
        beside = self.pair.beside
        if self.steps == 1 and across is None and beside is None:
            return Losses(along.loss, along.mass, 0.0), Losses(*_split(along), along.outside)
        parts = [(self.steps, along)] if across is None else [(self.steps, along), (1, across)]
        if beside is not None:
            parts.append((self.steps, beside.cells(backward=backward, fine=self.fine)))
        return _composed(parts, self.least, int(POINTS * self.fine))


def truth(setting: Setting, configuration: Configuration, *, fine: float = 1.0) -> Truth:
    """All rounds of the setting; `fine` times as many cells and grid points as usual."""
    return Truth(pair_of(setting, configuration), setting.steps, setting.delta, fine)


def sgm_epsilon(rate: float, sigma: float, steps: int, delta: float) -> tuple[float, float]:
    """The noisy sum at that rate, (lower, upper) end of the larger direction."""
    p = Mixture(np.zeros(1), np.zeros(1), np.ones(1))
    it = Truth(Pair(p, p, p._replace(means=np.array([1.0 / sigma])), rate, 0.0, 0), steps, delta)
    ends = [it.epsilon(delta, backward=backward) for backward in (False, True)]
    return max(low for low, _ in ends), max(high for _, high in ends)


# --- random settings ----------------------------------------------------------------------------------------------------

MECHANISMS = ("sgm", "easgm", "feasgm", "asgm", "opacus-loader")
# Lengths L of a loader with int(1 / (1 / L)) = L - 1.
SHORT_EPOCHS = tuple(length for length in range(1, 400) if int(1 / (1 / length)) != length)


class _Draw:
    """Numbers from one generator, as users type them."""

    def __init__(self, number: int) -> None:
        self.generator = np.random.default_rng(number)

    def spread(self, low: float, high: float) -> float:
        return float(np.exp(self.generator.uniform(np.log(low), np.log(high))))

    def typed(self, value: float, digits: int) -> Fraction:
        return Fraction(f"{value:.{digits}g}")

    def size(self, most: float) -> int:
        return round(self.spread(0.51, most))

    def chance(self, probability: float) -> bool:
        return bool(self.generator.random() < probability)

    def whole(self, low: int, high: int) -> int:
        return int(self.generator.integers(low, high + 1))

    def rate(self, size: int) -> Fraction:
        match self.whole(0, 9):
            case 0:
                return Fraction(1)
            case 1 | 2:
                return min(self.typed(self.spread(1e-9, 1.0), self.whole(1, 3)), Fraction(1))
            case 3 | 4 | 5:
                return self.typed(self.generator.uniform(0.01, 0.99), self.whole(1, 3))
            case 6:
                return Fraction(1, self.size(1000))
            case 7:
                return Fraction(2 ** self.whole(4, 12), self.whole(5, 70) * 1000)
            case _:
                close = 1.0 - self.spread(0.05, 5.0) / (size + 1)
                return max(self.typed(max(close, 0.01), self.whole(2, 6)), Fraction(1, 100))


def random_setting(number: int) -> Setting:
    """The same run for the same number everywhere."""
    draw = _Draw(number)
    mechanism = MECHANISMS[draw.whole(0, 4)]
    sigma = float(f"{draw.spread(0.02, 1000.0):.{draw.whole(1, 3)}g}")
    steps = 1 if draw.chance(0.4) else round(draw.spread(1.6, 100.0))
    delta = float(f"{draw.spread(1e-12, 1e-1):.{draw.whole(1, 3)}g}")
    size, dimension = draw.size(300.0 if sigma > 0.3 else 60.0), draw.size(1e5)
    if mechanism == "opacus-loader":
        batch_size, size = _typed_loader(draw, sigma)
        return Setting(mechanism, size, dimension, None, batch_size, sigma, steps, delta)
    if mechanism == "asgm":
        dimension = 1 if draw.chance(0.6) else draw.size(60.0)
        size = size if dimension == 1 else draw.size(12.0)
    size = max(size, 1)
    rate = draw.rate(size)
    if mechanism == "sgm":
        size, dimension = 1, 1
    if mechanism == "feasgm" and draw.chance(0.8):
        # the largest N below which the floor moves, of those that are not too large
        rate = max(rate, Fraction(1, 10_000))
        level = max(math.floor(size * rate), 2)
        size = math.ceil(level / rate) - 1
    return Setting(mechanism, max(size, 1), dimension, rate, None, sigma, steps, delta)


def _typed_loader(draw: _Draw, sigma: float) -> tuple[int, int]:
    """Batch size and N; a third of the time an accountant that is told another rate, a third where the rate moves."""
    while True:
        if draw.chance(0.35):
            length, batch_size = SHORT_EPOCHS[draw.whole(0, len(SHORT_EPOCHS) - 1)], draw.size(12.0)
        else:
            batch_size = draw.size(60.0 if sigma > 0.3 else 12.0)
            length = draw.size(5000.0 / batch_size)
        batch_size, length = max(batch_size, 1), max(length, 1)
        size = (
            length * batch_size if draw.chance(0.3) else draw.whole((length - 1) * batch_size + 1, length * batch_size)
        )
        if size >= batch_size and all(loader(count, batch_size).denominator >= 1 for count in (size, size + 1)):
            return batch_size, size
