r"""The true privacy loss of one or T rounds on small sets of gradients, from below; without noisymean.

In units of the noise of D, one round on D and on D' = D plus one record is

    P = sum of B_i g_i/sigma + Z,        Q = r (sum of B'_i g_i + B' g)/sigma + s Z,        B_i ~ Bern(q),  B'_i, B' ~ Bern(q'),

|g_i|, |g| <= 1, Z standard normal in one or two dimensions. Both laws are finite mixtures, by enumeration: sums on a lattice on a
line, each axis by itself where gradients lie on two axes, all 2^N batches in the plane.

Everything is a **lower** end of delta(epsilon), and an upper end of f(alpha): the output is cut into cells, which is
post-processing, with masses of cells from the normal distribution function (sums of positive terms, so that they are right to
rounding). T rounds are products of Fourier transforms on a grid of losses; losses are rounded down, those below the grid are
dropped, those above it lowered to its end, and what a transform may round by is taken off. So whoever is below is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

Array = np.ndarray

# Gradients on a line are multiples of 1/LATTICE.
LATTICE = 8
# Standard deviations that are looked at beyond the outermost means, cells in each, and in the plane.
REACH, CELLS, CELLS_IN_PLANE = 9.0, 64, 20
# Masses of the numerator that a grid of losses may leave out, its points in all, and what transforms may round delta by.
LEFT_OUT, POINTS, ROUNDING = 1e-14, 1 << 18, 1e-13


class Moved(NamedTuple):
    """What moves between D and D': rates, r = c(D)/c(D'), s = r sigma'/sigma; and sigma of D."""

    rate: float
    rate_with: float
    shrink: float
    scale: float
    sigma: float


class Losses(NamedTuple):
    """Outcomes of one round: mass in the numerator, and log of numerator over denominator."""

    mass: Array
    loss: Array

    def delta(self, epsilon: float) -> float:
        """Of these outcomes by themselves."""
        over = self.loss > epsilon
        return float(self.mass[over] @ -np.expm1(epsilon - self.loss[over]))

    @classmethod
    def of(cls, numerator: Array, denominator: Array) -> Losses:
        seen = (numerator > 1e-250) & (denominator > 1e-250)
        mass, other = numerator[seen], denominator[seen]
        return cls(mass, np.log(mass) - np.log(other))


# --- one round -------------------------------------------------------------------------------------------------------------


class Mixture(NamedTuple):
    """Normal laws of one scale, in as many dimensions as their means have."""

    weights: Array
    # (components, dimensions)
    means: Array
    scale: float

    def masses(self, edges: Sequence[Array]) -> Array:
        """Of all cells between the edges, one array of edges for each dimension."""
        along = [_cell_masses(line, self.means[:, i], self.scale) for i, line in enumerate(edges)]
        if len(along) == 1:
            return along[0] @ self.weights
        return ((along[0] * self.weights) @ along[1].T).ravel()


def _cell_masses(edges: Array, means: Array, scale: float) -> Array:
    """(cells, components); of the smaller tail, so that far cells keep their digits."""
    z = (edges[:, None] - means) / scale
    tail = ndtr(-np.abs(z))
    across = (z[:-1] < 0.0) & (z[1:] > 0.0)
    return np.where(across, 1.0 - tail[1:] - tail[:-1], np.abs(np.diff(tail, axis=0)))


class Axis(NamedTuple):
    """Both laws on one line, or in the plane, independent of the rest of the output."""

    p: Mixture
    q: Mixture

    def edges(self) -> list[Array]:
        width = min(self.p.scale, self.q.scale) / (CELLS if self.p.means.shape[1] == 1 else CELLS_IN_PLANE)
        found = []
        for i in range(self.p.means.shape[1]):
            ends = [
                (law.means[:, i].min() - REACH * law.scale, law.means[:, i].max() + REACH * law.scale)
                for law in (self.p, self.q)
            ]
            low, high = min(one for one, _ in ends), max(one for _, one in ends)
            # 0 is an edge, so that outputs can be told apart by their sign
            found.append(np.arange(math.floor(low / width), math.ceil(high / width) + 1) * width)
        return found

    def masses(self) -> tuple[Array, Array]:
        """Of P and of Q in every cell."""
        edges = self.edges()
        return self.p.masses(edges), self.q.masses(edges)

    def losses(self, *, backward: bool) -> Losses:
        p, q = self.masses()
        return Losses.of(p, q) if backward else Losses.of(q, p)


