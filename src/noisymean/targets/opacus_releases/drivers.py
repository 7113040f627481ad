"""The release's own engine or optimizer, fed with batches and recorded.

A driver holds one dataset. For a round it draws a batch as that release does, has the feeder give the library its
per-sample gradients, and calls the library's own `step`, which clips, adds noise and divides; the optimizer underneath
is a recorder that writes what it is told to step along into a row of the release. Parameters never move, so rounds are
independent and identically distributed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from noisymean.targets.opacus_releases.feeders import Feeder
from noisymean.targets.opacus_releases.releases import Clipping, Era, GradSample
from noisymean.targets.opacus_releases.setup import AtRate, Empty, Reduction, Setup, Shuffled, ThroughLoader

Indices = Sequence[int]

# orders of the old engines' accountant, which is not used here
_ORDERS = [2.0]


@final
class Recorder(torch.optim.Optimizer):
    """An optimizer that writes down each gradient it is given, and moves nothing."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        super().__init__(parameters, {})
        self._recorded = list(parameters)
        self.sink: Tensor = torch.empty(0, 0)
        self.taken = 0

    def start(self, sink: Tensor) -> None:
        """Fill `sink` from its first row on."""
        self.sink, self.taken = sink, 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """A row, as long as there are rows."""
        if self.taken < len(self.sink):
            row, offset = self.sink[self.taken], 0
            for parameter in self._recorded:
                size = parameter.numel()
                assert parameter.grad is not None
                row[offset : offset + size].copy_(parameter.grad.reshape(-1))
                offset += size
        self.taken += 1

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Zeros by default, as in torch when 0.14.0 was written: its empty steps need a gradient to add noise to."""
        super().zero_grad(set_to_none)


class Driver(ABC):
    """One dataset of `size` records under one release."""

    def __init__(self, setup: Setup, size: int, module: nn.Module) -> None:
        self.setup, self.size, self.module = setup, size, module
        self.release = setup.release.known
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.recorder = Recorder(self.parameters)
        self.feeder: Feeder

    def run(self, seed: int, sink: Tensor) -> None:
        """Fill the rows of `sink`; the seed decides everything."""
        torch.manual_seed(seed)
        np.random.seed(np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32))  # noqa: NPY002 - the generator that 0.14.0 asks
        self.begin(sink)
        for indices in self.batches():
            if self.recorder.taken >= len(sink):
                return
            self.take(indices)

    @abstractmethod
    def begin(self, sink: Tensor) -> None:
        """Point the recorder at `sink`, and whatever the release does before its first batch."""

    @abstractmethod
    def batches(self) -> Iterator[Indices]:
        """Batches without end."""

    @abstractmethod
    def take(self, indices: Indices) -> None:
        """The release's step on one batch."""

    def bounds(self) -> float | list[float]:
        """The clipping bound, or one for each layer with the same total."""
        if self.setup.release.clipping is Clipping.PER_LAYER:
            return [self.setup.max_grad_norm / math.sqrt(len(self.parameters))] * len(self.parameters)
        return self.setup.max_grad_norm

    def shuffled(self, batch_size: int) -> DataLoader[Any]:
        """An ordinary loader of indices."""
        return DataLoader(TensorDataset(torch.arange(self.size)), batch_size=batch_size, shuffle=True)

    def drawn_here(self, rate: float) -> Iterator[Indices]:
        """Poisson sampling by us, where the release has no sampler."""
        while True:
            yield torch.nonzero(torch.rand(self.size) < rate).flatten().tolist()


