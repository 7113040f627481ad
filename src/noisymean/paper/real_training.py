"""Opacus training the grey classifier on real images: D is the first N of a set, and D' has one more.

Of a whole training set the record more is lent by the test set.
"""

from __future__ import annotations

from typing import Any

from noisymean.errors import InvalidInput
from noisymean.paper.data import named
from noisymean.paper.photographs import Photographs
from noisymean.targets.opacus_training import OpacusTraining

MODEL = "cnn-grey"
_GREY = ("mnist", "fashion-mnist")


def real_training(
    images: str = "mnist",
    *,
    batch_size: int = 600,
    dataset_size: int | None = None,
    noise_multiplier: float = 1.0,
    release: str = "",
    fixed: bool = False,
    data_dir: str | None = None,
    **settings: Any,
) -> OpacusTraining:
    """The installed Opacus on all of a training set, or on its first `dataset_size` images.

    `fixed`: rate and denominator are constants. `settings` are `max_grad_norm`, `learning_rate` and `steps`.
    """
    if images not in _GREY:
        raise InvalidInput("images", images, f"one of {', '.join(_GREY)} for Opacus to train on")
    return OpacusTraining(
        records=Photographs(dataset=images, model=MODEL, data_dir=data_dir),
        dataset_size=named(images).train if dataset_size is None else dataset_size,
        batch_size=batch_size,
        noise_multiplier=noise_multiplier,
        release_of_opacus=release,
        fixed=fixed,
        **settings,
    )
