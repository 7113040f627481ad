r"""What runs whose batches are not drawn by Poisson sampling leak, by brute force. Nothing here imports noisymean.

Two datasets of a few records, each a list of gradients in units of the clipping bound; how batches are drawn; what their sums are
divided by; the noise; a few steps. All permutations, subsets or allocations are gone through: what is released is a mixture of
Gaussians in R^(steps * dimension), on either dataset. Then delta(epsilon), in either direction. The space is cut into boxes, whose
probabilities P and Q are products of differences of Phi, and two pairs of finite laws stand on either side of the truth:

    below   only the box is told: post-processing
    above   the log likelihood ratio moves by at most W inside a box (its gradient lies between differences of the components'),
            so it is Q/P e^-W to Q/P e^W there; all is put on these two ends, P and Q kept. delta is the mean under P of a
            convex function of the ratio, and does not fall

Both are rounded in double precision, which is below 1e-13. Epochs are independent of each other: outcomes of like ratio are told as
one (below) or moved to both ends of a cell of losses (above), and the pairs multiplied.

Gradients may also be chosen by what was released: `Adaptive` has one set of them for the second step where the first output is
below a number and another where it is not.

The second part is random allocation by itself: S, the mean of t lognormals, by quadrature for a few, and by sampling from
tilted laws, with its standard error, for any t.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

Array = NDArray[np.float64]
Batch = tuple[int, ...]

# boxes a side and how many deviations they reach from the outermost means, by the number of coordinates
_CELLS = {1: (4096, 8.0), 2: (400, 8.0), 3: (80, 6.5), 4: (36, 5.5)}
# losses of an epoch, where several are multiplied
_GROUPS = 800
# what sums of millions of products may be off by
ROUNDING = 1e-13

# ------------------------------------------------------------------------------------------------------------ batches


@dataclass(frozen=True)
class Draw:
    """How batches are drawn: `size` records each (`batches` in an epoch for balls-in-bins), whatever the dataset."""

    sampling: str
    size: int = 0
    batches: int = 0
    drop_last: bool = False

    def in_epoch(self, records: int) -> int:
        """Steps until the next draw that is independent of those before: one, where every batch is drawn anew."""
        match self.sampling:
            case "fixed-size":
                return 1
            case "balls-in-bins":
                return self.batches
            case _:
                return len(self._sizes(records))

    def _sizes(self, records: int) -> list[int]:
        full, last = divmod(records, self.size)
        return [self.size] * full + ([last] if last and not self.drop_last else [])

    def epochs(self, records: int) -> Iterator[tuple[float, tuple[Batch, ...]]]:
        """Every way to draw an epoch, with its probability."""
        everyone = range(records)
        match self.sampling:
            case "cyclic":
                yield 1.0, _cut(tuple(everyone), self._sizes(records))
            case "shuffle":
                ways = list(_partitions(tuple(everyone), self._sizes(records)))
                yield from ((1.0 / len(ways), way) for way in ways)
            case "fixed-size":
                subsets = list(itertools.combinations(everyone, self.size))
                yield from ((1.0 / len(subsets), (subset,)) for subset in subsets)
            case "balls-in-bins":
                for bins in itertools.product(range(self.batches), repeat=records):
                    way = tuple(tuple(i for i in everyone if bins[i] == j) for j in range(self.batches))
                    yield self.batches**-records, way
            case _:
                raise ValueError(self.sampling)


def _cut(order: Batch, sizes: Sequence[int]) -> tuple[Batch, ...]:
    starts = [0, *itertools.accumulate(sizes)]
    return tuple(order[a:b] for a, b in itertools.pairwise(starts))


def _partitions(left: Batch, sizes: Sequence[int]) -> Iterator[tuple[Batch, ...]]:
    """All ordered batches of these sizes: permutations, but for the order inside a batch and among what is dropped."""
    if not sizes:
        yield ()
        return
    for batch in itertools.combinations(left, sizes[0]):
        rest = tuple(i for i in left if i not in batch)
        yield from ((batch, *others) for others in _partitions(rest, sizes[1:]))


# -------------------------------------------------------------------------------------------------------- denominators

# what the sum of a batch is divided by: from the number of records and the size of the batch
Divisor = Callable[[int, int], float]


def constant() -> Divisor:
    return lambda records, batch: 1.0


def expected(rate: Fraction) -> Divisor:
    """N q."""
    return lambda records, batch: float(records * rate)


def floored(rate: Fraction) -> Divisor:
    """floor(N q), 1 in place of 0."""
    return lambda records, batch: float(max(math.floor(records * rate), 1))


def own_size() -> Divisor:
    """|B|, 1 in place of 0."""
    return lambda records, batch: float(max(batch, 1))


def opacus(batch_size: int, *, drop_last: bool = False) -> Divisor:
    """int(N * (1/L)) in binary floating point, L the length of the loader."""

    def divisor(records: int, batch: int) -> float:
        length = records // batch_size if drop_last else -(-records // batch_size)
        return float(int(records * (1 / length)))

    return divisor


# ---------------------------------------------------------------------------------------------------- what is released


class Mixture(NamedTuple):
    """Gaussians with independent coordinates: weights (m,), means (m, d), deviations (m, d)."""

    weights: Array
    means: Array
    deviations: Array


@dataclass(frozen=True)
class Adaptive:
    """Gradients of the first step; of the second where the first output is below `threshold`, and where it is not."""

    first: Array
    below: Array
    above: Array
    threshold: float


def released(gradients: Array, draw: Draw, sigma: float, divisor: Divisor, steps: int) -> Mixture:
    """The first `steps` outputs of an epoch; gradients are rows, or numbers."""
    rows = np.asarray(gradients, dtype=float)
    rows = rows.reshape(len(rows), -1)
    found: defaultdict[tuple[tuple[float, ...], tuple[float, ...]], float] = defaultdict(float)
    for weight, batches in draw.epochs(len(rows)):
        means: list[float] = []
        deviations: list[float] = []
        for batch in batches[:steps]:
            by = divisor(len(rows), len(batch))
            means += (rows[list(batch)].sum(axis=0) / by).tolist() if batch else [0.0] * rows.shape[1]
            deviations += [sigma / by] * rows.shape[1]
        found[tuple(round(mean, 12) for mean in means), tuple(deviations)] += weight
    return Mixture(
        np.array(list(found.values())), np.array([key[0] for key in found]), np.array([key[1] for key in found])
    )


# ----------------------------------------------------------------------------------------------------------- delta


class Ends(NamedTuple):
    """From below, and from above."""

    low: float
    high: float


class Finite(NamedTuple):
    """Two laws on finitely many outcomes."""

    p: Array
    q: Array

    def delta(self, epsilon: float, *, backward: bool) -> float:
        """Of D' told from D, or of D from D' (`backward`)."""
        one, other = (self.p, self.q) if backward else (self.q, self.p)
        return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())

    def times(self, other: Finite) -> Finite:
        """Both, independently."""
        return Finite(np.outer(self.p, other.p).ravel(), np.outer(self.q, other.q).ravel())

    def losses(self) -> Array:
        """log q/p; infinite where one of them is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.q) - np.log(self.p)

    def _grid(self, count: int) -> Array:
        """Losses that hold all but 1e-16 of either law."""
        loss = self.losses()
        heavy = loss[np.isfinite(loss) & (np.maximum(self.p, self.q) > 1e-16 / len(loss))]
        return np.linspace(heavy.min() - 1e-9, heavy.max() + 1e-9, count)

    def merged(self, count: int) -> Finite:
        """Outcomes of like loss told as one: from below."""
        loss = np.nan_to_num(self.losses(), nan=0.0)
        place = np.searchsorted(self._grid(count), loss)
        p, q = (np.bincount(place, weights=law).astype(np.float64) for law in (self.p, self.q))
        kept = (p > 0.0) | (q > 0.0)
        return Finite(p[kept], q[kept])

    def spread(self, count: int) -> Finite:
        """Each outcome on the two losses of a grid around its own, both of its probabilities kept: from above.

        With p and q on the ends a < b of a cell, p_b = (q - p e^a)/(e^b - e^a). Beyond the grid nothing is kept secret.
        """
        grid, loss = self._grid(count), self.losses()
        inside = (loss > grid[0]) & (loss < grid[-1])
        place = np.searchsorted(grid, loss[inside]) - 1
        p, q, width = self.p[inside], self.q[inside], grid[1] - grid[0]
        # in terms of what is above the lower end, so that nothing cancels
        part = np.clip(np.expm1(loss[inside] - grid[place]) / math.expm1(width), 0.0, 1.0)
        upper_p = p * part
        upper_q = np.minimum(upper_p * np.exp(grid[place + 1]), q)
        one = [np.bincount(place, weights=law, minlength=count) for law in (p - upper_p, q - upper_q)]
        other = [np.bincount(place + 1, weights=law, minlength=count) for law in (upper_p, upper_q)]
        beyond = [float(law[~inside].sum()) for law in (self.p, self.q)]
        p, q = (
            np.concatenate([a + b, c]) for a, b, c in zip(one, other, ([beyond[0], 0.0], [0.0, beyond[1]]), strict=True)
        )
        return Finite(p, q)


