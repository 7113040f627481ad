r"""A mechanism run on gradients of our own making: the paper's synthetic experiments, and pairs whose truth is known.

o = (sum over B of g_j + sigma C xi) / c, with N + 1 gradients of norm C: random directions, or structured ones (`protocol`).
T rounds are T independent draws, all of them seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, final

import numpy as np

from noisymean.errors import InvalidInput, check_number
from noisymean.mechanisms import Mechanism, OpacusLoader, from_plain
from noisymean.numerics.logs import Array
from noisymean.targets.claims import claimed_curve
from noisymean.targets.divided import divided
from noisymean.targets.protocol import Known, Neighbour, Structure
from noisymean.tradeoff import TradeOff

MOST_STEPS = 10**6
# What one trial releases, and random gradients, are kept in memory: 4 GB at most.
_MOST_NUMBERS = 1 << 29
# Numbers that are drawn, shifted and divided while they are still in the cache.
_CACHED = 1 << 15


class Gradients(Enum):
    """What the clipped gradients look like."""

    RANDOM = "random"
    ZERO = "zero"
    ALIGNED = "aligned"
    OPPOSED = "opposed"


@final
@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """`mechanism` on synthetic gradients; `gradient_seed` chooses the random directions.

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

    def __post_init__(self) -> None:
        check_number("max_grad_norm", self.max_grad_norm, above=0.0, most=1e9)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 1 <= self.steps <= MOST_STEPS:
            raise InvalidInput("steps", self.steps, f"a whole number from 1 to {MOST_STEPS}")
        for name in ("dataset_size", "dimension"):
            if getattr(self.mechanism, name) is None:
                raise InvalidInput(name, None, "given, to run the mechanism")
        if isinstance(self.mechanism, OpacusLoader) and self.mechanism.is_calibrated:
            raise InvalidInput(
                "target_epsilon", self.mechanism.target_epsilon, "left out: a run is simulated with one noise for both datasets",
                "give a noise_multiplier",
            )  # fmt: skip
        if self.dimension * self.steps > _MOST_NUMBERS:
            raise InvalidInput(
                "dimension", self.dimension, f"at most {_MOST_NUMBERS} over the number of steps, to be run",
                "the accountant has no such limit",
            )  # fmt: skip
        size = self.mechanism.dataset_size or 0
        if self.gradients is Gradients.RANDOM and (size + 1) * self.dimension > _MOST_NUMBERS:
            raise InvalidInput(
                "gradients", self.gradients.value, f"zero, aligned or opposed at N={size} n={self.dimension}",
                "random ones would not fit into memory",
            )  # fmt: skip
        self._settings  # noqa: B018 - a pair that cannot be run is refused now

    @property
    def name(self) -> str:
        """The mechanism, its gradients and its numbers."""
        mechanism = self.mechanism
        return (
            f"synthetic {mechanism.name}, {self.gradients.value} gradients: N={mechanism.dataset_size} n={self.dimension}"
            f" q={mechanism.q:.6g} sigma={mechanism.noise_multiplier:g} C={self.max_grad_norm:g} T={self.steps}"
        )

    @property
    def dimension(self) -> int:
        """Numbers released in a round."""
        return self.mechanism.dimension or 1

    def configuration(self) -> Mapping[str, Any]:
        """Everything, the rate as an exact fraction."""
        return {
            "target": "synthetic",
            "mechanism": self.mechanism.to_plain(),
            "gradients": self.gradients.value,
            "max_grad_norm": self.max_grad_norm,
            "steps": self.steps,
            "gradient_seed": self.gradient_seed,
        }

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Synthetic:
        """The inverse of `configuration`."""
        return cls(
            mechanism=from_plain(configuration["mechanism"]),
            gradients=Gradients(configuration["gradients"]),
            max_grad_norm=configuration["max_grad_norm"],
            steps=configuration["steps"],
            gradient_seed=configuration["gradient_seed"],
        )

    def known(self) -> Known:
        """Everything is."""
        if self.gradients is Gradients.RANDOM:
            return Known(self.mechanism, self.max_grad_norm, gradients=self._rows)
        return Known(self.mechanism, self.max_grad_norm, structured=Structure(self.gradients.value))

    def claim(self) -> TradeOff:
        """T-round SGM."""
        return claimed_curve(self.mechanism, self.steps)

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        """Batches first, then the noise in order: what is drawn does not depend on how it is cut for the cache."""
        rate, fixed = self._settings[neighbour]
        rounds, dimension = trials * self.steps, self.dimension
        count = (self.mechanism.dataset_size or 0) + (neighbour is Neighbour.LARGER)
        sums, sizes = self._sums(generator, rounds, count, rate, neighbour)
        divisors = np.maximum(sizes, 1.0) if fixed is None else np.full(rounds, fixed)
        noise = self.mechanism.noise_multiplier * self.max_grad_norm / divisors
        sums = sums / divisors[:, None]
        outputs = np.empty((rounds, dimension))
        at_once = max(1, _CACHED // dimension)
        for first in range(0, rounds, at_once):
            rows = slice(first, first + at_once)
            for left in range(0, dimension, _CACHED):
                part = outputs[rows, left : left + _CACHED] if at_once > 1 else outputs[first, left : left + _CACHED]
                generator.standard_normal(out=part)
                part *= noise[rows, None] if at_once > 1 else noise[first]
                if self._axis:
                    continue
                part += sums[rows if at_once > 1 else first] @ self._rows[:, left : left + _CACHED]
        if self._axis:
            outputs[:, 0] += sums[:, 0]
        return outputs.reshape(trials, self.steps, dimension)

    def _sums(
        self, generator: np.random.Generator, rounds: int, count: int, rate: float, neighbour: Neighbour
    ) -> tuple[Array, Array]:
        """What each round's batch adds up to, as multiples of the rows (or of u), and its size."""
        if not self._axis:
            members = (generator.random((rounds, count)) < rate).astype(np.float64)
            sizes = members.sum(axis=1)
            if neighbour is Neighbour.SMALLER:
                members = np.hstack([members, np.zeros((rounds, 1))])
            return members, sizes
        structure = Structure(self.gradients.value)
        shared = generator.binomial(self.mechanism.dataset_size or 0, rate, size=rounds).astype(np.float64)
        new = np.zeros(rounds)
        if neighbour is Neighbour.LARGER:
            new = (generator.random(rounds) < rate).astype(np.float64)
        along = self.max_grad_norm * (structure.datasets.shared * shared + structure.datasets.new * new)
        return along[:, None], shared + new

    @property
    def _axis(self) -> bool:
        return self.gradients is not Gradients.RANDOM

    @cached_property
    def _settings(self) -> dict[Neighbour, tuple[float, float | None]]:
        """Rate and denominator on each dataset; None for |B|."""
        return divided(self.mechanism)

    @cached_property
    def _rows(self) -> Array:
        generator = np.random.Generator(
            np.random.SFC64(np.random.SeedSequence(self.gradient_seed, spawn_key=(2**32 - 1,)))
        )
        rows = generator.standard_normal(((self.mechanism.dataset_size or 0) + 1, self.dimension))
        rows *= self.max_grad_norm / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows
