"""The optimal test, Neyman and Pearson's: the log-likelihood ratio of the whole release, in closed form (`laws`, `epochs`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from noisymean.audit.distinguishers.base import Distinguisher, Judge, Labelled, first_column, spread
from noisymean.audit.epochs import EpochPair
from noisymean.audit.laws import KnownPair
from noisymean.audit.reference import Reference, pair_of
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Known


@final
@dataclass(frozen=True, eq=False)
class LikelihoodRatio(Distinguisher):
    """Score log dM(D')/dM(D), summed over rounds or epochs; the threshold 0 is optimal for epsilon = 0, fixed by that theory."""

    known: Known
    name: ClassVar[str] = "likelihood-ratio"
    training_share: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        self._pair  # noqa: B018 - refused now, not in a worker

    def configuration(self) -> Mapping[str, Any]:
        return {"distinguisher": self.name}

    @cached_property
    def _pair(self) -> KnownPair | EpochPair:
        return pair_of(self.known)

    def features(self, outputs: Array, generator: np.random.Generator) -> Array:
        return self._pair.log_ratio(self._pair.statistics(outputs), outputs.shape[1])[:, None]

    def judge(self, training: Labelled, reference: Reference | None) -> Judge:
        others = np.empty(0) if reference is None else spread(*reference.losses, main=0.0)
        return Judge(first_column, 0.0, others)
