"""DPSUR (Fu et al. 2024): its own update rule, as its paper says it and as its code does it.

Both: a Poisson batch B, each gradient scaled by min(C / (norm + 1e-6), 1), their sum plus C sigma xi, over a denominator.

    paper   |B|, 1 if B is empty: ASGM
    code    |B'| of a second, independent draw: the loader is iterated once to read a batch's length and once more to
            train, and its sampler draws anew. If B is empty there is no step; if B' is empty the denominator keeps its last
            value, at first the nominal batch size.

Selective release: the candidate model's loss on a further Poisson batch minus that of the old model, clipped to +-C_v, plus
N(0, (2 C_v sigma_v)^2), is compared with beta C_v; above it the old model is kept, and what is released is no change at all. Its
means are over the evaluation batch; an empty one changes nothing (0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from noisymean.errors import InvalidInput, MissingDependency, check_number
from noisymean.mechanisms import ASGM, LEAST_NOISE, SGM, exact_rate
from noisymean.numerics.logs import Array
from noisymean.paper.photographs import Photographs
from noisymean.targets.claims import claimed_curve
from noisymean.targets.opacus_releases.sources import clipped
from noisymean.targets.plain import from_plain, to_plain
from noisymean.targets.protocol import Knob, Known, Neighbour, Request, Runnable
from noisymean.targets.records import GivenRows
from noisymean.tradeoff import TradeOff


class Denominator(Enum):
    """What the noisy sum is divided by."""

    BATCH = "paper"
    OTHER_BATCH = "code"


@final
@dataclass(frozen=True)
class Selection:
    """Selective release, with the defaults of the method."""

    bound: float = 0.001
    noise_multiplier: float = 1.0
    threshold: float = -1.0
    learning_rate: float = 0.5


@final
@dataclass(frozen=True, kw_only=True)
class Dpsur:
    """One update of DPSUR on |D| = dataset_size images (or gradients that are given), or one more."""

    records: Photographs | GivenRows
    dataset_size: int
    sample_rate: Fraction
    noise_multiplier: float
    max_grad_norm: float = 0.1
    denominator: Denominator = Denominator.BATCH
    selection: Selection | None = None
    steps: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_rate", exact_rate(self.sample_rate))
        check_number("noise_multiplier", self.noise_multiplier, least=LEAST_NOISE, most=1e9)
        check_number("max_grad_norm", self.max_grad_norm, above=0.0, most=1e9)
        if self.dataset_size < 1:
            raise InvalidInput("dataset_size", self.dataset_size, "a whole number >= 1")
        if isinstance(self.records, GivenRows):
            if len(self.records.rows) != self.dataset_size + 1:
                raise InvalidInput("records", len(self.records.rows), f"{self.dataset_size + 1} rows")
            if self.selection is not None:
                raise InvalidInput(
                    "selection", "given", "left out with given gradients", "they have no loss to compare"
                )

    @property
    def name(self) -> str:
        selected = ", selective release" if self.selection is not None else ""
        return f"DPSUR as in its {self.denominator.value}{selected}, {self.records.words}"

    @property
    def dimension(self) -> int:
        return self.records.dimension

    def configuration(self) -> Mapping[str, Any]:
        # what the records are is told by their fields
        return {"target": "dpsur", **to_plain(self), "records": to_plain(self.records)}

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Dpsur:
        described = configuration["records"]
        kind: type[GivenRows | Photographs] = GivenRows if "rows" in described else Photographs
        return from_plain(cls, {**configuration, "records": from_plain(kind, described)})

    def known(self) -> Known | None:
        """ASGM if it is the paper's; the code's law is none of the paper's mechanisms, nor is one that is selected."""
        if self.denominator is not Denominator.BATCH or self.selection is not None:
            return None
        mechanism = ASGM(
            dataset_size=self.dataset_size,
            dimension=self.dimension,
            sample_rate=self.sample_rate,
            noise_multiplier=self.noise_multiplier,
        )
        return Known(mechanism, self.max_grad_norm, gradients=self._rows)

    def claim(self) -> TradeOff:
        """SGM at its rate, for the update alone."""
        return claimed_curve(SGM(sample_rate=self.sample_rate, noise_multiplier=self.noise_multiplier))

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        """Updates; with selection, zero where the candidate was not accepted."""
        updates, selection = np.empty((trials, 1, self.dimension)), self.selection
        for update in updates[:, 0]:
            self._update(neighbour, generator, update)
            if selection is not None and update.any() and not self._accepted(selection, neighbour, generator, update):
                update[:] = 0.0
        return updates

    def _batch(self, neighbour: Neighbour, generator: np.random.Generator) -> np.ndarray[Any, np.dtype[np.intp]]:
        size = self.dataset_size + (neighbour is Neighbour.LARGER)
        return np.flatnonzero(generator.random(size) < float(self.sample_rate))

    def _update(self, neighbour: Neighbour, generator: np.random.Generator, update: Array) -> None:
        batch = self._batch(neighbour, generator)
        divisor = max(len(batch), 1)
        if self.denominator is Denominator.OTHER_BATCH:
            if not len(batch):
                update[:] = 0.0
                return
            # the batch size that the user has set: a constant, the same for D and D'
            nominal = max(1, round(self.dataset_size * self.sample_rate))
            divisor = len(self._batch(neighbour, generator)) or nominal
        generator.standard_normal(out=update)
        update *= self.noise_multiplier * self.max_grad_norm
        for record in batch:
            update += self._rows[record]
        update /= divisor

    def _accepted(
        self, selection: Selection, neighbour: Neighbour, generator: np.random.Generator, update: Array
    ) -> bool:
        batch, change = self._batch(neighbour, generator), 0.0
        if len(batch):
            moved, still = (self._mean_loss(batch, rate * update) for rate in (-selection.learning_rate, 0.0))
            change = moved - still
        noise = 2.0 * selection.bound * selection.noise_multiplier * generator.standard_normal()
        clipped = min(max(change, -selection.bound), selection.bound)
        return bool(clipped + noise < selection.threshold * selection.bound)

    @cached_property
    def _trained(self) -> tuple[Any, Any, Any]:
        """Where gradients come from, its network, and the records of D'."""
        source = self.records.source()
        try:
            network = source.module()
        except ModuleNotFoundError:
            raise MissingDependency("torch", "audit") from None
        return source, network, source.records(self.records.arrays(self.dataset_size + 1))

    @cached_property
    def _rows(self) -> Array:
        """Clipped gradients of D'."""
        if isinstance(self.records, GivenRows):
            given = np.asarray(self.records.rows, np.float64)
            norms = np.linalg.norm(given, axis=1, keepdims=True)
            return np.asarray(given * np.minimum(self.max_grad_norm / (norms + 1e-6), 1.0))
        source, network, records = self._trained
        return np.asarray(clipped(source.gradients(network, records).double(), self.max_grad_norm))

    def _mean_loss(self, batch: np.ndarray[Any, np.dtype[np.intp]], change: Array) -> float:
        """The loss on a batch, of the model plus a change."""
        import torch
        from torch.func import functional_call

        source, network, records = self._trained
        chosen = tuple(part[torch.from_numpy(batch)] for part in records)
        names, parameters = zip(*network.named_parameters(), strict=True)
        changes = map(torch.from_numpy, np.split(change, np.cumsum([one.numel() for one in parameters])[:-1]))
        moved = [one.detach() + part.to(one.dtype).view_as(one) for one, part in zip(parameters, changes, strict=True)]
        weights = dict(zip(names, moved, strict=True))
        with torch.no_grad():
            losses = [one.losses(functional_call(network, weights, one.inputs)).mean() for one in source.passes(chosen)]
        return float(torch.stack(losses).mean())


@final
@dataclass(frozen=True)
class DpsurUpdate(Runnable):
    """One update of DPSUR on any records, as its paper says it or as its code does it."""

    denominator: Denominator = Denominator.OTHER_BATCH

    @property
    def name(self) -> str:
        return f"DPSUR as in its {self.denominator.value}"

    @property
    def knob(self) -> Knob:
        return Knob.RATE

    def run(self, run: Request) -> Array:
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
