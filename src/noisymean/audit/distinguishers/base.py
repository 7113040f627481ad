r"""What every distinguisher is: a few numbers for each release, and a way to turn them into one score.

Scores grow towards D'. A threshold t decides D' where score > t, so

    alpha(t) = P[score > t | D],      beta(t) = P[score <= t | D'].

`features` sees releases one block at a time, in any process. `judge` is asked once, before a judged trial is looked at: it
holds the score and the thresholds, fixed by theory or chosen on trials that are not judged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisymean.audit.reference import Reference
from noisymean.numerics.logs import Array

# Error rates at which the audited curve is looked at, on either side.
RATES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001, 0.0001)


@final
@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of features from runs on D and on D'."""

    smaller: Array
    larger: Array


@final
@dataclass(frozen=True, eq=False)
class Judge:
    """A score, its main threshold, and the further thresholds of the audited curve; all fixed before the judged trials."""

    score: Callable[[Array], Array]
    threshold: float
    others: Array


class Distinguisher(ABC):
    """Tells D' from D. Built from a target and a configuration, in every process alike."""

    # what it is called on the command line
    name: ClassVar[str]
    # share of the trials that are set aside to learn from, and are never judged
    training_share: ClassVar[float]
    # whether runs on D and on D' are from the same seeds, two by two: only where none of them is judged
    paired: ClassVar[bool] = False

    @abstractmethod
    def configuration(self) -> Mapping[str, Any]:
        """All that decides the features, as JSON."""

    @abstractmethod
    def features(self, outputs: Array, generator: np.random.Generator) -> Array:
        """Shape (trials, features) for outputs of shape (trials, steps, dimension)."""

    @abstractmethod
    def judge(self, training: Labelled, reference: Reference | None) -> Judge:
        """The score and its thresholds."""


def first_column(features: Array) -> Array:
    """The score of a distinguisher that has one feature: the score itself."""
    return np.asarray(features[:, 0])


def spread(smaller: Array, larger: Array, main: float) -> Array:
    """Thresholds at which scores like these err at RATES, on either side; without the main one."""
    rates = np.array(RATES)
    chosen = np.unique(np.concatenate([np.quantile(smaller, 1.0 - rates), np.quantile(larger, rates)]))
    return np.asarray(chosen[chosen != main])


def best_threshold(smaller: Array, larger: Array) -> float:
    """Where right guesses are most frequent among these scores, half way between two of them."""
    values = np.unique(np.concatenate([smaller, larger]))
    if values.size == 1:
        return float(values[0])
    right = np.searchsorted(np.sort(smaller), values, side="right") / smaller.size
    right -= np.searchsorted(np.sort(larger), values, side="right") / larger.size
    at = min(int(np.argmax(right)), values.size - 2)
    return float(0.5 * (values[at] + values[at + 1]))