@final
class AttachedEngine(Driver):
    """0.9.0 to 0.15.0: an engine attached to the optimizer."""

    def __init__(self, setup: Setup, size: int, module: nn.Module) -> None:
        super().__init__(setup, size, module)
        import opacus

        self.engine: Any = opacus.PrivacyEngine(module, **self._options())
        self.engine.attach(self.recorder)

    @property
    def _makes_up_for_empty(self) -> bool:
        return self.release.era is Era.POISSON_FLAG and self.setup.release.poisson

    def _options(self) -> dict[str, Any]:
        setup = self.setup
        options: dict[str, Any] = {
            "noise_multiplier": setup.noise_multiplier,
            "max_grad_norm": self.bounds(),
            "loss_reduction": setup.release.reduction.value,
            "alphas": _ORDERS,
            "sample_size": self.size,
        }
        if self.release.era is Era.NO_SAMPLER:
            # a batch above the declared size raises, so the largest possible is declared
            return {**options, "batch_size": setup.declared or self.size}
        rate = (
            float(setup.sampling.rate) if isinstance(setup.sampling, AtRate) else setup.sampling.batch_size / self.size
        )
        if self.release.era is Era.POISSON_FLAG:
            options["poisson"] = setup.release.poisson
        return {**options, "sample_rate": rate}

    def begin(self, sink: Tensor) -> None:
        """With poisson=True the engine begins with as many empty steps as come before the first batch with a record."""
        if self._makes_up_for_empty:
            self.recorder = Recorder(self.parameters)
            self.recorder.start(sink)
            self.engine.attach(self.recorder)
        else:
            self.recorder.start(sink)

    def batches(self) -> Iterator[Indices]:
        """By the release's sampler, where it has one and uses it."""
        match self.setup.sampling:
            case Shuffled(batch_size=size) | ThroughLoader(batch_size=size):
                while True:
                    for (batch,) in self.shuffled(size):
                        yield batch.tolist()
            case AtRate(rate=rate) if self.release.era is Era.SAMPLER or self._makes_up_for_empty:
                from opacus.utils.uniform_sampler import UniformWithReplacementSampler

                sampler = UniformWithReplacementSampler(num_samples=self.size, sample_rate=float(rate))
                records = TensorDataset(torch.arange(self.size))
                while self.setup.empty is Empty.AS_IT_COMES:
                    for (batch,) in DataLoader(records, batch_sampler=sampler):
                        yield batch.tolist()
                while True:
                    yield from sampler
            case AtRate(rate=rate):
                yield from self.drawn_here(float(rate))

    def take(self, indices: Indices) -> None:
        """Gradients, then the engine's step."""
        self.recorder.zero_grad()
        self.feeder.feed(indices)
        self.recorder.step()


@final
class MadePrivate(Driver):
    """1.0.0 and later: what `make_private` returns."""

    def __init__(self, setup: Setup, size: int, module: nn.Module) -> None:
        super().__init__(setup, size, module)
        import opacus

        engine: Any = opacus.PrivacyEngine()
        made = engine.make_private(module=module, optimizer=self.recorder, data_loader=self._plain(), **self._options())
        self.private, self.optimizer, *criterion, self.loader = made
        self.criterion = criterion[0] if criterion else None
        if isinstance(setup.sampling, AtRate):
            self._set_rate(setup.sampling)

    def _plain(self) -> DataLoader[Any]:
        match self.setup.sampling:
            case Shuffled(batch_size=size):
                return self.shuffled(size)
            case ThroughLoader(batch_size=size):
                return DataLoader(TensorDataset(torch.arange(self.size)), batch_size=size)
            case AtRate():
                return DataLoader(TensorDataset(torch.arange(self.size)), batch_size=self.size)

    def _options(self) -> dict[str, Any]:
        setup = self.setup
        options: dict[str, Any] = {
            "noise_multiplier": setup.noise_multiplier,
            "max_grad_norm": self.bounds(),
            "loss_reduction": setup.release.reduction.value,
            "poisson_sampling": not isinstance(setup.sampling, Shuffled),
            "clipping": setup.release.clipping.value,
        }
        if setup.release.grad_sample is not GradSample.HOOKS:
            options["grad_sample_mode"] = setup.release.grad_sample.value
        if setup.release.grad_sample is GradSample.GHOST:
            options["criterion"] = nn.CrossEntropyLoss(reduction=setup.release.reduction.value)
        if setup.release.clipping is Clipping.ADAPTIVE:
            options |= {name: value for name, value in vars(setup.release.adaptive).items() if name != "moving"}
        return options

    def _set_rate(self, sampling: AtRate) -> None:
        """Where no batch size gives the rate: the same loader class at that rate, and floor(N q) to divide by."""
        from opacus.data_loader import DPDataLoader

        self.loader = DPDataLoader(
            TensorDataset(torch.arange(self.size)), sample_rate=float(sampling.rate), prefetch_factor=None
        )
        self.optimizer.expected_batch_size = math.floor(self.size * sampling.rate)

    def begin(self, sink: Tensor) -> None:
        """Nothing comes before the first batch."""
        self.recorder.start(sink)

    def batches(self) -> Iterator[Indices]:
        """By the library's own loader, epoch after epoch."""
        while True:
            for batch in self.loader:
                yield batch[0].tolist() if len(batch) else []

    def take(self, indices: Indices) -> None:
        """Gradients, then the optimizer's step."""
        self.optimizer.zero_grad()
        if self.setup.release.clipping is Clipping.ADAPTIVE and not self.setup.release.adaptive.moving:
            self.optimizer.max_grad_norm = self.setup.max_grad_norm
        self.feeder.feed(indices)
        self.optimizer.step()


def driver_for(setup: Setup, size: int, module: nn.Module) -> AttachedEngine | MadePrivate:
    """The driver of that release."""
    if setup.release.era is Era.MAKE_PRIVATE:
        return MadePrivate(setup, size, module)
    return AttachedEngine(setup, size, module)


def scale_of(reduction: Reduction, losses: Tensor) -> Tensor:
    """The loss of a batch."""
    return losses.mean() if reduction is Reduction.MEAN else losses.sum()
