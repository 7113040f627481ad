"""An ordinary training loop through the library: a model of two layers, `make_private` on a data loader, batches, steps.

The model's loss is linear in its parameters, so that the gradient of a record is the record itself: a layer answers with its
weights, and what a record loses is their product with it. The optimizer underneath moves nothing and writes down what it is told
to step along; with sharded parameters it puts the shards together first. All of it is what a user writes, but for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from noisymean.targets.opacus_modes.modes import Clip, Engine, Mode, Wrapper
from noisymean.targets.opacus_releases.setup import Adaptive

LAYERS = 2
# little noise on the count, so that what it is divided by can be read
MOVING = Adaptive(unclipped_num_std=1e-3, clipbound_learning_rate=1.0, target_unclipped_quantile=0.5, moving=True)
# a bound that is updated, by nothing
_STAYS = {"clipbound_learning_rate": 0.0, "min_clipbound": 1e-12, "max_clipbound": 1e12}


@final
class Layers(nn.Module):
    """Two layers that answer with their weights to an input of one."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        first = max(1, dimension // LAYERS)
        sizes = [size for size in (first, dimension - first) if size]
        parts = [nn.Linear(1, size, bias=False) for size in sizes]
        for part in parts:
            nn.init.zeros_(part.weight)
        self.parts = nn.ModuleList(parts)

    def forward(self, ones: Tensor) -> Tensor:
        """All weights, a row for each record."""
        return torch.cat([part(ones) for part in self.parts], dim=1)


@final
class LinearLoss(nn.Module):
    """The product of the answer with the record; `reduction` is what ghost clipping sets and reads."""

    def __init__(self, reduction: str) -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, answer: Tensor, record: Tensor) -> Tensor:
        """A number for each record, or their mean or sum."""
        losses = (answer * record).sum(dim=1)
        match self.reduction:
            case "none":
                return losses
            case "mean":
                return losses.mean()
            case _:
                return losses.sum()


