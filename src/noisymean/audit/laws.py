r"""The law of a release whose gradients are known, through its sufficient statistic: the Neyman-Pearson test in closed form.

x = o/(sigma C), gradients g_j in units of C. Given the batch B, x ~ N(S_B/(sigma c), I_n/c^2) with S_B the sum over B, so

    log p(x) = log sum_B  w_B exp( n log c_B - c_B^2 |x|^2/2 + (c_B/sigma) sum_{j in B} x.g_j - |S_B|^2/(2 sigma^2) )

up to a constant that D and D' share. Where the noise on this dataset is sigma' instead (it follows from N), x ~ N(S_B/(sigma c),
(sigma'/sigma)^2 I_n/c^2): the same with sigma' for sigma and c sigma/sigma' for c.

It depends on x through (|x|^2, x.g_1, ..., x.g_{N+1}) only, and on the gradients through their Gram matrix; all 2^N batches are
one matrix product. If every gradient is a multiple of u, (|x|^2, x.u) is enough and batches of the same size are one component:
any N. Rounds are independent, so their log-likelihood ratios add.

Under zero-out the record is in D as well, with a gradient of zero: it counts in |B| and adds nothing to S_B. All of this is about
Poisson sampling; batches that are drawn in epochs have another law (`epochs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.errors import Undefined
from noisymean.mechanisms import Adjacency
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Known, Neighbour

LARGEST_ENUMERATION = 16
# (releases x components) evaluated at once
_WORK = 1 << 21
# Coordinates that are read while they are in the cache.
_CACHED = 1 << 15


@final
@dataclass(frozen=True, eq=False)
class MixtureLaw:
    """log p(x) = log sum_i exp(constants[i] + coefficients[i] @ statistic)."""

    constants: Array
    coefficients: Array

    def log_density(self, statistics: Array) -> Array:
        """One number for each row of statistics."""
        values = np.empty(statistics.shape[0])
        at_once = max(1, _WORK // self.constants.size)
        for first in range(0, statistics.shape[0], at_once):
            # components along the first axis, where reductions are fast
            exponents = self.coefficients @ statistics[first : first + at_once].T
            exponents += self.constants[:, None]
            top = exponents.max(axis=0)
            exponents -= top
            values[first : first + at_once] = top + np.log(np.exp(exponents, out=exponents).sum(axis=0))
        return values


def statistics_of(outputs: Array, rows: Array | None, unit: float) -> Array:
    """(|x|^2, x.row, ...) or (|x|^2, x.u) of every round, x in these units and the rows in theirs; trials * steps rows."""
    rounds = outputs.reshape(-1, outputs.shape[-1])
    found = np.zeros((rounds.shape[0], 2 if rows is None else 1 + rows.shape[0]))
    if rounds.shape[1] <= _CACHED:
        found[:, 0] = np.einsum("ij,ij->i", rounds, rounds)
        if rows is not None:
            found[:, 1:] = rounds @ rows.T
    else:
        # a piece of the gradients serves every release while it is in the cache
        for left in range(0, rounds.shape[1], _CACHED):
            here = None if rows is None else rows[:, left : left + _CACHED]
            for row, one in zip(found, rounds[:, left : left + _CACHED], strict=True):
                row[0] += one @ one
                if here is not None:
                    row[1:] += here @ one
    found[:, 0] /= unit**2
    if rows is None:
        found[:, 1] = rounds[:, 0] / unit
    return found


def enumerable(known: Known) -> bool:
    """Whether all batches can be summed over."""
    return known.gradients is None or known.gradients.shape[0] - 1 <= LARGEST_ENUMERATION


def check_known(known: Known) -> None:
    """Complain about a target that does not say what its gradients are, or of whose neighbours no law is written down."""
    if (known.gradients is None) == (known.structured is None):
        raise ValueError("a known target gives its gradients or says how they are structured: one of the two")
    if known.adjacency is Adjacency.REPLACE_ONE:
        raise Undefined("adjacency", known.adjacency.value, "add-remove or zero-out for the likelihood ratio")


@final
@dataclass(frozen=True, eq=False)
class KnownPair:
    """Both laws of a pair of datasets, and the statistic they are functions of."""

    known: Known

    def __post_init__(self) -> None:
        known = self.known
        known.mechanism.need_poisson()
        check_known(known)
        if known.gradients is not None and not enumerable(known):
            raise Undefined(
                "dataset_size",
                known.gradients.shape[0] - 1,
                f"<= {LARGEST_ENUMERATION} for the likelihood ratio of arbitrary gradients, which sums over 2^N batches",
                "use structured gradients (any N) or the learned distinguisher",
            )

    @property
    def dimension(self) -> int:
        return self.known.mechanism.dimension or 1

    @property
    def components(self) -> int:
        """Terms in the larger of the two sums."""
        return self.laws[Neighbour.LARGER].constants.size

    @cached_property
    def gram(self) -> Array:
        """Inner products of the gradients, in units of C^2; of u alone where they are structured."""
        if self.known.gradients is None:
            return np.ones((1, 1))
        rows = self.known.gradients
        return np.asarray(rows @ rows.T / self.known.max_grad_norm**2)

    @cached_property
    def laws(self) -> dict[Neighbour, MixtureLaw]:
        return {neighbour: self._law(neighbour) for neighbour in Neighbour}

    def statistics(self, outputs: Array) -> Array:
        """(|x|^2, x.g_1, ...) or (|x|^2, x.u) of every round, shape (trials * steps, 1 + rows)."""
        return statistics_of(outputs, self._scaled_rows, self._unit)

    @property
    def _unit(self) -> float:
        return self.known.mechanism.noise_multiplier * self.known.max_grad_norm

    @cached_property
    def _scaled_rows(self) -> Array | None:
        """Gradients in units of C, to be multiplied with releases in their own: divided by sigma C once, not in every trial."""
        if self.known.gradients is None:
            return None
        return np.asarray(self.known.gradients / (self.known.max_grad_norm * self._unit))

    def log_ratio(self, statistics: Array, steps: int) -> Array:
        """log dM(D')/dM(D) of each release: the sum over its rounds."""
        smaller, larger = (self.laws[neighbour].log_density(statistics) for neighbour in Neighbour)
        return np.asarray((larger - smaller).reshape(-1, steps).sum(axis=1))

    def sample(self, neighbour: Neighbour, generator: np.random.Generator, rounds: int) -> Array:
        """Statistics of `rounds` independent rounds, without the n coordinates: those across are one chi-square number."""
        rate, count, present = self._rate(neighbour), self._others, self._present(neighbour)
        if self.known.structured is not None:
            shared = generator.binomial(count, rate, size=rounds).astype(np.float64)
            new = (generator.random(rounds) < (rate if present else 0.0)).astype(np.float64)
            sizes = shared + new
            along = (self.known.structured.datasets.shared * shared + self._own(neighbour) * new)[:, None]
        else:
            along = (generator.random((rounds, count + 1)) < rate).astype(np.float64)
            if not present:
                along[:, -1] = 0.0
            sizes = along.sum(axis=1)
            if neighbour is Neighbour.SMALLER:
                along[:, -1] = 0.0
        sigma, divisors = self._scaled(neighbour, sizes)
        axes = self._axes
        inside = (along @ axes / sigma + generator.standard_normal((rounds, axes.shape[1]))) / divisors[:, None]
        rest = self.dimension - axes.shape[1]
        across = generator.chisquare(rest, size=rounds) / divisors**2 if rest > 0 else np.zeros(rounds)
        return np.column_stack([np.square(inside).sum(axis=1) + across, inside @ axes.T])

    @cached_property
    def _axes(self) -> Array:
        """Coordinates of the gradients in an orthonormal basis of their span."""
        values, vectors = np.linalg.eigh(self.gram)
        kept = values > 1e-12 * values[-1]
        # in n dimensions there are at most n of them
        kept[: -self.dimension] = False
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))

    def draw(self, neighbour: Neighbour, generator: np.random.Generator, trials: int, steps: int) -> Array:
        """Statistics of so many runs: their rounds are independent."""
        return self.sample(neighbour, generator, trials * steps)

    @property
    def _zeroed(self) -> bool:
        return self.known.adjacency is Adjacency.ZERO_OUT

    @property
    def _others(self) -> int:
        """Records that both datasets have with the same gradient."""
        return (self.known.mechanism.dataset_size or 0) - self._zeroed

    def _records(self, neighbour: Neighbour) -> int:
        return self._others + self._present(neighbour)

    def _present(self, neighbour: Neighbour) -> bool:
        """Whether the record is in this dataset."""
        return self._zeroed or neighbour is Neighbour.LARGER

    def _own(self, neighbour: Neighbour) -> float:
        """Its gradient there, along u."""
        assert self.known.structured is not None
        return self.known.structured.datasets.new if neighbour is Neighbour.LARGER else 0.0

    def _rate(self, neighbour: Neighbour) -> float:
        return float(self.known.mechanism.rate_at(self._records(neighbour)))

    def _scaled(self, neighbour: Neighbour, sizes: Array) -> tuple[float, Array]:
        """sigma' on this dataset, and c sigma/sigma' for batches of these sizes."""
        mechanism, size = self.known.mechanism, self._records(neighbour)
        sigma = mechanism.noise_at(size)
        return sigma, mechanism.divisors(size, sizes) * (mechanism.noise_multiplier / sigma)

    def _law(self, neighbour: Neighbour) -> MixtureLaw:
        if self.known.structured is not None:
            weights, sizes, sums = self._by_size(neighbour)
            members, squares = sums[None, :], sums**2
        else:
            weights, sizes, members = self._by_batch(neighbour)
            squares = np.einsum("ji,jk,ki->i", members, self.gram, members, optimize=True)
        sigma, divisors = self._scaled(neighbour, sizes)
        constants = weights + self.dimension * np.log(divisors) - squares / (2.0 * sigma**2)
        coefficients = np.vstack([-0.5 * divisors**2, members * (divisors / sigma)]).T
        possible = weights > -np.inf
        return MixtureLaw(constants[possible], np.ascontiguousarray(coefficients[possible]))

    def _by_size(self, neighbour: Neighbour) -> tuple[Array, Array, Array]:
        """Log weights, batch sizes and sums along u, batches of the same size together."""
        assert self.known.structured is not None
        rate = self._rate(neighbour)
        nodes = binomial.enumerated(self._others, rate)
        sums = self.known.structured.datasets.shared * nodes.sizes
        with np.errstate(divide="ignore"):
            weights = np.log(nodes.weights)
            if not self._present(neighbour):
                return weights, nodes.sizes, sums
            weights = np.concatenate([weights + np.log1p(-rate), weights + np.log(rate)])
        return weights, np.append(nodes.sizes, nodes.sizes + 1.0), np.append(sums, sums + self._own(neighbour))

    def _by_batch(self, neighbour: Neighbour) -> tuple[Array, Array, Array]:
        """Log weights, sizes and membership (records first) of every batch."""
        rate, records = self._rate(neighbour), self.gram.shape[0]
        count = records - (not self._present(neighbour))
        members = ((np.arange(2**count)[None, :] >> np.arange(records)[:, None]) & 1).astype(np.float64)
        sizes = members.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = sizes * np.log(rate) + np.where(sizes < count, (count - sizes) * np.log1p(-rate), 0.0)
        if neighbour is Neighbour.SMALLER:
            # absent, or there with a gradient of zero
            members[-1] = 0.0
        return weights, sizes, members
