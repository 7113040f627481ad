"""Objects of the caller's, in the caller's process: an Opacus engine, an Opacus optimizer, a function that builds one.

An engine is copied, and the copy makes a small model private on loaders of N records: all of it can be seen. An optimizer is
handed per-sample gradients and asked for its `pre_step`; it was made for one N, so whether its denominator moves with N cannot be
seen, only whether it moves with |B|. A function `build(dataset_size, sample_rate)` shows that too. Nothing of the caller's is
changed: what is set for a run is set back, hooks are not called, and the random state is that of before.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.targets.foreign import Misbehaved, call, message_of
from noisymean.targets.protocol import Knob, Raised, Request, Runnable

Build = Callable[[int, float], Any]
_KEPT = (
    "noise_multiplier", "max_grad_norm", "max_grad_norms", "step_hook", "generator", "_step_skip_queue", "_is_last_step_skipped",
)  # fmt: skip
_OF_PARAMETERS = ("grad", "grad_sample", "summed_grad")


def is_optimizer(thing: object) -> bool:
    """Whether it steps like Opacus' DPOptimizer."""
    return all(hasattr(thing, name) for name in ("pre_step", "params", "noise_multiplier", "max_grad_norm"))


def is_engine(thing: object) -> bool:
    """Whether it is a PrivacyEngine of Opacus 1.x."""
    return callable(getattr(thing, "make_private", None))


@final
@dataclass(frozen=True, eq=False)
class BuiltOptimizer(Runnable):
    """What `build` gives for N records at a rate; or one optimizer, whatever N is (`alone`)."""

    build: Build
    alone: bool = False
    name: str = "optimizer"

    @property
    def knob(self) -> Knob:
        return Knob.FIXED if self.alone else Knob.BATCH

    @property
    def unseen_randomness(self) -> str | None:
        """A generator that was given to the optimizer: it is left alone, and the noise is drawn from the run's seed instead."""
        own = getattr(self.build(10, 0.5), "generator", None)
        words = "its noise is drawn from a generator that it was given, whose seed was not looked at"
        return None if own is None else words

    def run(self, run: Request) -> Array:
        """Poisson batches drawn here, the optimizer's own clipping, noise and division."""
        rate = float(run.setting.rate or 1)
        try:
            optimizer = call(lambda: self.build(run.setting.dataset_size, rate))
        except Misbehaved as fault:
            raise Raised(f"is built by what {fault}") from fault
        if not is_optimizer(optimizer):
            raise InvalidInput("target", type(optimizer).__name__, "an Opacus optimizer, with pre_step and grad_sample")
        generator = np.random.default_rng(run.seed)
        released = np.empty((run.rounds, run.gradients.shape[1]))
        with _borrowed(optimizer, run):
            for row in released:
                batch = np.flatnonzero(generator.random(len(run.gradients)) < rate)
                row[...] = _stepped(optimizer, run.gradients[batch])
        return released


@final
@dataclass(frozen=True, eq=False)
class Engine(Runnable):
    """A PrivacyEngine of Opacus 1.x: copies of it make a linear model private, on ordinary loaders."""

    engine: Any
    reduction: str = "mean"
    name: str = "PrivacyEngine"
    knob = Knob.BATCH_SIZE

    def run(self, run: Request) -> Array:
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        rows = torch.from_numpy(run.gradients).to(torch.float32)
        released = np.empty((run.rounds, rows.shape[1]))
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(run.seed)
            layer = nn.Linear(rows.shape[1], 1, bias=False)
            module, optimizer, loader = copy.deepcopy(self.engine).make_private(
                module=layer,
                optimizer=torch.optim.SGD(layer.parameters(), lr=0.0),
                data_loader=DataLoader(TensorDataset(torch.arange(len(rows))), batch_size=run.setting.batch_size),
                noise_multiplier=run.noise_multiplier,
                max_grad_norm=run.max_grad_norm,
                loss_reduction=self.reduction,
            )
            epochs = itertools.chain.from_iterable(itertools.repeat(loader))
            # rows first: a batch that nobody needs is not drawn
            for row, (indices,) in zip(released, epochs, strict=False):
                optimizer.zero_grad()
                losses = module(rows[indices.long()]).flatten()
                try:
                    (losses.mean() if self.reduction == "mean" else losses.sum()).backward()
                    optimizer.pre_step()
                except Exception as fault:
                    raise Raised(f"raises {type(fault).__name__}: {fault}") from fault
                assert layer.weight.grad is not None
                row[...] = layer.weight.grad.numpy().ravel()
        return released


@contextmanager
def _borrowed(optimizer: Any, run: Request) -> Iterator[None]:
    """The optimizer at the run's noise and bound, its hook silent; everything as it was afterwards."""
    import torch

    kept = {name: getattr(optimizer, name) for name in _KEPT if hasattr(optimizer, name)}
    parameters = list(optimizer.params)
    gradients = [{name: getattr(one, name, None) for name in _OF_PARAMETERS} for one in parameters]
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            if (bounds := kept.get("max_grad_norms")) is not None:
                # one for each layer: each keeps its part of the whole
                optimizer.max_grad_norms = [one * run.max_grad_norm / kept["max_grad_norm"] for one in bounds]
            optimizer.noise_multiplier, optimizer.max_grad_norm = run.noise_multiplier, run.max_grad_norm
            optimizer.step_hook, optimizer._step_skip_queue = None, []
            optimizer.generator = None
            yield
    finally:
        for name, value in kept.items():
            setattr(optimizer, name, value)
        for parameter, values in zip(parameters, gradients, strict=True):
            for name, value in values.items():
                setattr(parameter, name, value)


def _stepped(optimizer: Any, rows: Array) -> Array:
    """The gradient that the optimizer would step along, on as many coordinates as the rows have."""
    import torch

    start, wide = 0, rows.shape[1]
    parameters = list(optimizer.params)
    total = sum(parameter.numel() for parameter in parameters)
    if total < wide:
        raise InvalidInput("target", "optimizer", f"of at least {wide} parameters", "probe a larger model")
    # over all layers, the first coordinate on the first
    places = np.linspace(0, total - 1, wide).astype(np.intp)
    for parameter in parameters:
        size = parameter.numel()
        part = np.zeros((len(rows), size), np.float32)
        here = (start <= places) & (places < start + size)
        part[:, places[here] - start] = rows[:, here]
        start += size
        parameter.grad_sample = torch.from_numpy(part).to(parameter).reshape(len(rows), *parameter.shape)
        parameter.summed_grad = None
    try:
        call(optimizer.pre_step)
    except Misbehaved as fault:
        cause = fault.__cause__
        words = f"raises {type(cause).__name__}: {message_of(cause)}" if isinstance(cause, Exception) else str(fault)
        raise Raised(words) from fault
    parts = [parameter.grad.detach().cpu().reshape(-1) for parameter in parameters]
    flat: Array = torch.cat(parts).double().numpy()[places]
    return flat