def _edges(laws: Sequence[Mixture], coordinate: int, cells: int, reach: float, at: float | None = None) -> Array:
    """Of boxes of equal side, the outermost without end; one edge `at` a number."""
    low = min(float((law.means - reach * law.deviations)[:, coordinate].min()) for law in laws)
    high = max(float((law.means + reach * law.deviations)[:, coordinate].max()) for law in laws)
    inner = np.linspace(low, high, cells - 1)
    if at is not None:
        inner += at - inner[np.argmin(np.abs(inner - at))]
    return np.concatenate([[-np.inf], inner, [np.inf]])


def _slices(law: Mixture, coordinate: int, edges: Array) -> Array:
    """(m, cells): what each component gives to each interval; by the nearer tail."""
    z = (edges[None, :] - law.means[:, coordinate, None]) / law.deviations[:, coordinate, None]
    lower, upper = ndtr(z), ndtr(-z)
    below = z[:, 1:] + z[:, :-1] < 0.0
    return np.where(below, np.diff(lower, axis=1), -np.diff(upper, axis=1))


def _boxes(law: Mixture, edges: Sequence[Array]) -> Array:
    """The probabilities of all boxes, flattened: half of the coordinates against the other half."""
    parts = [_slices(law, i, some) for i, some in enumerate(edges)]
    half = (len(parts) + 1) // 2

    def joined(some: Sequence[Array]) -> Array:
        found = np.ones((len(law.weights), 1))
        for one in some:
            found = (found[:, :, None] * one[:, None, :]).reshape(len(found), -1)
        return found

    return ((law.weights[:, None] * joined(parts[:half])).T @ joined(parts[half:])).ravel()


def _swing(p: Mixture, q: Mixture, edges: Sequence[Array]) -> Array:
    """How far the log likelihood ratio moves inside each box, at most: its gradient is linear for each two components."""
    found = np.zeros(1)
    for i, some in enumerate(edges):
        inner = some[1:-1]
        slopes = [(inner[:, None] - law.means[:, i]) / law.deviations[:, i] ** 2 for law in (p, q)]
        # the gradient of log p lies between those of its components
        most = np.maximum(slopes[0].max(1) - slopes[1].min(1), slopes[1].max(1) - slopes[0].min(1))
        inside = np.maximum(most[1:], most[:-1]) * np.diff(inner)
        found = (found[:, None] + np.concatenate([[np.inf], inside, [np.inf]])).ravel()
    return found


class Sides(NamedTuple):
    """Finite laws that lose something, and some that give away too much."""

    below: Finite
    above: Finite


def pair_of(p: Mixture, q: Mixture, cells: int | None = None) -> Sides:
    """Both laws on the same boxes."""
    count, reach = _CELLS[p.means.shape[1]]
    edges = [_edges((p, q), i, cells or count, reach) for i in range(p.means.shape[1])]
    below = Finite(_boxes(p, edges), _boxes(q, edges))
    # e^W/(1 + e^W)
    more = 1.0 / (1.0 + np.exp(-_swing(p, q, edges)))
    above = Finite(
        np.concatenate([below.p * (1.0 - more), below.p * more]),
        np.concatenate([below.q * more, below.q * (1.0 - more)]),
    )
    return Sides(below, above)


def adaptive_pair(
    datasets: tuple[Adaptive, Adaptive], draw: Draw, sigma: float, divisor: Divisor, cells: int = 384
) -> Finite:
    """Two steps of one dimension, the gradients of the second chosen by the first output; from below."""
    threshold = datasets[0].threshold
    found: list[list[Array]] = [[], []]
    for side in (0, 1):
        laws = [_two_steps(one, (one.below, one.above)[side], draw, sigma, divisor) for one in datasets]
        edges = [_edges(laws, 0, cells, 8.0, at=threshold), _edges(laws, 1, cells, 8.0)]
        first = edges[0]
        edges[0] = first[first <= threshold + 1e-12] if side == 0 else first[first >= threshold - 1e-12]
        for law, boxes in zip(laws, found, strict=True):
            boxes.append(_boxes(law, edges))
    return Finite(*(np.concatenate(boxes) for boxes in found))


