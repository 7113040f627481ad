"""The classifiers of DPSGD-HF and DPSUR: small, convolutional, with tanh and biases; PyTorch's own initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import nn

CLASSES = 10
Layer = int | Literal["M"]

CIFAR: tuple[Layer, ...] = (32, 32, "M", 64, 64, "M", 128, 128, "M")
CIFAR_SMALL: tuple[Layer, ...] = (16, 16, "M", 32, 32, "M", 64, "M")


def grey_classifier() -> nn.Module:
    """For 28 x 28 grey images: 26,010 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=8, stride=2, padding=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, kernel_size=4, stride=2),
        nn.Tanh(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, CLASSES),
    )


def colour_classifier(layers: Sequence[Layer]) -> nn.Module:
    """For 32 x 32 colour images: 550,570 parameters with `CIFAR`, 167,642 with `CIFAR_SMALL`; "M" halves the picture."""
    body, channels, side = list[nn.Module](), 3, 32
    for layer in layers:
        if layer == "M":
            body.append(nn.MaxPool2d(2))
            side //= 2
        else:
            body += [nn.Conv2d(channels, layer, kernel_size=3, padding=1), nn.Tanh()]
            channels = layer
    return nn.Sequential(
        *body, nn.Flatten(), nn.Linear(channels * side * side, 128), nn.Tanh(), nn.Linear(128, CLASSES)
    )