@final
class Recorder(torch.optim.Optimizer):
    """An optimizer that writes down each gradient it is given, and moves nothing."""

    def __init__(self, parameters: list[nn.Parameter], sink: Tensor | None, rounds: int) -> None:
        super().__init__(parameters, {})
        self.recorded, self.sink, self.rounds, self.taken = parameters, sink, rounds, 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Shards are put together by all processes; only the first has a place to write to."""
        if self.taken < self.rounds:
            parts = [_whole(parameter).reshape(-1) for parameter in self.recorded]
            if self.sink is not None:
                self.sink[self.taken].copy_(torch.cat(parts))
        self.taken += 1


def _whole(parameter: nn.Parameter) -> Tensor:
    gradient: Any = parameter.grad
    found: Tensor = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
    return found


@final
@dataclass(frozen=True)
class Order:
    """What is to be run: rounds on records, at this noise and bound (`own_noise`: at the noise that the library calibrates)."""

    batch_size: int
    noise_multiplier: float
    max_grad_norm: float
    rounds: int
    own_noise: bool = False
    empty_as_it_comes: bool = False
    moving_bound: bool = False


@final
@dataclass(frozen=True)
class Seen:
    """What a process saw of its own: the batches that it held, what its optimizer divides by, what the accountant was told."""

    held: tuple[int, ...]
    batches_in_epoch: int
    expected_batch_size: float | None
    noise_multiplier: float
    told_noise: float
    told_rate: float
    told_steps: int


@final
class Training:
    """One mode on one dataset."""

    def __init__(self, mode: Mode, order: Order, rows: Tensor, sink: Tensor | None) -> None:
        self.mode, self.order = mode, order
        self.rows = rows
        model = _shared_out(mode.wrapper, Layers(rows.shape[1]))
        parameters = list(model.parameters())
        self.recorder = Recorder(parameters, sink, order.rounds)
        self.engine = _engine(mode)
        plain = DataLoader(TensorDataset(rows), batch_size=order.batch_size, shuffle=not mode.poisson)
        made = self._made_private(model, plain, len(parameters))
        private, self.optimizer, *criterion, self.loader = made
        # without wrapping, what comes back is only the hooks
        self.model = private if mode.wrap_model else model
        self.criterion = criterion[0] if criterion else LinearLoss(mode.reduction.value)
        self.calibrated = float(self.optimizer.noise_multiplier)
        if mode.calibration is not None and not order.own_noise:
            self.optimizer.noise_multiplier = order.noise_multiplier

    def _made_private(self, model: nn.Module, loader: DataLoader[Any], layers: int) -> Any:
        mode, order = self.mode, self.order
        options: dict[str, Any] = {
            "module": model,
            "optimizer": self.recorder,
            "data_loader": loader,
            "max_grad_norm": _bounds(mode, order.max_grad_norm, layers),
            "loss_reduction": mode.reduction.value,
            "poisson_sampling": mode.poisson,
            "clipping": mode.clip.value,
            "grad_sample_mode": mode.per_sample.value,
            "wrap_model": mode.wrap_model,
        }
        if mode.per_sample.has_criterion:
            options["criterion"] = LinearLoss(mode.reduction.value)
        if mode.clip is Clip.ADAPTIVE:
            adaptive = MOVING if order.moving_bound else Adaptive()
            options |= {name: value for name, value in vars(adaptive).items() if name != "moving"}
        if mode.engine is Engine.ADAPTIVE:
            options |= _STAYS
        if (asked := mode.calibration) is not None:
            return self.engine.make_private_with_epsilon(
                target_epsilon=asked.target_epsilon, target_delta=asked.target_delta, epochs=asked.epochs, **options
            )
        if mode.rand_on_empty:
            options["rand_on_empty"] = True
        return self.engine.make_private(noise_multiplier=order.noise_multiplier, **options)

    def run(self) -> Seen:
        """Epoch after epoch until all rounds are taken."""
        held: list[int] = []
        with self._batches() as loader:
            while self.recorder.taken < self.order.rounds:
                for (batch,) in map(_tensors, loader):
                    if self.recorder.taken >= self.order.rounds:
                        break
                    held.append(len(batch))
                    self._take(batch)
        noise, rate, steps = self.engine.accountant.history[-1]
        divided = self.optimizer.expected_batch_size
        return Seen(
            held=tuple(held),
            batches_in_epoch=len(self.loader),
            expected_batch_size=None if divided is None else float(divided),
            noise_multiplier=self.calibrated,
            told_noise=float(noise),
            told_rate=float(rate),
            told_steps=int(steps),
        )

    @contextmanager
    def _batches(self) -> Iterator[Any]:
        if self.mode.physical is None:
            yield self.loader
            return
        from opacus.utils.batch_memory_manager import BatchMemoryManager

        with BatchMemoryManager(
            data_loader=self.loader, max_physical_batch_size=self.mode.physical, optimizer=self.optimizer
        ) as loader:
            yield loader

    def _take(self, batch: Tensor) -> None:
        """What stands in a training loop, for one batch as the loader gave it."""
        order = self.order
        if batch.shape[1:] != self.rows.shape[1:]:
            # the very first batch was empty, and the loader did not know yet what batches look like
            batch = self.rows[:0]
        if len(batch) == 0 and not self.mode.steps_on_empty and not order.empty_as_it_comes:
            # it would raise: one record whose gradient is zero stands for nobody
            batch = torch.zeros_like(self.rows[:1])
        if self.mode.clip is Clip.ADAPTIVE and not order.moving_bound:
            self.optimizer.max_grad_norm = order.max_grad_norm
        self.optimizer.zero_grad()
        self.criterion(self.model(torch.ones(len(batch), 1)), batch).backward()
        self.optimizer.step()


def seeded(seed: int, rank: int) -> None:
    """Each process draws from a seed of its own: with one for all of them, all would draw the same positions."""
    torch.manual_seed(int(np.random.SeedSequence([seed, rank]).generate_state(1, np.uint64)[0] >> 1))


def _tensors(batch: Any) -> tuple[Tensor]:
    """A batch of a TensorDataset; an empty list is one that the loader could not shape."""
    return (batch[0] if len(batch) else torch.empty(0, 0),)


@cache
def _keep_calibrations() -> None:
    """To calibrate takes a second, and the same noise is asked for in run after run: the library's function is asked once."""
    from opacus import privacy_engine

    privacy_engine.get_noise_multiplier = cache(privacy_engine.get_noise_multiplier)


def _engine(mode: Mode) -> Any:
    if mode.calibration is not None:
        _keep_calibrations()
    asked = {} if mode.calibration is None else {"accountant": mode.calibration.accountant}
    match mode.engine:
        case Engine.PLAIN:
            from opacus import PrivacyEngine

            return PrivacyEngine(**asked)
        case Engine.ADAPTIVE:
            from opacus.utils.adaptive_clipping import PrivacyEngineAdaptiveClipping

            return PrivacyEngineAdaptiveClipping(**asked)


def _bounds(mode: Mode, bound: float, layers: int) -> float | list[float]:
    return [bound / math.sqrt(layers)] * layers if mode.clip is Clip.PER_LAYER else bound


def _shared_out(wrapper: Wrapper, model: nn.Module) -> nn.Module:
    """The model as each of the processes has it."""
    match wrapper:
        case Wrapper.NONE:
            return model
        case Wrapper.OPACUS_DDP:
            from opacus.distributed import DifferentiallyPrivateDistributedDataParallel

            shared: nn.Module = DifferentiallyPrivateDistributedDataParallel(model)
            return shared
        case Wrapper.TORCH_DDP:
            return nn.parallel.DistributedDataParallel(model)
        case Wrapper.FSDP:
            from opacus.utils.fsdp_utils import FSDP2Wrapper

            sharded: nn.Module = FSDP2Wrapper(model)
            return sharded
