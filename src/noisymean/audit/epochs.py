r"""The law of a run whose batches are drawn in epochs, for gradients that are multiples of u: the optimal test in closed form.

The size k_j of every batch of an epoch is known where the dataset is cut, or where batches have a fixed size; and where all other
gradients are zero it does not matter. So all that is random is which batch i the record is in. With g the gradient of the others,
h that of the record (in units of C, 0 in D under zero-out), w_i the chance of batch i, x_j = o_j/(sigma C) and the residual
r_j = c_j x_j.u - k_j g/sigma,

    log p(x) = sum_j ( n log c_j - c_j^2 (|x_j|^2 - (x_j.u)^2)/2 - r_j^2/2 )
               + log sum_i w_i exp( (h - g) r_i/sigma - (h - g)^2/(2 sigma^2) )

up to a constant that D and D' share: the record takes the place of one of the others. A batch that is not seen, because it is
dropped or comes after the last round, adds its w_i alone. Epochs are independent, so their logarithms add:

    shuffle        w_i = k_i/N; what is dropped is not seen
    fixed-size     an epoch is one round, w = b/N
    balls-in-bins  w_i = 1/t; for all-zero others, and denominators that do not depend on the batch
    cyclic         w = 1 for the first batch, in which the record is: a Gaussian shift

Nothing is assumed of denominators: those of D and of D', and the epochs themselves, may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from noisymean.audit.laws import check_known, statistics_of
from noisymean.errors import Undefined
from noisymean.laws.closed import Gaussian
from noisymean.mechanisms import Adjacency, BatchDenominator, Mechanism, Sampling
from noisymean.numerics.logs import Array
from noisymean.pairs import Added
from noisymean.targets.protocol import Known, Neighbour

# Batches of an epoch that are written out.
_LONGEST = 1 << 24


@final
@dataclass(frozen=True, eq=False)
class Epoch:
    """The sizes of its batches, the chance of each that the record is in it, and that of its being in none."""

    sizes: Array
    chances: Array
    missed: float

    @property
    def length(self) -> int:
        return self.sizes.size

    @property
    def is_certain(self) -> bool:
        """Whether it is known which batch the record is in."""
        return bool(self.chances.max() == 1.0)

    def unseen(self, rounds: int) -> float:
        """The chance that the record is in none of the first so many batches."""
        return float(self.chances[rounds:].sum()) + self.missed


def epoch_of(mechanism: Mechanism, records: int) -> Epoch:
    """An epoch of a dataset of so many records; sizes of batches that are not known are zero."""
    match mechanism.drawn:
        case Sampling.SHUFFLE | Sampling.CYCLIC:
            cut = mechanism.cut(records)
            _check_length(cut.batches)
            sizes = np.append(np.full(cut.full, float(cut.size)), [float(cut.last)] if cut.last else [])
            if mechanism.drawn is Sampling.CYCLIC:
                return Epoch(sizes, (np.arange(sizes.size) == 0).astype(np.float64), 0.0)
            return Epoch(sizes, sizes / records, (records - cut.full * cut.size - cut.last) / records)
        case Sampling.FIXED_SIZE:
            size = mechanism.size_of_batches or 0
            if not 1 <= size <= records:
                raise Undefined("batch_size", size, f"from 1 to {records}, the records of the smaller dataset")
            return Epoch(np.array([float(size)]), np.array([size / records]), (records - size) / records)
        case Sampling.BALLS_IN_BINS:
            length = mechanism.batches_in_epoch
            _check_length(length)
            return Epoch(np.zeros(length), np.full(length, 1.0 / length), 0.0)
        case Sampling.POISSON:
            raise Undefined("sampling", mechanism.drawn.value, "one that has epochs", "its rounds are independent")


def _check_length(batches: int) -> None:
    if batches > _LONGEST:
        raise Undefined("batches in an epoch", batches, f"at most {_LONGEST} for the likelihood ratio")


@final
@dataclass(frozen=True, eq=False)
class Dataset:
    """One of the two: its epoch, what is divided by, and what the record does to the sum of its batch."""

    epoch: Epoch
    # of each batch of the epoch: the sum along u if the record were one of the others, and c sigma/sigma'
    sums: Array
    divisors: Array
    noise: float
    # h - g; 0 also where the record is not there
    swap: float

    @property
    def is_certain(self) -> bool:
        return self.swap == 0.0 or self.epoch.is_certain

    def over(self, steps: int) -> tuple[Array, Array]:
        """Sums and divisors of so many rounds."""
        return np.resize(self.sums, steps), np.resize(self.divisors, steps)

    def log_density(self, squares: Array, along: Array, dimension: int) -> Array:
        """One number for each row of |x_j|^2 and x_j.u, but for a constant that is the same for every dataset."""
        steps, sigma = along.shape[1], self.noise
        sums, divisors = self.over(steps)
        residuals = along * divisors - sums / sigma
        across = squares - along**2
        found = dimension * np.log(divisors).sum() - 0.5 * (across @ divisors**2 + (residuals**2).sum(axis=1))
        if self.swap == 0.0:
            return np.asarray(found)
        exponents = (self.swap / sigma) * residuals - 0.5 * (self.swap / sigma) ** 2
        whole, begun = divmod(steps, self.epoch.length)
        if whole:
            full = exponents[:, : steps - begun].reshape(-1, whole, self.epoch.length)
            found += _log_mean(full, self.epoch.chances, self.epoch.missed).sum(axis=1)
        if begun:
            found += _log_mean(exponents[:, steps - begun :], self.epoch.chances[:begun], self.epoch.unseen(begun))
        return np.asarray(found)

    def draw(self, generator: np.random.Generator, trials: int, steps: int, dimension: int) -> Array:
        """Statistics (|x|^2, x.u) of every round of so many runs; all coordinates across u are one chi-square number."""
        epoch = self.epoch
        begun = -(-steps // epoch.length)
        # the last possibility: in none of them
        shares = np.append(epoch.chances, epoch.missed)
        chosen = generator.choice(epoch.length + 1, p=shares / shares.sum(), size=(trials, begun))
        rounds = np.arange(steps)
        inside = chosen[:, rounds // epoch.length] == rounds % epoch.length
        sums, divisors = self.over(steps)
        noise = generator.standard_normal((trials, steps))
        along = ((sums + self.swap * inside) / self.noise + noise) / divisors
        across = generator.chisquare(dimension - 1, size=(trials, steps)) / divisors**2 if dimension > 1 else 0.0
        return np.column_stack([(along**2 + across).ravel(), along.ravel()])


def _log_mean(exponents: Array, chances: Array, rest: float) -> Array:
    """log( sum_i w_i e^(exponent_i) + rest ) along the last axis."""
    with np.errstate(divide="ignore"):
        weighted, left = exponents + np.log(chances), np.log(rest)
    top = np.maximum(weighted.max(axis=-1), left)
    total = np.exp(weighted - top[..., None]).sum(axis=-1) + np.exp(left - top)
    return np.asarray(top + np.log(total))


@final
@dataclass(frozen=True, eq=False)
class EpochPair:
    """Both laws of a pair of datasets with structured gradients; Undefined where batches have sizes that nobody knows."""

    known: Known

    def __post_init__(self) -> None:
        known, drawn = self.known, self.known.mechanism.drawn
        check_known(known)
        if known.structured is None:
            raise Undefined(
                "gradients", "random", f"zero, aligned or opposed for the likelihood ratio of {drawn.value} batches",
                "or use the learned distinguisher",
            )  # fmt: skip
        if drawn is Sampling.BALLS_IN_BINS and known.structured.datasets.shared != 0.0:
            raise Undefined(
                "gradients", known.structured.value, f"zero for the likelihood ratio of {drawn.value} batches",
                "the others' allocation is random too; or use the learned distinguisher",
            )  # fmt: skip
        if drawn is Sampling.BALLS_IN_BINS and isinstance(known.mechanism, BatchDenominator):
            raise Undefined(
                "mechanism", known.mechanism.name, f"one whose denominator is not random with {drawn.value} batches",
                "for the likelihood ratio; or use the learned distinguisher",
            )  # fmt: skip
        self.datasets  # noqa: B018 - refused now, not in a worker

    @property
    def components(self) -> int:
        """How many terms the law of a round has."""
        return 1

    @property
    def dimension(self) -> int:
        return self.known.mechanism.dimension or 1

    @cached_property
    def datasets(self) -> dict[Neighbour, Dataset]:
        assert self.known.structured is not None
        added = self.known.structured.datasets
        return {neighbour: self._dataset(neighbour, added) for neighbour in Neighbour}

    def _dataset(self, neighbour: Neighbour, added: Added) -> Dataset:
        mechanism, zeroed = self.known.mechanism, self.known.adjacency is Adjacency.ZERO_OUT
        records = mechanism.dataset_size or 0
        records = records if zeroed else neighbour.size(records)
        own = added.new if neighbour is Neighbour.LARGER else 0.0
        present = zeroed or neighbour is Neighbour.LARGER
        epoch, sigma = epoch_of(mechanism, records), mechanism.noise_at(records)
        divisors = mechanism.divisors(records, epoch.sizes) * (mechanism.noise_multiplier / sigma)
        return Dataset(epoch, added.shared * epoch.sizes, divisors, sigma, own - added.shared if present else 0.0)

    def statistics(self, outputs: Array) -> Array:
        """(|x|^2, x.u) of every round, shape (trials * steps, 2)."""
        return statistics_of(outputs, None, self.known.mechanism.noise_multiplier * self.known.max_grad_norm)

    def log_ratio(self, statistics: Array, steps: int) -> Array:
        """log dM(D')/dM(D) of each release, which begins with an epoch."""
        squares, along = statistics.T.reshape(2, -1, steps)
        smaller, larger = (
            self.datasets[neighbour].log_density(squares, along, self.dimension) for neighbour in Neighbour
        )
        return np.asarray(larger - smaller)

    def draw(self, neighbour: Neighbour, generator: np.random.Generator, trials: int, steps: int) -> Array:
        """Statistics of so many runs."""
        return self.datasets[neighbour].draw(generator, trials, steps, self.dimension)

    def gaussian(self, steps: int) -> Gaussian | None:
        """The curve of a run where nothing but the noise is random, and it is the same on both."""
        smaller, larger = self.datasets.values()
        same = np.array_equal(smaller.over(steps)[1], larger.over(steps)[1]) and smaller.noise == larger.noise
        if not (same and smaller.is_certain and larger.is_certain):
            return None
        means = [_certain(one, steps) for one in (smaller, larger)]
        return Gaussian(float(np.linalg.norm(means[1] - means[0])) / smaller.noise)


def _certain(one: Dataset, steps: int) -> Array:
    """The sums of so many rounds, where it is known which batch the record is in."""
    inside = np.resize(one.epoch.chances == 1.0, steps)
    return np.asarray(one.over(steps)[0] + one.swap * inside)
