"""How a batch becomes per-sample gradients of the library's parameters.

replayed    rows computed once; a batch's rows are put into `grad_sample`, small sets of batches are kept ready
structured  rows that are all alike but one: a view of one buffer, whatever the size of the batch
recomputed  forward and backward through the library's own hooks, on every trial
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn

from noisymean.targets.opacus_releases.sources import Pass, Record

# numbers kept ready of batches that come again
_KEPT = 1 << 28


@dataclass(eq=False)
class Feeder(ABC):
    """Gives `parameters` their per-sample gradients."""

    parameters: Sequence[nn.Parameter]
    steps_on_empty: bool
    # an empty batch goes through the release's own code
    as_it_comes: bool = field(default=False, init=False)

    def feed(self, indices: Sequence[int]) -> None:
        """The gradients of this batch; an empty one is a single zero gradient where the release cannot step without."""
        if len(indices) or self.as_it_comes:
            self.fill(indices)
        else:
            count = 0 if self.steps_on_empty else 1
            for parameter in self.parameters:
                give(parameter, torch.zeros(count, *parameter.shape, device=parameter.device))

    @abstractmethod
    def fill(self, indices: Sequence[int]) -> None:
        """The gradients of a batch with records."""


def give(parameter: nn.Parameter, gradients: Tensor) -> None:
    """`grad_sample`, where every release looks; some also take the shape of the result from `grad`."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    parameter.grad_sample = gradients  # type: ignore[attr-defined]


@final
@dataclass(eq=False)
class Replayed(Feeder):
    """Rows, flat, as computed once."""

    rows: Tensor

    def __post_init__(self) -> None:
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.ready: dict[tuple[int, ...], list[Tensor]] = {}
        self.kept = 0

    def fill(self, indices: Sequence[int]) -> None:
        """Fresh views: releases mark the tensors they have used."""
        for parameter, part in zip(self.parameters, self._parts(tuple(indices)), strict=True):
            give(parameter, part.view_as(part))

    def _parts(self, indices: tuple[int, ...]) -> list[Tensor]:
        if (parts := self.ready.get(indices)) is not None:
            return parts
        chosen = self.rows[list(indices)]
        parts = [
            piece.reshape(len(indices), *parameter.shape).contiguous()
            for piece, parameter in zip(torch.split(chosen, self.sizes, dim=1), self.parameters, strict=True)
        ]
        if self.kept + chosen.numel() <= _KEPT:
            self.ready[indices] = parts
            self.kept += chosen.numel()
        return parts


@final
@dataclass(eq=False)
class StructuredRows(Feeder):
    """One parameter; every gradient is a multiple of the first axis, `shared` for D's records, `new` for the last."""

    newest: int
    shared: float
    new: float

    def __post_init__(self) -> None:
        (self.parameter,) = self.parameters
        self.buffer = self._zeros(0)

    def fill(self, indices: Sequence[int]) -> None:
        """A view of as many rows as there are records; the newest record is the last of its batch."""
        count = len(indices)
        if count > len(self.buffer):
            self.buffer = self._zeros(count + count // 4)
        rows = self.buffer[:count]
        rows.flatten(1)[:, 0] = self.shared
        if indices[-1] == self.newest:
            rows[-1].view(-1)[0] = self.new
        give(self.parameter, rows.view_as(rows))

    def _zeros(self, count: int) -> Tensor:
        return torch.zeros(count, *self.parameter.shape, device=self.parameter.device)


@final
@dataclass(eq=False)
class Recomputed(Feeder):
    """The library's own per-sample gradients, averaged over the passes of a record where there are several."""

    module: Callable[..., Tensor]
    records: Record
    passes: Callable[[Record], Iterator[Pass]]
    reduce: Callable[[Tensor], Tensor]
    # a parameter without gradients has None from 1.0.0 on; before, it has no such attribute
    none_is_left: bool

    def fill(self, indices: Sequence[int]) -> None:
        batch = tuple(part[list(indices)] for part in self.records)
        found = list[list[Tensor]]()
        for one in self.passes(batch):
            if found:
                # what the last pass left would be taken for an earlier batch
                for parameter in self.parameters:
                    if self.none_is_left:
                        parameter.grad_sample = None  # type: ignore[attr-defined]
                    else:
                        del parameter.grad_sample  # type: ignore[attr-defined]
            self.reduce(one.losses(self.module(*one.inputs))).backward()  # type: ignore[no-untyped-call]
            found.append([_flat(parameter) for parameter in self.parameters])
        if len(found) > 1:
            for parameter, *draws in zip(self.parameters, *found, strict=True):
                give(parameter, torch.stack(draws).mean(0))


@final
@dataclass(eq=False)
class Ghost(Feeder):
    """Two backward passes inside the library's loss; there are no per-sample gradients to see."""

    module: Callable[..., Tensor]
    records: Record
    criterion: Any

    def feed(self, indices: Sequence[int]) -> None:
        """An empty batch has a zero gradient."""
        if len(indices):
            self.fill(indices)
        else:
            for parameter in self.parameters:
                parameter.grad = torch.zeros_like(parameter)

    def fill(self, indices: Sequence[int]) -> None:
        inputs, labels = (part[list(indices)] for part in self.records)
        self.criterion(self.module(inputs), labels).backward()


def _flat(parameter: nn.Parameter) -> Tensor:
    """`grad_sample`, which some releases keep as a list of batches."""
    gradients = parameter.grad_sample  # type: ignore[attr-defined]
    return torch.cat(gradients) if isinstance(gradients, list) else gradients
