"""Images under a model of the catalogue, as the records of a target: `targets.records` finds them by their name.

`Photographs` says which; `Network` is the same in the process of a release, where torch is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from noisymean.errors import InvalidInput
from noisymean.paper import data

if TYPE_CHECKING:
    from torch import Tensor, nn

    from noisymean.paper.models import Task
    from noisymean.targets.opacus_releases.sources import Pass, Record

# How many numbers each model of the catalogue releases; known without torch, asserted where the networks are built.
PARAMETERS = {
    "cnn-grey": 26_010,
    "cnn-colour": 550_570,
    "cnn-colour-small": 167_642,
    "unet-grey": 1_485_217,
    "unet-colour": 1_486_947,
    "unet-privimage": 1_754_499,
}


def parameters_of(model: str) -> int:
    """Trainable numbers of the model of that name.

    >>> parameters_of("unet-grey")
    1485217
    """
    if model not in PARAMETERS:
        raise InvalidInput("model", model, f"one of {', '.join(PARAMETERS)}")
    return PARAMETERS[model]


@final
@dataclass(frozen=True, kw_only=True)
class Photographs:
    """The first images of a set, under an untrained model of the catalogue."""

    dataset: str
    model: str
    seed: int = 0
    draws: int = 1
    draws_seed: int = 0
    data_dir: str | None = None
    kind: ClassVar[str] = "Photographs"

    @property
    def words(self) -> str:
        return f"{self.model} on {self.dataset}"

    @property
    def dimension(self) -> int:
        return parameters_of(self.model)

    @property
    def is_labelled(self) -> bool:
        return "cnn" in self.model

    def source(self) -> Network:
        return Network(self.model, self.seed, self.draws, self.draws_seed)

    def arrays(self, count: int) -> list[NDArray[Any]]:
        """Pixels and labels; those beyond a whole training set are lent by the test set."""
        images = data.load(self.dataset, data_dir=self.data_dir)
        lent = count - len(images)
        if lent <= 0 or len(images) < images.dataset.train:
            images = images.first(count)
            return [np.asarray(images.pixels), np.asarray(images.labels)]
        more = data.load(self.dataset, train=False, data_dir=self.data_dir).first(lent)
        return [np.concatenate(parts) for parts in ((images.pixels, more.pixels), (images.labels, more.labels))]


@final
@dataclass(frozen=True)
class Network:
    """A model of the catalogue, by name and seed; the records' draws have a seed of their own."""

    model: str
    seed: int = 0
    draws: int = 1
    draws_seed: int = 0
    kind: ClassVar[str] = "Network"

    @cached_property
    def task(self) -> Task:
        from noisymean.paper.models import model_named

        return model_named(self.model).task(self.draws)

    def module(self) -> nn.Module:
        from noisymean.paper.models import model_named

        return model_named(self.model).build(self.seed)

    def records(self, arrays: Sequence[NDArray[Any]]) -> Record:
        pixels, labels = arrays
        dataset = data.named("mnist" if pixels.shape[-1] == 1 else "cifar10")
        return self.task.records(data.Images(dataset, pixels, labels), self.draws_seed)

    def passes(self, records: Record) -> Iterator[Pass]:
        return self.task.passes(records)

    def gradients(self, module: nn.Module, records: Record) -> Tensor:
        """By the model's own backward pass, averaged over the passes of a record."""
        from noisymean.paper.models import gradients_of

        return gradients_of(module, self.task, records)
