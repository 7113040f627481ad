r"""The paper's distinguisher (Section 4 and Algorithm 1): is the standardised output normal, under which component?

For each batch B of D and each i (is the new record in the batch of D'?) the components P_B^i and Q_B^i are Gaussian, and

    Proc_P(x) = (x - mean_P)/scale_P,      Proc_Q(x) = (x - mean_Q)/scale_Q

are standard normal under P and under Q. A_B^i tests both: only P passes, it votes D; only Q passes, it votes D'; else a
fair coin. A* is left open by the paper. Here it is the vote weighted by the component's probability, decided at one half.

Tests at level 5 %: Kolmogorov-Smirnov, chi-square of the norm, Anderson-Darling, and Shapiro-Wilk, which is blind to location
and scale. Where the batch alone decides the denominator (ASGM) the two components with i = 0 are the same law and always flip the
coin; they are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from scipy.special import gammaincinv, log_ndtr, ndtr

from noisymean.audit.distinguishers.base import Distinguisher, Judge, Labelled, first_column
from noisymean.audit.reference import Reference
from noisymean.errors import Undefined
from noisymean.mechanisms import Adjacency, BatchDenominator, Sampling
from noisymean.numerics import binomial
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Known, Neighbour

_LEVEL = 0.05
# Anderson and Darling 1954: the 5 % point of A^2 for a fully specified law.
_ANDERSON_DARLING = 2.492
_MOST_RECORDS = 10
_MOST_SIZES = 2048


class NormalityTest(Enum):
    """Which test of n independent standard normal numbers."""

    KOLMOGOROV_SMIRNOV = "ks"
    CHI_SQUARE = "chi2"
    ANDERSON_DARLING = "ad"
    SHAPIRO = "shapiro"


def passes(test: NormalityTest, rows: Array) -> Array:
    """1 for each row that looks standard normal, else 0."""
    n = rows.shape[1]
    match test:
        case NormalityTest.CHI_SQUARE:
            low, high = _norm_range(n)
            norms = np.einsum("ij,ij->i", rows, rows)
            return np.asarray((norms >= low) & (norms <= high), dtype=np.float64)
        case NormalityTest.KOLMOGOROV_SMIRNOV:
            levels = ndtr(np.sort(rows, axis=1))
            steps = np.arange(n + 1) / n
            distance = np.maximum((steps[1:] - levels).max(axis=1), (levels - steps[:-1]).max(axis=1))
            return np.asarray(distance <= _largest_distance(n), dtype=np.float64)
        case NormalityTest.ANDERSON_DARLING:
            ordered = np.sort(rows, axis=1)
            odd = 2.0 * np.arange(1, n + 1) - 1.0
            square = -n - (log_ndtr(ordered) + log_ndtr(-ordered[:, ::-1])) @ odd / n
            return np.asarray(square <= _ANDERSON_DARLING, dtype=np.float64)
        case NormalityTest.SHAPIRO:
            from scipy.stats import shapiro  # slow to import, and rarely needed

            return np.array([float(shapiro(row).pvalue > _LEVEL) for row in rows])


@lru_cache(maxsize=64)
def _largest_distance(n: int) -> float:
    from scipy.stats import kstwo  # slow to import

    return float(kstwo.isf(_LEVEL, n))


@lru_cache(maxsize=64)
def _norm_range(n: int) -> tuple[float, float]:
    return 2.0 * float(gammaincinv(0.5 * n, 0.5 * _LEVEL)), 2.0 * float(gammaincinv(0.5 * n, 1.0 - 0.5 * _LEVEL))


# Mean (as multiples of the rows, or of u) and scale, in the units of the release.
_Component: TypeAlias = tuple[Array, float]


@final
@dataclass(frozen=True, eq=False)
class PaperVote(Distinguisher):
    """Share of the weighted vote for D', averaged over rounds; the majority decides."""

    known: Known
    test: NormalityTest = NormalityTest.KOLMOGOROV_SMIRNOV
    name: ClassVar[str] = "paper"
    training_share: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        count, n = self.known.mechanism.dataset_size or 0, self.known.mechanism.dimension or 1
        drawn, between = self.known.mechanism.drawn, self.known.adjacency
        if drawn is not Sampling.POISSON or between is not Adjacency.ADD_REMOVE:
            raise Undefined(
                "distinguisher", self.name, f"likelihood-ratio or learned for {drawn.value} batches and {between.value}",
                "the paper's components are those of Poisson sampling and of one record added",
            )  # fmt: skip
        if self.known.gradients is not None and count > _MOST_RECORDS:
            raise Undefined(
                "dataset_size",
                count,
                f"<= {_MOST_RECORDS} for the paper's vote, which tests 2^N components",
                "use --distinguisher likelihood-ratio",
            )
        if self.test is NormalityTest.SHAPIRO and not 3 <= n <= 5000:
            raise Undefined("dimension", n, "from 3 to 5000 for the Shapiro test", "use the ks test")

    def configuration(self) -> Mapping[str, Any]:
        return {"distinguisher": self.name, "test": self.test.value}

    def judge(self, training: Labelled, reference: Reference | None) -> Judge:
        return Judge(first_column, 0.5, np.setdiff1d(np.linspace(0.05, 0.95, 19).round(2), [0.5]))

    def features(self, outputs: Array, generator: np.random.Generator) -> Array:
        rounds = outputs.reshape(-1, outputs.shape[-1])
        share, total = np.zeros(rounds.shape[0]), 0.0
        last = None
        for weight, p, q in self._pairs:
            # P_B serves both values of i
            if p is not last:
                last, under_p = p, self._passes(rounds, *p)
            under_q = self._passes(rounds, *q)
            coin = (generator.random(rounds.shape[0]) < 0.5).astype(np.float64)
            share += weight * np.where(under_p == under_q, coin, under_q)
            total += weight
        return np.asarray((share / total).reshape(outputs.shape[0], -1).mean(axis=1)[:, None])

    def _passes(self, rounds: Array, mean: Array, scale: float) -> Array:
        standardised = rounds.copy()
        if self.known.gradients is None:
            standardised[:, 0] -= mean[0]
        else:
            standardised -= mean @ self.known.gradients
        standardised /= scale
        return passes(self.test, standardised)

    @cached_property
    def _pairs(self) -> list[tuple[float, _Component, _Component]]:
        """Probability, P_B and Q_B^i, of every batch and both values of i."""
        mechanism, count = self.known.mechanism, self.known.mechanism.dataset_size or 0
        rate, new_rate = float(mechanism.rate_at(count)), float(mechanism.rate_at(count + 1))
        # where only the batch decides, a batch without the new record is released alike on D and on D'
        moves = not isinstance(mechanism, BatchDenominator)
        pairs = []
        for weight, size, sums, with_new in self._batches(rate):
            p = self._component(Neighbour.SMALLER, sums, size)
            if moves:
                pairs.append((weight * (1.0 - new_rate), p, self._component(Neighbour.LARGER, sums, size)))
            pairs.append((weight * new_rate, p, self._component(Neighbour.LARGER, with_new, size + 1.0)))
        return pairs

    def _component(self, neighbour: Neighbour, sums: Array, size: float) -> _Component:
        mechanism, records = self.known.mechanism, neighbour.size(self.known.mechanism.dataset_size or 0)
        divisor = float(mechanism.divisors(records, np.array([size]))[0])
        return sums / divisor, mechanism.noise_at(records) * self.known.max_grad_norm / divisor

    def _batches(self, rate: float) -> Iterator[tuple[float, float, Array, Array]]:
        """Probability, size and sum of each batch of D, and its sum with the new record."""
        count, structure = self.known.mechanism.dataset_size or 0, self.known.structured
        if structure is not None:
            nodes = binomial.enumerated(count, rate)
            kept = nodes.weights > 1e-12
            if np.count_nonzero(kept) > _MOST_SIZES:
                raise Undefined("dataset_size", count, "small enough for 2048 batch sizes", "use the likelihood ratio")
            bound = self.known.max_grad_norm
            for weight, size in zip(nodes.weights[kept].tolist(), nodes.sizes[kept].tolist(), strict=True):
                along = bound * structure.datasets.shared * size
                yield weight, size, np.array([along]), np.array([along + bound * structure.datasets.new])
            return
        for batch in range(2**count):
            members = np.array([(batch >> record) & 1 for record in range(count)] + [0], dtype=np.float64)
            size = float(members.sum())
            weight = rate**size * (1.0 - rate) ** (count - size)
            if weight > 0.0:
                yield weight, size, members, np.append(members[:-1], 1.0)
