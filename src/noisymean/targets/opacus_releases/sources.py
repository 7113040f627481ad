"""Where the gradients come from, on the side of the worker: rows that are given, or a structure that needs no rows (any N).

A *record* is a tuple of tensors whose first axis counts records. A *pass* is one evaluation of a network on a batch and the loss
of each record in it; a record's loss is the mean over its passes. A kind of source that is not listed here (a network on images)
is imported by its name. torch is loaded by who runs a source, not by who describes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, final

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

Record: TypeAlias = "tuple[Tensor, ...]"
_STABILIZER = 1e-6


@final
@dataclass(frozen=True, eq=False)
class Pass:
    """What the network is given, and what each record loses by its answer."""

    inputs: Record
    losses: Callable[[Tensor], Tensor]


class Source(Protocol):
    """A network, and what it is fed with."""

    kind: ClassVar[str]

    def module(self) -> nn.Module:
        """The network, the same in every process."""

    def records(self, arrays: Sequence[NDArray[Any]]) -> Record:
        """The records of D' from the arrays that were sent."""

    def passes(self, records: Record) -> Iterator[Pass]:
        """The evaluations whose mean loss is a record's loss."""

    def gradients(self, module: nn.Module, records: Record) -> Tensor:
        """A row for each record, before clipping."""


@dataclass(frozen=True)
class Rows:
    """A linear model without a bias whose gradients are the given rows: the gradient of <w, x> is x."""

    dimension: int
    kind: ClassVar[str] = "Rows"

    def module(self) -> nn.Module:
        from torch import nn

        layer = nn.Linear(self.dimension, 1, bias=False)
        nn.init.zeros_(layer.weight)
        return layer

    def records(self, arrays: Sequence[NDArray[Any]]) -> Record:
        import torch

        return (torch.from_numpy(arrays[0]).to(torch.float32),)

    def passes(self, records: Record) -> Iterator[Pass]:
        yield Pass((records[0],), lambda answer: answer.flatten())

    def gradients(self, module: nn.Module, records: Record) -> Tensor:
        return records[0]


@final
@dataclass(frozen=True)
class Structured(Rows):
    """The same linear model; D's gradients are `shared` times C along the first axis, the new record's `new` times C."""

    shared: float
    new: float
    kind: ClassVar[str] = "Structured"


def clipped(gradients: Tensor, max_grad_norm: float) -> Tensor:
    """Rows of norm at most C: times min(C / (norm + 1e-6), 1), the factor of the audited libraries."""
    import torch

    norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
    factors: Tensor = (max_grad_norm / (norms + _STABILIZER)).clamp(max=1.0)
    return gradients * factors
