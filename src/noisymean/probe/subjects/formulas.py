"""Our own mechanisms written out, and DPSUR: subjects whose denominator is known, to see that the prober finds it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from noisymean.errors import Undefined
from noisymean.mechanisms import LEAST_NOISE, Mechanism, OpacusLoader
from noisymean.numerics.logs import Array
from noisymean.paper.dpsur import Denominator, Dpsur
from noisymean.probe.finding import KINDS
from noisymean.probe.laws import Kind
from noisymean.probe.subject import Adaptation, Knob, Raised, Run
from noisymean.targets.divided import divided
from noisymean.targets.opacus import GivenRows
from noisymean.targets.protocol import Neighbour


@final
@dataclass(frozen=True)
class Formula:
    """A mechanism of ours by its kind."""

    kind: Kind

    @property
    def name(self) -> str:
        """The kind."""
        return f"synthetic {self.kind.value}"

    @property
    def knob(self) -> Knob:
        """A batch size for the loader only."""
        return Knob.BATCH_SIZE if self.kind is Kind.LOADER else Knob.RATE

    @property
    def elsewhere(self) -> str | None:
        """None."""
        return None

    @property
    def swift(self) -> bool:
        """A round is a few array operations."""
        return True

    @property
    def adaptation(self) -> Adaptation | None:
        """None."""
        return None

    def run(self, run: Run) -> Array:
        """(sum of the batch + sigma C xi) / c."""
        try:
            rate, fixed = divided(self._mechanism(run))[Neighbour.SMALLER]
        except Undefined as fault:
            raise Raised(str(fault)) from None
        generator = np.random.default_rng(run.seed)
        lengths = np.linalg.norm(run.gradients, axis=1, keepdims=True)
        clipped = run.gradients * np.minimum(1.0, run.max_grad_norm / lengths)
        members = generator.random((run.rounds, len(clipped))) < rate
        noise = generator.standard_normal((run.rounds, clipped.shape[1])) * run.noise_multiplier * run.max_grad_norm
        divisors = np.maximum(members.sum(axis=1), 1) if fixed is None else np.full(run.rounds, fixed)
        released: Array = (members @ clipped + noise) / divisors[:, None]
        return released

    def _mechanism(self, run: Run) -> Mechanism:
        size, dimension = run.gradients.shape
        common = {"dataset_size": size, "dimension": dimension, "noise_multiplier": 1.0}
        if self.kind is Kind.LOADER:
            return OpacusLoader(batch_size=run.setting.batch_size or 1, **common)
        return KINDS[self.kind](sample_rate=run.setting.rate or Fraction(1), **common)


@final
@dataclass(frozen=True)
class DpsurUpdate:
    """One update of DPSUR, as its paper says it or as its code does it."""

    denominator: Denominator

    @property
    def name(self) -> str:
        """Which of the two."""
        return f"DPSUR as in its {self.denominator.value}"

    @property
    def knob(self) -> Knob:
        """A rate."""
        return Knob.RATE

    @property
    def elsewhere(self) -> str | None:
        """None."""
        return None

    @property
    def swift(self) -> bool:
        """A round takes a millisecond or more."""
        return False

    @property
    def adaptation(self) -> Adaptation | None:
        """None."""
        return None

    def run(self, run: Run) -> Array:
        """The target itself, on the designed gradients; the row that only D' has is zero."""
        rows = (*(tuple(row) for row in run.gradients.tolist()), (0.0,) * run.gradients.shape[1])
        target = Dpsur(
            records=GivenRows(rows),
            dataset_size=len(run.gradients),
            sample_rate=run.setting.rate or Fraction(1),
            noise_multiplier=max(run.noise_multiplier, LEAST_NOISE),
            max_grad_norm=run.max_grad_norm,
            denominator=self.denominator,
        )
        return target.release(Neighbour.SMALLER, np.random.default_rng(run.seed), run.rounds)[:, 0]
