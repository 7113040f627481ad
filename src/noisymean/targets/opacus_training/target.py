"""A training run on a pair of datasets, |D| = N and |D'| = N + 1, released step by step.

A trial is what a user runs: the network at its first weights, `make_private` on an ordinary data loader of batch size b, T
steps. Opacus draws every batch, computes and clips its per-sample gradients, adds noise, divides and steps. The release of a step
is the change of the weights over the learning rate, which is the noisy mean.

With L = ceil(N/b) batches Opacus samples at 1/L and divides by int(N (1/L)). `fixed`: both are constants, those of D, on either
dataset, by the remedy that `inspect` names; nothing else is changed. (For one L in fourteen Opacus reads L - 1 off its own
floating point, and takes that from there on: `mechanisms.opacus_rate`.)

All randomness of a trial, of the sampler and of the noise, comes from one seed, and torch computes on one thread: the same trial
has the same bits in any process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from noisymean.errors import InvalidInput, check_number
from noisymean.mechanisms import LEAST_NOISE, SGM, OpacusLoader
from noisymean.mechanisms.opacus_rate import steps_at_most
from noisymean.numerics.logs import Array
from noisymean.targets import underway
from noisymean.targets.claims import claimed_curve
from noisymean.targets.opacus_releases.install import installed_version
from noisymean.targets.opacus_training.sample import SAMPLED
from noisymean.targets.plain import from_plain, to_plain
from noisymean.targets.protocol import Centre, Known, Neighbour, check_steps
from noisymean.targets.records import Records
from noisymean.targets.registry import described, from_described
from noisymean.tradeoff import TradeOff

if TYPE_CHECKING:
    from noisymean.targets.opacus_training.onlooker import Onlooker
    from noisymean.targets.opacus_training.run import Runs

_MOST_TRAINED = 1000


@final
@dataclass(frozen=True, kw_only=True)
class OpacusTraining:
    """The installed Opacus training a classifier on the first N of `records`, or on one more."""

    records: Records
    dataset_size: int
    batch_size: int
    noise_multiplier: float
    max_grad_norm: float = 0.1
    learning_rate: float = 1.0
    steps: int = 1
    fixed: bool = False
    # releases differ; the one that ran is part of what a trial is
    release_of_opacus: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "release_of_opacus", self.release_of_opacus or installed_version())
        check_number("dataset_size", self.dataset_size, least=2)
        check_number("noise_multiplier", self.noise_multiplier, least=LEAST_NOISE, most=1e9)
        check_number("max_grad_norm", self.max_grad_norm, above=0.0, most=1e9)
        check_number("learning_rate", self.learning_rate, above=0.0, most=1e9)
        check_steps(self.steps)
        if not 1 <= self.batch_size <= self.dataset_size:
            raise InvalidInput("batch_size", self.batch_size, f"a whole number from 1 to {self.dataset_size}")
        if self.steps > _MOST_TRAINED:
            raise InvalidInput(
                "steps", self.steps, f"at most {_MOST_TRAINED} for training in full", "each is a step of Opacus"
            )
        if 0 in self.divisors:
            # int(N (1/L)) falls from 1 to 0 where N (1/L) is rounded down: N = 49, b = 1
            raise InvalidInput(
                "batch_size",
                self.batch_size,
                f"one at which Opacus does not divide by 0 (D by {self.divisors[0]}, D' by {self.divisors[1]})",
                f"e.g. {self.batch_size + 1}",
            )
        if not self.records.is_labelled:
            raise InvalidInput("records", self.records.words, "those of a classifier", "one loss for each record")
        if self.release_of_opacus != installed_version():
            raise InvalidInput(
                "opacus", self.release_of_opacus, f"the installed release, {installed_version()}", "install that one"
            )

    @property
    def name(self) -> str:
        fixed = ", rate and denominator fixed" if self.fixed else ""
        return (
            f"opacus=={self.release_of_opacus} training {self.records.words}{fixed}: N={self.dataset_size}"
            f" b={self.batch_size} n={self.dimension} sigma={self.noise_multiplier:g} C={self.max_grad_norm:g}"
            f" T={self.steps}"
        )

    @property
    def dimension(self) -> int:
        return self.records.dimension

    @property
    def mechanism(self) -> OpacusLoader:
        """What Opacus makes of the data loader, at every number of records."""
        return OpacusLoader(
            dataset_size=self.dataset_size,
            batch_size=self.batch_size,
            dimension=self.dimension,
            noise_multiplier=self.noise_multiplier,
        )

    @property
    def divisors(self) -> tuple[int, int]:
        """What D and D' are divided by."""
        before, after = (self.mechanism.run(n).expected_batch_size for n in (self.dataset_size, self.dataset_size + 1))
        return before, before if self.fixed else after

    @property
    def rate(self) -> Fraction:
        """What the accountant is told on D; if fixed, also what batches are drawn at, on either dataset."""
        told = Fraction(1, self.mechanism.run(self.dataset_size).steps_per_epoch)
        return Fraction(1, steps_at_most(told)) if self.fixed else told

    @property
    def drawn_at(self) -> Fraction:
        """The rate of the sampler on D."""
        return self.rate if self.fixed else self.mechanism.rate_at(self.dataset_size)

    def claim(self) -> TradeOff:
        """What the library's accountant analyses: SGM at its rate and noise."""
        return claimed_curve(SGM(sample_rate=self.rate, noise_multiplier=self.noise_multiplier), self.steps)

    def known(self) -> Known | None:
        """Tens of thousands of different gradients have no likelihood ratio that can be summed up."""
        return None

    def configuration(self) -> Mapping[str, Any]:
        plain = {name: value for name, value in to_plain(self).items() if name != "records"}
        return {"target": "opacus-training", **plain, "records": described(self.records), "sampled": SAMPLED}

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> OpacusTraining:
        return from_plain(cls, {**configuration, "records": from_described(configuration["records"])})

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        """Each trial from a seed of its own."""
        runs = []
        for index in range(trials):
            underway.run(index)
            runs.append(self._runs.released(neighbour, int(generator.integers(1 << 63))))
        return np.stack(runs) if runs else np.empty((0, self.steps, self.dimension))

    def centres(self, outputs: Array) -> Iterator[Centre]:
        """Of each step of one trial, shape (steps, dimension): what D and the weights before it say about it."""
        moved = np.zeros(self.dimension)
        for step, release in enumerate(outputs):
            yield self._onlooker.centre(moved, first=step == 0)
            moved = moved - self.learning_rate * release

    @cached_property
    def _runs(self) -> Runs:
        """Made once in each process: torch and Opacus are loaded there."""
        from noisymean.targets.opacus_training.run import Runs

        return Runs(self)

    @cached_property
    def _onlooker(self) -> Onlooker:
        from noisymean.targets.opacus_training.onlooker import Onlooker

        return Onlooker(self, self._runs)
