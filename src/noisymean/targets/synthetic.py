r"""A mechanism written out: the paper's synthetic experiments, and pairs whose truth is known.

o = (sum over B of g_j + sigma C xi) / c. `Formula` is the mechanism on any records; `Synthetic` is it on a pair of datasets with
gradients of norm C of our own making: random directions, or structured ones (`protocol`). Batches are drawn as the mechanism
draws them (`batches`), and all T rounds are seen. A mechanism that is defined elsewhere is found again in another process by the
module that defines it.

D' has one record more, or (zero-out) as many: then one of the N records has a gradient of zero in D.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from typing import Any, final

import numpy as np

from noisymean.choices import did_you_mean, written_as
from noisymean.errors import InvalidInput, Undefined, check_number
from noisymean.mechanisms import KINDS, Adjacency, Mechanism, from_plain
from noisymean.numerics.logs import Array
from noisymean.targets.batches import Batches
from noisymean.targets.claims import claimed_curve
from noisymean.targets.plain import from_plain as value_from
from noisymean.targets.protocol import Knob, Known, Neighbour, Raised, Request, Runnable, Setting, check_steps
from noisymean.targets.records import Gradients
from noisymean.tradeoff import TradeOff

# What one trial releases, and random gradients, are kept in memory: 4 GB at most.
_MOST_NUMBERS = 1 << 29
# Numbers that are drawn, shifted and divided while they are still in the cache.
_CACHED = 1 << 15


def mechanism_at(name: str, setting: Setting, dimension: int, noise_multiplier: float) -> Mechanism:
    """The mechanism of that name at a user's setting: a batch size where its rate follows from N, else a rate."""
    size, rate, batch = setting.dataset_size, setting.rate, setting.batch_size
    plain = {"name": name, "dataset_size": size, "dimension": dimension, "noise_multiplier": noise_multiplier}
    if name in KINDS and KINDS[name].rate_from_size:
        if batch is None:
            raise InvalidInput("batch_size", None, f"given for {name}", "its rate follows from it and N")
        return from_plain({**plain, "batch_size": batch})
    if rate is None and batch is None:
        raise InvalidInput("sample_rate", None, f"given for {name}")
    return from_plain({**plain, "sample_rate": Fraction(batch or 1, size) if rate is None else rate})


def formula_named(text: str) -> Runnable:
    """`synthetic`, which is EASGM, or `synthetic:NAME`."""
    _, colon, name = text.partition(":")
    wanted = written_as(name, KINDS) if colon else "easgm"
    if wanted is None:
        allowed = f"synthetic or synthetic:NAME with NAME one of {', '.join(KINDS)}"
        raise InvalidInput("target", text, allowed, did_you_mean(name, KINDS))
    return Formula(wanted)


@final
@dataclass(frozen=True)
class Formula(Runnable):
    """A mechanism by its name."""

    mechanism: str
    is_fast = True

    @property
    def name(self) -> str:
        return f"synthetic {self.mechanism}"

    @property
    def knob(self) -> Knob:
        return Knob.BATCH_SIZE if KINDS[self.mechanism].rate_from_size else Knob.RATE

    def run(self, run: Request) -> Array:
        size, dimension = run.gradients.shape
        try:
            mechanism = mechanism_at(self.mechanism, run.setting, dimension, 1.0)
            mechanism.divisors(size, np.zeros(1))
        except Undefined as fault:
            raise Raised(f"raises {fault}") from None
        generator = np.random.default_rng(run.seed)
        lengths = np.linalg.norm(run.gradients, axis=1, keepdims=True)
        clipped = run.gradients * np.minimum(1.0, run.max_grad_norm / lengths)
        members = generator.random((run.rounds, size)) < float(mechanism.rate_at(size))
        noise = generator.standard_normal((run.rounds, dimension)) * run.noise_multiplier * run.max_grad_norm
        divisors = mechanism.divisors(size, members.sum(axis=1).astype(np.float64))
        released: Array = (members @ clipped + noise) / divisors[:, None]
        return released