class Gradients(NamedTuple):
    """Those of D, (N, n), and the new record's, (n,); none is longer than 1."""

    shared: Array
    new: Array

    def axes(self, moved: Moved) -> list[Axis]:
        """Both laws: one axis after the other where all gradients lie on axes, else in the plane."""
        on_axes = all(np.count_nonzero(one) <= 1 for one in (*self.shared, self.new))
        if on_axes:
            return [_on_line(self.shared[:, i], float(self.new[i]), moved) for i in range(self.new.size)]
        return [_in_plane(self, moved)]


def _on_line(shared: Array, new: float, moved: Moved) -> Axis:
    sums, weights = _lattice_sums(shared, moved.rate)
    sums_with, weights_with = _lattice_sums(shared, moved.rate_with)
    return _axis(sums[:, None], weights, sums_with[:, None], weights_with, np.array([new]), moved)


def _lattice_sums(gradients: Array, rate: float) -> tuple[Array, Array]:
    """Distinct sums of a batch, and their probabilities, one record after the other."""
    steps = np.rint(gradients * LATTICE).astype(int)
    assert np.all(steps == gradients * LATTICE), "gradients on a line are multiples of 1/LATTICE"
    law = {0: 1.0}
    for step in steps[steps != 0]:
        grown: dict[int, float] = {}
        for total, weight in law.items():
            grown[total] = grown.get(total, 0.0) + (1.0 - rate) * weight
            grown[total + step] = grown.get(total + step, 0.0) + rate * weight
        law = grown
    return np.array(list(law), dtype=float) / LATTICE, np.array(list(law.values()))


def _in_plane(gradients: Gradients, moved: Moved) -> Axis:
    count = len(gradients.shared)
    chosen = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    sums, sizes = chosen @ gradients.shared, chosen.sum(axis=1)
    weights, weights_with = (q**sizes * (1.0 - q) ** (count - sizes) for q in (moved.rate, moved.rate_with))
    return _axis(sums, weights, sums, weights_with, gradients.new, moved)


def _axis(sums: Array, weights: Array, sums_with: Array, weights_with: Array, new: Array, moved: Moved) -> Axis:
    joins = moved.rate_with
    if np.any(new):
        sums_with = np.concatenate([sums_with, sums_with + new])
        weights_with = np.concatenate([(1.0 - joins) * weights_with, joins * weights_with])
    return Axis(
        Mixture(weights, sums / moved.sigma, 1.0),
        Mixture(weights_with, moved.shrink * sums_with / moved.sigma, moved.scale),
    )


# --- T rounds --------------------------------------------------------------------------------------------------------------


class Truth:
    """delta(epsilon) from below of a sum of independent losses, each a few times; several such sums are mixed."""

    def __init__(self, branches: Sequence[Sequence[tuple[int, Losses]]]) -> None:
        self.branches = branches

    @cached_property
    def _single(self) -> bool:
        return all(sum(count for count, _ in parts) == 1 for parts in self.branches)

    @cached_property
    def _sums(self) -> list[Losses]:
        return [_composed(parts) for parts in self.branches]

    def delta(self, epsilon: float) -> float:
        """Never above the true delta at epsilon."""
        if self._single:
            return max(sum(parts[0][1].delta(epsilon) for parts in self.branches) * (1.0 - 1e-10) - 1e-16, 0.0)
        return max(sum(one.delta(epsilon) for one in self._sums) - ROUNDING, 0.0)

    def epsilon(self, delta: float) -> float:
        """Never above the true epsilon at delta, to 1e-6."""
        low, high = 0.0, 1.0
        if self.delta(low) <= delta:
            return 0.0
        while self.delta(high) > delta:
            low, high = high, 2.0 * high
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return low


