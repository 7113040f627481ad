"""The release's own engine or optimizer, fed with batches and recorded.

A driver holds one dataset. For a round it draws a batch as that release does, has the feeder give the library its
per-sample gradients, and calls the library's own `step`, which clips, adds noise and divides; the optimizer underneath
is a recorder that writes what it is told to step along into a row of the release. Parameters never move, so rounds are
independent and identically distributed.
"""

from __future__ import annotations

import contextlib
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
from noisymean.targets.opacus_releases.setup import AtRate, Empty, Setup, Shuffled, ThroughLoader

Indices = Sequence[int]

# orders of the old engines' accountant, which is not used here
_ORDERS = [2.0]


class Filled(Exception):
    """The last row that was asked for is written: nothing that the release would still do is looked at."""


@final
class Recorder(torch.optim.Optimizer):
    """An optimizer that writes down each gradient it is given, and moves nothing; raises Filled with the last one."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        super().__init__(parameters, {})
        self._recorded = list(parameters)
        self.sink: Tensor = torch.empty(0, 0)
        self.taken = 0

    def start(self, sink: Tensor) -> None:
        """Fill `sink` from its first row on."""
        self.sink, self.taken = sink, 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        row, offset = self.sink[self.taken], 0
        for parameter in self._recorded:
            size = parameter.numel()
            assert parameter.grad is not None
            row[offset : offset + size].copy_(parameter.grad.reshape(-1))
            offset += size
        self.taken += 1
        if self.taken == len(self.sink):
            raise Filled

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Zeros by default, as in torch when 0.14.0 was written: its empty steps need a gradient to add noise to."""
        super().zero_grad(set_to_none)


class Driver(ABC):
    """One dataset of `size` records under one release."""

    def __init__(self, setup: Setup, size: int, module: nn.Module) -> None:
        self.setup, self.size, self.module = setup, size, module
        self.release = setup.release.known
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.records = TensorDataset(torch.arange(size))
        self.recorder = Recorder(self.parameters)
        self.feeder: Feeder

    def run(self, seed: int, sink: Tensor) -> None:
        """Fill the rows of `sink`; the seed decides everything."""
        torch.manual_seed(seed)
        np.random.seed(np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32))  # noqa: NPY002 - the generator that 0.14.0 asks
        # 0.14.0 and 0.15.0 make up for empty batches, dozens at a time at a small rate: a run ends in the middle of them
        with contextlib.suppress(Filled):
            self.begin(sink)
            for indices in self.batches():
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

    def options(self) -> dict[str, Any]:
        """What every engine is told; with a bound for each layer they have the same total."""
        bound: float | list[float] = self.setup.max_grad_norm
        if self.setup.release.clipping is Clipping.PER_LAYER:
            bound = [self.setup.max_grad_norm / math.sqrt(len(self.parameters))] * len(self.parameters)
        return {
            "noise_multiplier": self.setup.noise_multiplier,
            "max_grad_norm": bound,
            "loss_reduction": self.setup.release.reduction.value,
        }


@final
class AttachedEngine(Driver):
    """0.9.0 to 0.15.0: an engine attached to the optimizer."""

    def __init__(self, setup: Setup, size: int, module: nn.Module) -> None:
        super().__init__(setup, size, module)
        import opacus

        self.engine: Any = opacus.PrivacyEngine(module, **self._options())
        if not self._makes_up_for_empty:
            self.engine.attach(self.recorder)

    @property
    def _makes_up_for_empty(self) -> bool:
        return self.release.era is Era.POISSON_FLAG and self.setup.release.poisson

    def _options(self) -> dict[str, Any]:
        setup, sampling = self.setup, self.setup.sampling
        options = {**self.options(), "alphas": _ORDERS, "sample_size": self.size}
        if self.release.era is Era.NO_SAMPLER:
            # a batch above the declared size raises, so the largest possible is declared
            return {**options, "batch_size": setup.declared or self.size}
        if self.release.era is Era.POISSON_FLAG:
            options["poisson"] = setup.release.poisson
        rate = float(sampling.rate) if isinstance(sampling, AtRate) else sampling.batch_size / self.size
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
                    for (batch,) in DataLoader(self.records, batch_size=size, shuffle=True):
                        yield batch.tolist()
            case AtRate(rate=rate) if self.release.era is Era.SAMPLER or self._makes_up_for_empty:
                from opacus.utils.uniform_sampler import UniformWithReplacementSampler

                sampler = UniformWithReplacementSampler(num_samples=self.size, sample_rate=float(rate))
                while self.setup.empty is Empty.AS_IT_COMES:
                    for (batch,) in DataLoader(self.records, batch_sampler=sampler):
                        yield batch.tolist()
                while True:
                    yield from sampler
            case AtRate(rate=rate):
                # the release has no sampler
                while True:
                    yield torch.nonzero(torch.rand(self.size) < float(rate)).flatten().tolist()

    def take(self, indices: Indices) -> None:
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
        sampling = setup.sampling
        batch_size = size if isinstance(sampling, AtRate) else sampling.batch_size
        plain = DataLoader(self.records, batch_size=batch_size, shuffle=isinstance(sampling, Shuffled))
        made = engine.make_private(module=module, optimizer=self.recorder, data_loader=plain, **self._options())
        self.private, self.optimizer, *criterion, self.loader = made
        self.criterion = criterion[0] if criterion else None
        if isinstance(sampling, AtRate):
            # no batch size gives the rate: the same loader class at that rate, and floor(N q) to divide by
            from opacus.data_loader import DPDataLoader

            self.loader = DPDataLoader(self.records, sample_rate=float(sampling.rate), prefetch_factor=None)
            self.optimizer.expected_batch_size = math.floor(size * sampling.rate)

    def _options(self) -> dict[str, Any]:
        release, poisson = self.setup.release, not isinstance(self.setup.sampling, Shuffled)
        options = {**self.options(), "poisson_sampling": poisson, "clipping": release.clipping.value}
        if release.grad_sample is not GradSample.HOOKS:
            options["grad_sample_mode"] = release.grad_sample.value
        if release.grad_sample is GradSample.GHOST:
            options["criterion"] = nn.CrossEntropyLoss(reduction=release.reduction.value)
        if release.clipping is Clipping.ADAPTIVE:
            options |= {name: value for name, value in vars(release.adaptive).items() if name != "moving"}
        return options

    def begin(self, sink: Tensor) -> None:
        self.recorder.start(sink)

    def batches(self) -> Iterator[Indices]:
        while True:
            for batch in self.loader:
                yield batch[0].tolist() if len(batch) else []

    def take(self, indices: Indices) -> None:
        self.optimizer.zero_grad()
        if self.setup.release.clipping is Clipping.ADAPTIVE and not self.setup.release.adaptive.moving:
            self.optimizer.max_grad_norm = self.setup.max_grad_norm
        self.feeder.feed(indices)
        self.optimizer.step()