@final
@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """`mechanism` on synthetic gradients; `gradient_seed` chooses the random directions.

    `adjacency` is what the two datasets differ in, unless it is said what the mechanism's own is.

    >>> from noisymean.mechanisms import EASGM
    >>> mechanism = EASGM(dataset_size=4, dimension=100, sample_rate="0.05", noise_multiplier=10.0)
    >>> target = Synthetic(mechanism=mechanism, gradients=Gradients.OPPOSED)
    >>> target.release(Neighbour.LARGER, np.random.default_rng(1), trials=3).shape
    (3, 1, 100)
    """

    mechanism: Mechanism
    gradients: Gradients = Gradients.RANDOM
    max_grad_norm: float = 0.1
    steps: int = 1
    gradient_seed: int = 0
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", self.between)
        check_number("max_grad_norm", self.max_grad_norm, above=0.0, most=1e9)
        check_steps(self.steps)
        for name in ("dataset_size", "dimension"):
            if getattr(self.mechanism, name) is None:
                raise InvalidInput(name, None, "given, to run the mechanism")
        if self.dimension * self.steps > _MOST_NUMBERS:
            raise InvalidInput(
                "dimension", self.dimension, f"at most {_MOST_NUMBERS} over the number of steps, to be run",
                "the accountant has no such limit",
            )  # fmt: skip
        size = self._size
        if self.between is Adjacency.REPLACE_ONE:
            raise Undefined("adjacency", self.between.value, "add-remove or zero-out", "other pairs are not run")
        if self.between is Adjacency.ZERO_OUT and size < 1:
            raise Undefined(
                "dataset_size", size, ">= 1 for zero-out", "there is no record whose gradient could be zero"
            )
        if self.gradients is Gradients.RANDOM and self._in_all * self.dimension > _MOST_NUMBERS:
            raise InvalidInput(
                "gradients", self.gradients.value, f"zero, aligned or opposed at N={size} n={self.dimension}",
                "random ones would not fit into memory",
            )  # fmt: skip
        for neighbour in Neighbour:
            # a pair that cannot be run is refused now
            self.mechanism.divisors(self._batches(neighbour).records, np.zeros(1))

    @property
    def name(self) -> str:
        mechanism = self.mechanism
        drawn = "" if mechanism.is_poisson else f", {mechanism.drawn.value} batches"
        between = "" if self._is_plain else f", {self.between.value}"
        return (
            f"synthetic {mechanism.name}, {self.gradients.value} gradients{drawn}{between}:"
            f" N={mechanism.dataset_size} n={self.dimension}"
            f" q={mechanism.q:.6g} sigma={mechanism.noise_multiplier:g} C={self.max_grad_norm:g} T={self.steps}"
        )

    @property
    def dimension(self) -> int:
        return self.mechanism.dimension or 1

    @property
    def between(self) -> Adjacency:
        """What the two datasets differ in."""
        return self.mechanism.adjacency if self.adjacency is None else self.adjacency

    @property
    def _is_plain(self) -> bool:
        """Whether batches and neighbours are those that need not be said."""
        return self.mechanism.is_poisson and self.between is Adjacency.ADD_REMOVE

    @property
    def _size(self) -> int:
        """The number of records of D, the smaller dataset unless both have as many."""
        return self.mechanism.dataset_size or 0

    @property
    def _in_all(self) -> int:
        """Records that are in one of the datasets or both."""
        return self._size + (self.between is Adjacency.ADD_REMOVE)

    def _batches(self, neighbour: Neighbour) -> Batches:
        """Those of a dataset: the record is in D' and, unless it is added, in D."""
        record = neighbour is Neighbour.LARGER or self.between is not Adjacency.ADD_REMOVE
        return Batches(self.mechanism, self._in_all - (not record), self.steps, record)

    def configuration(self) -> Mapping[str, Any]:
        """Everything, the rate as an exact fraction; and which module defines a mechanism that is not one of ours."""
        module = type(self.mechanism).__module__
        return {
            "target": "synthetic",
            **({} if module.startswith("noisymean.") else {"defined_in": module}),
            "mechanism": self.mechanism.to_plain(),
            "gradients": self.gradients.value,
            "max_grad_norm": self.max_grad_norm,
            "steps": self.steps,
            "gradient_seed": self.gradient_seed,
            # stores that were written when there was nothing else to say go on
            **({} if self._is_plain else {"adjacency": self.between.value}),
        }

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Synthetic:
        if "defined_in" in configuration:
            import_module(configuration["defined_in"])
        return value_from(cls, {**configuration, "mechanism": from_plain(configuration["mechanism"])})

    def known(self) -> Known:
        rows = self._rows if self.gradients is Gradients.RANDOM else None
        structured = self.gradients.structure
        return Known(self.mechanism, self.max_grad_norm, gradients=rows, structured=structured, adjacency=self.between)

    def claim(self) -> TradeOff:
        return claimed_curve(self.mechanism, self.steps)

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        """Batches first, then the noise in order: what is drawn does not depend on how it is cut for the cache."""
        rounds, dimension = trials * self.steps, self.dimension
        batches = self._batches(neighbour)
        size = batches.records
        sums, sizes = self._sums(batches, generator, trials, neighbour)
        divisors = self.mechanism.divisors(size, sizes)
        noise = self.mechanism.noise_at(size) * self.max_grad_norm / divisors
        sums = sums / divisors[:, None]
        outputs = np.empty((rounds, dimension))
        random = self.gradients is Gradients.RANDOM
        at_once = max(1, _CACHED // dimension)
        for first in range(0, rounds, at_once):
            rows = slice(first, first + at_once)
            for left in range(0, dimension, _CACHED):
                part = outputs[rows, left : left + _CACHED] if at_once > 1 else outputs[first, left : left + _CACHED]
                generator.standard_normal(out=part)
                part *= noise[rows, None] if at_once > 1 else noise[first]
                if random:
                    part += sums[rows if at_once > 1 else first] @ self._rows[:, left : left + _CACHED]
        if not random:
            outputs[:, 0] += sums[:, 0]
        return outputs.reshape(trials, self.steps, dimension)

    def _sums(
        self, batches: Batches, generator: np.random.Generator, trials: int, neighbour: Neighbour
    ) -> tuple[Array, Array]:
        """What each round's batch adds up to, as multiples of the rows (or of u), and its size."""
        structure = self.gradients.structure
        if structure is None:
            members = batches.members(generator, trials)
            sizes = members.sum(axis=1)
            if not batches.record:
                members = np.hstack([members, np.zeros((len(members), 1))])
            elif neighbour is Neighbour.SMALLER:
                # it is in the batch, with a gradient of zero
                members[:, -1] = 0.0
            return members, sizes
        shared, new = batches.counts(generator, trials)
        own = structure.datasets.new if neighbour is Neighbour.LARGER else 0.0
        along = self.max_grad_norm * (structure.datasets.shared * shared + own * new)
        return along[:, None], shared + new

    @cached_property
    def _rows(self) -> Array:
        return self.gradients.rows(self._in_all, self.dimension, self.max_grad_norm, self.gradient_seed)
