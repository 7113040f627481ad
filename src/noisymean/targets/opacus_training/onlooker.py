r"""What an adversary computes who holds D and sees every weight vector: where a release is centred, and where batches move it.

A release at weights w is (sum of the batch's clipped gradients g_j + sigma C xi) / c. On D its mean is (q/c) sum_j g_j, and the
choice of the batch moves it with covariance q(1-q)/c^2 sum_j g_j g_j^T. Gradients of a network share few directions, so most of
that lies in the span of the largest eigenvectors of sum g g^T. Outside of them a release is noise, but for a few percent.

At the first weights, which every trial has, all N gradients are computed once. At later ones, which no two trials share, those
of a sample of D that is fixed beforehand: its span takes its own mean out, and with it nearly all of that of D.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from opacus import GradSampleModule
from torch import Tensor

from noisymean.numerics.logs import Array
from noisymean.targets.opacus_releases.sources import Record, clipped
from noisymean.targets.opacus_training.run import Runs, alone, weights_of
from noisymean.targets.opacus_training.sample import DIRECTIONS, FIRST_SAMPLE, LATER_SAMPLE, SAMPLE_SEED
from noisymean.targets.protocol import Centre, Neighbour

if TYPE_CHECKING:
    from noisymean.targets.opacus_training.target import OpacusTraining

# Gradients that are in memory at once.
_AT_ONCE = 512
# Of the largest eigenvalue; what is smaller is rounding.
_NEGLIGIBLE = 1e-9
# What was computed last at the first weights: the mean gradient, and the gradients of the sample.
_KEPT: dict[Hashable, tuple[Tensor, Tensor]] = {}


@final
class Onlooker:
    """Holds D, its order of records shuffled once, and a network to put weights into."""

    def __init__(self, target: OpacusTraining, runs: Runs) -> None:
        self.target, self.runs = target, runs
        records = runs.dataset(Neighbour.SMALLER)
        order = torch.randperm(target.dataset_size, generator=torch.Generator().manual_seed(SAMPLE_SEED))
        self.records: Record = tuple(part[order[:FIRST_SAMPLE]] for part in records)
        self.network = runs.source.module()
        self.first_weights = weights_of(self.network)
        # per-sample gradients by the library's own hooks
        self.hooked = GradSampleModule(self.network, loss_reduction="sum")

    def centre(self, moved: Array, *, first: bool) -> Centre:
        """At the first weights plus `moved`."""
        if first:
            return self._first
        with alone():
            self._put(self.first_weights + moved)
            sample = self._clipped(tuple(part[:LATER_SAMPLE] for part in self.records))
            return self._centre(sample.mean(dim=0).double(), sample)

    @cached_property
    def _first(self) -> Centre:
        """By all records of D."""
        # the same for every run on these records, whatever its steps, its noise and what is divided by
        key = (self.target.records, self.target.dataset_size, self.target.max_grad_norm)
        with alone():
            if key not in _KEPT:
                self._put(self.first_weights)
                _KEPT.clear()
                _KEPT[key] = self._mean_of_all(), self._clipped(self.records)
            return self._centre(*_KEPT[key])

    def _mean_of_all(self) -> Tensor:
        total = torch.zeros(self.target.dimension, dtype=torch.float64)
        for part in _parts(self.runs.dataset(Neighbour.SMALLER)):
            total += self._clipped(part).sum(dim=0, dtype=torch.float64)
        return total / self.target.dataset_size

    def _centre(self, mean_gradient: Tensor, sample: Tensor) -> Centre:
        """Where the mean over D of the clipped gradients is given, and those of a sample."""
        target = self.target
        scale = float(target.drawn_at) * target.dataset_size / target.divisors[0]
        values, vectors = torch.linalg.eigh((sample @ sample.T).double())
        kept = values[-DIRECTIONS:] > _NEGLIGIBLE * values[-1]
        chosen, lengths = vectors[:, -DIRECTIONS:][:, kept], values[-DIRECTIONS:][kept].sqrt()
        directions = (chosen / lengths).T.float() @ sample
        return Centre(scale * mean_gradient.numpy(), directions.double().numpy())

    def _clipped(self, records: Record) -> Tensor:
        """A row for each record."""
        rows = []
        for part in _parts(records):
            self.hooked.zero_grad()
            (one,) = self.runs.source.passes(part)
            loss: Any = one.losses(self.hooked(*one.inputs)).sum()
            loss.backward()
            parts = [one.grad_sample.detach().flatten(1) for one in self.network.parameters()]  # type: ignore[attr-defined]
            rows.append(clipped(torch.cat(parts, dim=1), self.target.max_grad_norm))
        return torch.cat(rows)

    def _put(self, weights: Array) -> None:
        torch.nn.utils.vector_to_parameters(torch.from_numpy(np.array(weights)).float(), self.network.parameters())


def _parts(records: Record) -> Iterator[Record]:
    return zip(*(torch.split(part, _AT_ONCE) for part in records), strict=True)
