r"""How large is what is left of a release: for real training, where all gradients are known and their likelihood is not.

The adversary holds D and the weights before each step. It takes the mean that the release would have on D out of it, and the
directions in which batches move it (`protocol.Centre`). What is left, r, is noise of scale sigma C / c in the other n - k
coordinates, and log |r| measures that scale to 1/sqrt(2 (n - k)), relative: 0.44 % for 26,010 numbers, where 600 instead of 594
is 1 %. Over T steps the logarithms are averaged: their scales have the same ratio at every step.

Any score is valid. Its direction and its thresholds are chosen on trials that are set aside and never judged, so an estimate of
the mean that is off, or a direction that is missing, costs power and never soundness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisymean.audit.distinguishers.base import Distinguisher, Judge, Labelled, best_threshold, spread
from noisymean.audit.reference import Reference
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Centre, Onlooked


@final
@dataclass(frozen=True, eq=False)
class Residual(Distinguisher):
    """Score: the average over the steps of log |r|^2, with the sign by which it grows towards D'."""

    target: Onlooked
    name: ClassVar[str] = "residual"
    training_share: ClassVar[float] = 0.2

    def configuration(self) -> Mapping[str, Any]:
        return {"distinguisher": self.name}

    def features(self, outputs: Array, generator: np.random.Generator) -> Array:
        """A column for each step."""
        return np.array([self._sizes(trial) for trial in outputs])

    def _sizes(self, trial: Array) -> list[float]:
        return [
            log_residual(release, centre) for release, centre in zip(trial, self.target.centres(trial), strict=True)
        ]

    def judge(self, training: Labelled, reference: Reference | None) -> Judge:
        rises = training.larger.mean() >= training.smaller.mean()

        def score(features: Array) -> Array:
            size = features.mean(axis=1)
            return np.asarray(size if rises else -size)

        smaller, larger = score(training.smaller), score(training.larger)
        main = best_threshold(smaller, larger)
        return Judge(score, main, spread(smaller, larger, main))


def log_residual(release: Array, centre: Centre) -> float:
    """log |r|^2; sums in one order, so that it has the same bits in every process."""
    left = release - centre.mean
    along = np.einsum("kn,n->k", centre.directions, left)
    left = left - np.einsum("kn,k->n", centre.directions, along)
    return float(np.log(np.maximum(np.sum(left * left), 1e-300)))
