"""What a gradient is taken of: records, their preprocessing, the loss of each; and the gradients.

A classifier has one pass; a diffusion model has K, one for each draw of noise, and the draws belong to the record: they are made
once, so that computing a gradient twice gives the same gradient. What a record and a pass are: `opacus_releases.sources`.

EDM (Karras et al. 2022), with D = sigma^2 + sigma_d^2: c_skip = sigma_d^2 / D, c_out = sigma sigma_d / sqrt D,
c_in = 1 / sqrt D, c_noise = ln(sigma) / 4; weight D / (sigma sigma_d)^2; ln sigma ~ N(-1.2, 1.2^2).

The gradient of a record's loss is averaged over its passes *before* it is clipped; then it is scaled by
min(C / (norm + 1e-6), 1), the factor of the audited libraries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from noisymean.errors import InvalidInput
from noisymean.paper.data import Images
from noisymean.paper.models.unet import NO_LABEL
from noisymean.targets.opacus_releases.sources import Pass, Record

# of the three colours over ImageNet, as the methods use them for CIFAR-10
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

SIGMA_DATA = math.sqrt(1 / 3)
LOG_SIGMA_MEAN, LOG_SIGMA_DEVIATION = -1.2, 1.2
LABEL_DROPPED = 0.1


class Task(Protocol):
    """Images to records, records to passes."""

    def records(self, images: Images, seed: int) -> Record:
        """The records of these images; `seed` decides any draws that belong to them."""

    def passes(self, records: Record) -> Iterator[Pass]:
        """The evaluations whose mean loss is a record's loss."""


def _planes(images: Images) -> Tensor:
    """Pixels from 0 to 1, channels first in memory as well: Opacus 1.x takes wrong gradients of convolutions otherwise."""
    pixels = torch.from_numpy(images.pixels.copy()).permute(0, 3, 1, 2)
    # a copy into fresh memory: with one channel `contiguous()` would leave the strides of "channels last" as they are
    return torch.empty(pixels.shape).copy_(pixels) / 255.0


@final
@dataclass(frozen=True)
class Classification:
    """Cross-entropy; grey images from 0 to 1, colours standardised."""

    def records(self, images: Images, seed: int) -> Record:
        """Pixels and labels; nothing is drawn."""
        pixels = _planes(images)
        if pixels.shape[1] == 3:
            mean, deviation = (torch.tensor(value).view(1, 3, 1, 1) for value in (_MEAN, _DEVIATION))
            pixels = (pixels - mean) / deviation
        return pixels, torch.from_numpy(images.labels.copy()).to(torch.int64)

    def passes(self, records: Record) -> Iterator[Pass]:
        pixels, labels = records
        yield Pass((pixels,), lambda scores: functional.cross_entropy(scores, labels, reduction="none"))


@final
@dataclass(frozen=True)
class Diffusion:
    """Denoising in EDM's preconditioning, the loss averaged over `draws` of noise."""

    draws: int = 1

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InvalidInput("draws", self.draws, "a whole number >= 1")

    def records(self, images: Images, seed: int) -> Record:
        """Pixels from -1 to 1, labels with one in ten dropped, and `draws` noise levels and noises for each image."""
        generator = torch.Generator().manual_seed(seed)
        pixels = 2.0 * _planes(images) - 1.0
        labels = torch.from_numpy(images.labels.copy()).to(torch.int64)
        dropped = torch.rand(len(labels), generator=generator) < LABEL_DROPPED
        normal = torch.randn(len(labels), self.draws, generator=generator)
        noise = torch.randn(len(labels), self.draws, *pixels.shape[1:], generator=generator)
        sigma = torch.exp(LOG_SIGMA_MEAN + LOG_SIGMA_DEVIATION * normal)
        return pixels, torch.where(dropped, NO_LABEL, labels), sigma, noise

    def passes(self, records: Record) -> Iterator[Pass]:
        pixels, labels, sigma, noise = records
        for draw in range(sigma.shape[1]):
            yield self._pass(pixels, labels, sigma[:, draw], noise[:, draw])

    def _pass(self, pixels: Tensor, labels: Tensor, sigma: Tensor, noise: Tensor) -> Pass:
        scale = sigma[:, None, None, None]
        total = scale**2 + SIGMA_DATA**2
        noisy = pixels + scale * noise

        def losses(answer: Tensor) -> Tensor:
            denoised = SIGMA_DATA**2 / total * noisy + scale * SIGMA_DATA / torch.sqrt(total) * answer
            weighted = total / (scale * SIGMA_DATA) ** 2 * (denoised - pixels) ** 2
            return weighted.flatten(1).mean(1)

        return Pass((noisy / torch.sqrt(total), torch.log(sigma) / 4.0, labels), losses)


def parameter_count(module: nn.Module) -> int:
    """Trainable numbers."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def gradients_of(module: nn.Module, task: Task, records: Record, chunk: int = 16) -> Tensor:
    """A row for each record, its numbers in the order of `parameters()`; `chunk` records at a time."""
    weights = {name: parameter.detach() for name, parameter in module.named_parameters()}

    def loss(weights: dict[str, Tensor], *record: Tensor) -> Tensor:
        alone = tuple(part.unsqueeze(0) for part in record)
        losses = [one.losses(functional_call(module, weights, one.inputs))[0] for one in task.passes(alone)]
        return torch.stack(losses).mean()

    each = vmap(grad(loss), in_dims=(None, *(0 for _ in records)), chunk_size=chunk)
    return torch.cat([part.flatten(1) for part in each(weights, *records).values()], dim=1)