def _composed(parts: Sequence[tuple[int, Losses]]) -> Losses:
    """The sum of independent losses on one grid, rounded down."""
    ends = [_ends(losses) for _, losses in parts]
    width = sum(count * (high - low) for (count, _), (low, high) in zip(parts, ends, strict=True))
    step = max(width, 1e-9) / POINTS
    size = 1
    placed = []
    for (count, losses), (low, high) in zip(parts, ends, strict=True):
        bottom = math.floor(low / step)
        cells = math.floor(high / step) - bottom + 1
        kept = losses.loss >= low
        place = np.floor(np.minimum(losses.loss[kept], high) / step).astype(int) - bottom
        placed.append((count, bottom, np.bincount(np.clip(place, 0, cells - 1), losses.mass[kept], cells)))
        size += count * (cells - 1)
    length = 1 << (size - 1).bit_length()
    transform = np.ones(length // 2 + 1, dtype=complex)
    for count, _, mass in placed:
        transform *= np.fft.rfft(mass, length) ** count
    bottom = sum(count * low for count, low, _ in placed)
    return Losses(np.fft.irfft(transform, length)[:size], (bottom + np.arange(size)) * step)


def _ends(losses: Losses) -> tuple[float, float]:
    """Between which all but a little of the numerator lies; its upper end is not left out."""
    order = np.argsort(losses.loss)
    loss, below = losses.loss[order], np.cumsum(losses.mass[order])
    low = loss[min(int(np.searchsorted(below, LEFT_OUT)), loss.size - 1)]
    high = loss[min(int(np.searchsorted(below, below[-1] - LEFT_OUT)), loss.size - 1)]
    return float(low), float(high)


def truth(moved: Moved, gradients: Gradients, steps: int, *, backward: bool) -> Truth:
    """T rounds on the same gradients; `backward`: P told from Q."""
    return Truth([[(steps, axis.losses(backward=backward)) for axis in gradients.axes(moved)]])


def adaptive_truth(moved: Moved, first: Gradients, then: tuple[Gradients, Gradients], *, backward: bool) -> Truth:
    """Two rounds in one dimension: the second on `then[0]` where the first output is negative, else on `then[1]`."""
    (axis,) = first.axes(moved)
    positive = axis.edges()[0][:-1] >= -1e-12
    p, q = axis.masses()
    numerator, denominator = (p, q) if backward else (q, p)
    branches = []
    for after, seen in zip(then, (~positive, positive), strict=True):
        here = Losses.of(numerator[seen], denominator[seen])
        branches.append([(1, here), *((1, one.losses(backward=backward)) for one in after.axes(moved))])
    return Truth(branches)


def tradeoff(moved: Moved, gradients: Gradients, alpha: Array) -> Array:
    """f(alpha) of one round on a line, D' told from D, from above: cells as they are."""
    (axis,) = gradients.axes(moved)
    p, q = axis.masses()
    order = np.argsort(-(np.log(np.maximum(q, 1e-300)) - np.log(np.maximum(p, 1e-300))))
    # q of the likeliest cells is found by a test of their p; between two cells the test is randomised
    caught = np.concatenate([[0.0], np.cumsum(q[order])])
    alarms = np.concatenate([[0.0], np.cumsum(p[order])])
    return np.asarray(1.0 - np.interp(alpha, alarms, caught) * (1.0 - 1e-12) + 1e-13)


# --- sets of gradients -----------------------------------------------------------------------------------------------------

ON_A_LINE = ("zero", "aligned", "opposed", "mixed signs", "mixed lengths", "short")
ON_TWO_AXES = ("orthogonal", "two axes")
IN_PLANE = ("plane", "circle")
MOST_IN_PLANE = 7


def families(size: int, dimension: int) -> tuple[str, ...]:
    """Those that there are for N records in n dimensions."""
    if dimension == 1:
        return ON_A_LINE
    return ON_A_LINE + ON_TWO_AXES + (IN_PLANE if size <= MOST_IN_PLANE else ())


def gradients_of(family: str, size: int, dimension: int, generator: np.random.Generator) -> Gradients:
    """One set of a family; lengths and signs from the generator."""
    e = np.eye(dimension)
    signs = generator.choice([-1.0, 1.0], size)
    lengths = generator.integers(-LATTICE, LATTICE + 1, size) / LATTICE
    newest = float(generator.choice([1.0, 1.0, 0.5, -1.0]))
    match family:
        case "zero":
            return Gradients(np.zeros((size, dimension)), e[0])
        case "aligned":
            return Gradients(np.tile(e[0], (size, 1)), e[0])
        case "opposed":
            return Gradients(np.tile(-e[0], (size, 1)), e[0])
        case "mixed signs":
            return Gradients(signs[:, None] * e[0], newest * e[0])
        case "mixed lengths":
            return Gradients(lengths[:, None] * e[0], newest * e[0])
        case "short":
            return Gradients(np.tile(0.125 * generator.integers(1, 5) * e[0], (size, 1)), newest * e[0])
        case "orthogonal":
            return Gradients(np.tile(e[1], (size, 1)), e[0])
        case "two axes":
            return Gradients(signs[:, None] * e[generator.integers(0, 2, size)], newest * e[0])
        case "plane" | "circle":
            angles = generator.uniform(0.0, 2.0 * math.pi, size + 1)
            radii = np.ones(size + 1) if family == "circle" else generator.uniform(0.0, 1.0, size + 1) ** 0.5
            radii[-1] = 1.0
            every = radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
            return Gradients(every[:-1], every[-1])
    raise ValueError(family)


# --- the lift --------------------------------------------------------------------------------------------------------------


def rho(y: Array, ratio: float, length: float) -> Array:
    """h/phi of Lemma 1 from its definition, in doubles: G(y) = phi(y - a omega) - phi(y), summed to the nearer side."""
    y = np.asarray(y, dtype=float)
    right = y >= -0.5 * length
    found = np.zeros_like(y)
    # G is small beyond 12 deviations of both its places
    reach = math.ceil((float(np.max(np.abs(y))) + 12.0) / length + ratio)
    for k in range(reach + 1):
        at = y + np.where(right, k + 1, -k) * length
        # log of phi(at)/phi(y), and of phi(at - a omega)/phi(at)
        outer, inner = 0.5 * (y - at) * (y + at), ratio * length * (at - 0.5 * ratio * length)
        found += np.where(right, 1.0, -1.0) * np.exp(outer) * np.expm1(inner)
    return found


class Chain(NamedTuple):
    """Records that jump by g_i with probability kappa E[rho(y_i) | x] in place of a g_i with probability kappa."""

    rate: float
    ratio: float
    # the noise of the lifted arm, and the length of the jumps that imitate
    scale: float
    jump: float

    def pushed(
        self, directions: Array, start: tuple[Array, Array], cells: int, reach: float
    ) -> tuple[Array, Array, float]:
        """Densities at the end of the lifted and of the natural chain on a grid, and the volume of one of its cells.

        `directions`: (N, n), unit vectors along axes, so that jumps go from grid points to grid points; `start`: weights and means.
        """
        dimension = directions.shape[1]
        step = self.jump / cells
        half = math.ceil((reach * self.scale + (len(directions) + 1) * self.jump) / step)
        line = np.arange(-half, half + 1) * step
        grid = np.stack(np.meshgrid(*([line] * dimension), indexing="ij"), axis=-1)
        weights, means = start
        lifted = self._density(grid, weights, means)
        for direction in directions:
            rate = self._rate(grid, weights, means, direction)
            axis = int(np.argmax(np.abs(direction)))
            moved = np.roll(rate * lifted, round(float(direction[axis])) * cells, axis=axis)
            lifted = (1.0 - rate) * lifted + moved
            weights = np.concatenate([(1.0 - self.rate) * weights, self.rate * weights])
            means = np.concatenate([means, means + self.ratio * self.jump * direction])
            means, weights = _merged(means, weights)
        return lifted, self._density(grid, weights, means), step**dimension

    def _density(self, grid: Array, weights: Array, means: Array) -> Array:
        return np.asarray(sum(w * self._normal(grid - m) for w, m in zip(weights, means, strict=True)))

    def _normal(self, away: Array) -> Array:
        squares = np.sum(np.square(away), axis=-1) / self.scale**2
        return np.asarray(np.exp(-0.5 * squares) / (math.sqrt(2.0 * math.pi) * self.scale) ** away.shape[-1])

    def _rate(self, grid: Array, weights: Array, means: Array, direction: Array) -> Array:
        """kappa E[rho(y) | x] in the natural model; 0 where x is never seen."""
        above, below = np.zeros(grid.shape[:-1]), np.zeros(grid.shape[:-1])
        for w, m in zip(weights, means, strict=True):
            density = w * self._normal(grid - m)
            y = np.clip((grid - m) @ direction / self.scale, -11.0, 11.0)
            above += density * rho(y, self.ratio, self.jump / self.scale)
            below += density
        return np.asarray(self.rate * above / np.maximum(below, 1e-300))


def _merged(means: Array, weights: Array) -> tuple[Array, Array]:
    """Equal means once."""
    values, place = np.unique(np.round(means, 12), axis=0, return_inverse=True)
    return values, np.bincount(place.ravel(), weights)