def _two_steps(data: Adaptive, second: Array, draw: Draw, sigma: float, divisor: Divisor) -> Mixture:
    """As if the second step's gradients were these whatever came out of the first."""
    records = len(data.first)
    weights, means, deviations = [], [], []
    ways = [
        (weight * other, (*batches, *more)[:2])
        for weight, batches in draw.epochs(records)
        for other, more in (draw.epochs(records) if len(batches) == 1 else [(1.0, ())])
    ]
    for weight, batches in ways:
        by = [divisor(records, len(batch)) for batch in batches]
        rows = [np.asarray(some, dtype=float) for some in (data.first, second)]
        weights.append(weight)
        means.append([float(some[list(batch)].sum()) / b for some, batch, b in zip(rows, batches, by, strict=True)])
        deviations.append([sigma / b for b in by])
    return Mixture(np.array(weights), np.array(means), np.array(deviations))


class Truth:
    """delta(epsilon) of a run on an explicit pair of datasets."""

    def __init__(
        self,
        datasets: tuple[Array, Array],
        draw: Draw,
        sigma: float,
        divisor: Divisor,
        steps: int,
        *,
        cells: int | None = None,
    ) -> None:
        lengths = {draw.in_epoch(len(one)) for one in datasets}
        if len(lengths) > 1:
            raise ValueError("epochs of two lengths")
        length = lengths.pop()
        whole, part = divmod(steps, length)
        lasting = [length] * whole + ([part] if part else [])
        pairs: dict[int, Sides] = {}
        for count in set(lasting):
            p, q = (released(one, draw, sigma, divisor, count) for one in datasets)
            pairs[count] = pair_of(p, q, cells)
        self.below, self.above = pairs[lasting[0]]
        if len(lasting) > 1:
            # the last factor is not made small again
            grouped = {
                count: Sides(one.below.merged(_GROUPS), one.above.spread(_GROUPS)) for count, one in pairs.items()
            }
            self.below, self.above = grouped[lasting[0]]
            for count in lasting[1:-1]:
                self.below = self.below.times(grouped[count].below).merged(_GROUPS)
                self.above = self.above.times(grouped[count].above).spread(_GROUPS)
            self.below = self.below.times(grouped[lasting[-1]].below)
            self.above = self.above.times(grouped[lasting[-1]].above)

    def delta(self, epsilon: float, *, backward: bool) -> Ends:
        """Of D' told from D, or of D from D' (`backward`)."""
        low, high = (one.delta(epsilon, backward=backward) for one in (self.below, self.above))
        return Ends(low - ROUNDING, high + ROUNDING)

    def worst(self, epsilon: float) -> Ends:
        """The larger of the two directions."""
        both = [self.delta(epsilon, backward=backward) for backward in (False, True)]
        return Ends(max(one.low for one in both), max(one.high for one in both))

    def epsilon(self, delta: float) -> Ends:
        """Of the worse direction; 0 where delta is more than all there is."""

        def solve(value: Callable[[float], float]) -> float:
            if value(0.0) <= delta:
                return 0.0
            top = 1.0
            while value(top) > delta:
                top *= 2.0
                if top > 600.0:
                    return math.inf
            return float(brentq(lambda epsilon: value(epsilon) - delta, 0.0, top, xtol=1e-9))

        return Ends(solve(lambda epsilon: self.worst(epsilon).low), solve(lambda epsilon: self.worst(epsilon).high))


