"""Per-record gradients, flat: one row for each record, its numbers in the order of `parameters()`.

The gradient of a record's loss is averaged over its passes *before* it is clipped; then it is scaled by
min(C / (norm + 1e-6), 1), the factor of the audited libraries.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from noisymean.paper.models.tasks import Task
from noisymean.targets.opacus_releases.sources import Record


def parameter_count(module: nn.Module) -> int:
    """Trainable numbers."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def gradients_of(module: nn.Module, task: Task, records: Record, chunk: int = 16) -> Tensor:
    """Rows of gradients, `chunk` records at a time."""
    weights = {name: parameter.detach() for name, parameter in module.named_parameters()}

    def loss(weights: dict[str, Tensor], *record: Tensor) -> Tensor:
        alone = tuple(part.unsqueeze(0) for part in record)
        losses = [one.losses(functional_call(module, weights, one.inputs))[0] for one in task.passes(alone)]
        return torch.stack(losses).mean()

    each = vmap(grad(loss), in_dims=(None, *(0 for _ in records)), chunk_size=chunk)
    return torch.cat([part.flatten(1) for part in each(weights, *records).values()], dim=1)
