"""Which models there are: the networks with their exact sizes, and what they are trained for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import nn

from noisymean.errors import InvalidInput
from noisymean.paper.models.classifiers import CIFAR, CIFAR_SMALL, colour_classifier, grey_classifier
from noisymean.paper.models.tasks import Classification, Diffusion, Task
from noisymean.paper.models.unet import UNet
from noisymean.paper.photographs import parameters_of


@final
@dataclass(frozen=True)
class Model:
    """A network by name; built from a seed, so that it is the same in every process."""

    name: str
    shape: tuple[int, int, int]
    network: Callable[[], nn.Module]
    diffusion: bool

    @property
    def parameters(self) -> int:
        return parameters_of(self.name)

    def build(self, seed: int) -> nn.Module:
        """The untrained network of that seed; the caller's generator is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.network()

    def task(self, draws: int = 1) -> Task:
        return Diffusion(draws) if self.diffusion else Classification()


_GREY, _COLOUR = (28, 28, 1), (32, 32, 3)

MODELS = {
    model.name: model
    for model in (
        Model("cnn-grey", _GREY, grey_classifier, False),
        Model("cnn-colour", _COLOUR, partial(colour_classifier, CIFAR), False),
        Model("cnn-colour-small", _COLOUR, partial(colour_classifier, CIFAR_SMALL), False),
        Model("unet-grey", _GREY, partial(UNet, channels=1, side=28, widths=(2, 2), attention_at=14), True),
        Model("unet-colour", _COLOUR, partial(UNet, channels=3, side=32, widths=(2, 2), attention_at=16), True),
        Model("unet-privimage", _COLOUR, partial(UNet, channels=3, side=32, widths=(1, 2, 2), attention_at=16), True),
    )
}


def model_named(name: str) -> Model:
    """The model of that name.

    >>> model_named("unet-grey").parameters
    1485217
    """
    try:
        return MODELS[name]
    except KeyError:
        raise InvalidInput("model", name, f"one of {', '.join(MODELS)}") from None