# ------------------------------------------------------------------------------------- closed forms and random allocation


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Of N(mu, 1) told from N(0, 1)."""
    if mu == 0.0:
        return 0.0
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Where that delta is."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    top = 1.0
    while gaussian_delta(mu, top) > delta:
        top *= 2.0
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, top, xtol=1e-14, rtol=1e-14))


def allocated_delta(sigma: float, batches: int, epsilon: float, *, backward: bool) -> float:
    """Random allocation, one epoch of a few batches: E(S - e^eps)_+, or E(1 - e^eps S)_+ `backward`.

    With X = e^(z/sigma - 1/(2 sigma^2)) and t of them, E(X_1 + ... + X_m - k)_+ is that of m - 1 terms at k - X, averaged over the
    last one: where X > k, at z > z*, a closed form; below, a trapezoidal sum in log(z* - z), in which all is smooth. For one term
    it is Black and Scholes' formula; what two and three give is interpolated in log k. Good to 1e-8 of the value, or to 1e-16.
    """
    level = math.exp(-epsilon if backward else epsilon)
    price = _price(sigma, batches, backward, np.array([math.log(level * batches)]))[0] / batches
    return float(price * math.exp(epsilon)) if backward else float(price)


# log k for which prices of several terms are kept, and log(z* - z)
_STRIKES = np.linspace(-26.0, 30.0, 3501)
_BELOW = np.arange(-38.0, 4.2, 0.05)


def _price(sigma: float, terms: int, put: bool, log_k: Array) -> Array:
    """E(X_1 + ... + X_m - k)_+, or with the other sign, for k > 0."""
    k = np.exp(log_k)
    nearest = sigma * log_k + 0.5 / sigma
    if terms == 1:
        # nearest is z*; under the law with density X, z has mean 1/sigma
        up, down = 1.0 / sigma - nearest, -nearest
        return np.asarray(k * ndtr(-down) - ndtr(-up) if put else ndtr(up) - k * ndtr(down))
    z = nearest[:, None] - np.exp(_BELOW)
    # k - X without cancelling: X/k = e^((z - z*)/sigma)
    left = log_k[:, None] + np.log(-np.expm1(-np.exp(_BELOW) / sigma))
    if terms == 2:
        inner = _price(sigma, 1, put, left.ravel()).reshape(left.shape)
    else:
        inner = np.exp(_kept(sigma, terms - 1, put)(np.clip(left, _STRIKES[0], _STRIKES[-1])))
    weight = np.exp(-0.5 * z**2 + _BELOW) * ((_BELOW[1] - _BELOW[0]) / math.sqrt(2 * math.pi))
    found = (weight * inner).sum(axis=1)
    if not put:
        found += (terms - 1 - k) * ndtr(-nearest) + ndtr(1.0 / sigma - nearest)
    return np.asarray(found)


@lru_cache(maxsize=32)
def _kept(sigma: float, terms: int, put: bool) -> CubicSpline:
    """The logarithm of prices, where they are above 1e-250."""
    return CubicSpline(_STRIKES, np.log(np.maximum(_price(sigma, terms, put, _STRIKES), 1e-250)))


class Estimate(NamedTuple):
    """A mean of bounded terms, and its standard error."""

    value: float
    error: float


def allocated_by_sampling(
    sigma: float,
    batches: int,
    epsilon: float,
    *,
    backward: bool,
    tilt: float,
    samples: int = 200_000,
    seed: int = 7,
) -> Estimate:
    """The same for any number of batches, from draws of z whose terms are at most 2.

    Forward, half of them from Q and half from (1/t) sum N(tilt e_i, I); backward, half of them from P and half from
    N(-tilt/sqrt(t) (1, ..., 1), I): the densities of both are mixtures that include the law under which losses are bounded by 1.
    """
    rng = np.random.default_rng(seed)
    terms: list[Array] = []
    for _ in range(max(samples * batches // 2_000_000, 1)):
        rows = min(samples, 2_000_000 // batches)
        z = rng.standard_normal((rows, batches))
        half = rows // 2
        if backward:
            z[half:] -= tilt / math.sqrt(batches)
            tilted = np.exp(-tilt / math.sqrt(batches) * z.sum(axis=1) - tilt**2 / 2)
            mean = np.exp(z / sigma - 0.5 / sigma**2).mean(axis=1)
            terms.append(np.maximum(1.0 - math.exp(epsilon) * mean, 0.0) / (0.5 + 0.5 * tilted))
        else:
            # by symmetry the first batch may be the one
            z[:half, 0] += 1.0 / sigma
            z[half:, 0] += tilt
            tilted = np.exp(tilt * z - tilt**2 / 2).mean(axis=1)
            mean = np.exp(z / sigma - 0.5 / sigma**2).mean(axis=1)
            terms.append(np.maximum(mean - math.exp(epsilon), 0.0) / (0.5 * mean + 0.5 * tilted))
    # halves are drawn separately: the variance of the whole is at most that of draws from the mixture
    found = np.concatenate(terms)
    return Estimate(float(found.mean()), float(found.std() / math.sqrt(len(found))))


def largest_delta(sigma: float, batches: int, epsilon: float, *, backward: bool, points: int = 400_001) -> float:
    """Shuffled batches, one epoch, only the largest coordinate told: densities Phi(c)^(t-1) with shifts 1 and 2 over sigma.

    (t - 1) phi(c) Phi(c)^(t-2) Phi(c - a) + phi(c - a) Phi(c)^(t-1), midpoint sums.
    """
    reach = 9.0 + 2.0 / sigma
    c = np.linspace(-10.0, reach, points)
    step = c[1] - c[0]

    def density(a: float) -> Array:
        own = np.exp(-0.5 * (c - a) ** 2 + (batches - 1) * log_ndtr(c))
        other = (batches - 1) * np.exp(-0.5 * c**2 + (batches - 2) * log_ndtr(c) + log_ndtr(c - a))
        return (own + other) / math.sqrt(2 * math.pi)

    p, q = density(1.0 / sigma), density(2.0 / sigma)
    one, other = (p, q) if backward else (q, p)
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum() * step)
