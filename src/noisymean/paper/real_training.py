"""Opacus training the grey classifier on real images: D is the first N of a set, and D' has one more.

Of a whole training set the record more is lent by the test set.
"""

from __future__ import annotations

from typing import Any

from noisymean.errors import InvalidInput
from noisymean.paper import data
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
    target = OpacusTraining(
        records=Photographs(dataset=images, model=MODEL, data_dir=data_dir),
        dataset_size=data.named(images).train if dataset_size is None else dataset_size,
        batch_size=batch_size,
        noise_multiplier=noise_multiplier,
        release_of_opacus=release,
        fixed=fixed,
        **settings,
    )
    _check_there(target, data.load(images, data_dir=data_dir))
    return target


def _check_there(target: OpacusTraining, images: data.Images) -> None:
    """Complain before the first trial where D' has no image to be made of."""
    whole = len(images) >= images.dataset.train
    most = len(images) + (images.dataset.test if whole else 0) - 1
    if target.dataset_size > most:
        raise InvalidInput(
            "dataset_size",
            target.dataset_size,
            f"at most {most}: D' has one record more, and {images.dataset.title} has {most + 1} here",
            f"e.g. {images.dataset.train if whole else most}",
        )
