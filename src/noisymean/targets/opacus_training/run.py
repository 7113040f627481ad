"""One training run through the installed Opacus, as its documentation has it, and the weights before and after each step.

Nothing of the library is replaced: `make_private`, its data loader and sampler, its hooks for per-sample gradients and its
optimizer over torch's SGD. Every trial makes all of them anew from one seed.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from noisymean.numerics.logs import Array
from noisymean.targets.opacus_releases.sources import Record
from noisymean.targets.protocol import Neighbour
from noisymean.targets.registry import imported

if TYPE_CHECKING:
    from noisymean.targets.opacus_training.target import OpacusTraining

# by name, since integrations are above targets: the remedy that is recommended is the one that is run
_FIX, _LOADER = "noisymean.integrations.opacus:fix", "noisymean.integrations.opacus:poisson_loader"


@contextmanager
def alone() -> Iterator[None]:
    """On one thread, so that sums have one order; what the libraries remark on each of thousands of steps is not repeated."""
    log = logging.getLogger("opacus")
    threads, level = torch.get_num_threads(), log.level
    torch.set_num_threads(1)
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)
        log.setLevel(level)


@final
class Runs:
    """Both datasets in memory, and runs on either."""

    def __init__(self, target: OpacusTraining) -> None:
        self.target, self.source = target, target.records.source()
        # the last record is the one that D lacks
        self.larger: Record = self.source.records(target.records.arrays(target.dataset_size + 1))

    def dataset(self, neighbour: Neighbour) -> Record:
        size = neighbour.size(self.target.dataset_size)
        return tuple(part[:size] for part in self.larger)

    def released(self, neighbour: Neighbour, seed: int) -> Array:
        """The change of the weights over the learning rate, a row for each step; the seed decides all of it."""
        target = self.target
        with alone(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self.source.module()
            optimizer: Any = torch.optim.SGD(network.parameters(), lr=target.learning_rate)
            model, optimizer, loader = self._made_private(network, optimizer, TensorDataset(*self.dataset(neighbour)))
            weights = [weights_of(network)]
            while len(weights) <= target.steps:
                for batch in loader:
                    if len(weights) > target.steps:
                        break
                    optimizer.zero_grad()
                    loss: Any = self._losses(model, tuple(batch)).mean()
                    loss.backward()
                    optimizer.step()
                    weights.append(weights_of(network))
        return -np.diff(np.stack(weights), axis=0) / target.learning_rate

    def _made_private(self, network: nn.Module, optimizer: Any, records: TensorDataset) -> tuple[Any, Any, Any]:
        target = self.target
        if target.fixed:
            loader: Any = imported(_LOADER)(records, sample_rate=target.rate)
        else:
            loader = DataLoader(records, batch_size=target.batch_size)
        model, private, drawn = PrivacyEngine().make_private(
            module=network,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=target.noise_multiplier,
            max_grad_norm=target.max_grad_norm,
        )
        if target.fixed:
            imported(_FIX)(private, denominator=target.divisors[0], data_loader=drawn)
        return model, private, drawn

    def _losses(self, model: Any, batch: Record) -> Tensor:
        """Of each record; a classifier has one pass."""
        (one,) = self.source.passes(batch)
        return one.losses(model(*one.inputs))


def weights_of(network: nn.Module) -> Array:
    """All of them in a row, in double precision."""
    return np.asarray(torch.cat([one.detach().flatten() for one in network.parameters()]).double().numpy())
