"""Where tensors live: an accelerator where there is one.

Noise from the same seed differs between devices, so the device is part of what a trial is and never changes under it.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata

from noisymean.choices import did_you_mean
from noisymean.errors import InvalidInput, MissingDependency

AUTO, CPU, CUDA = "auto", "cpu", "cuda"


def resolved(name: str) -> str:
    """`auto` is the accelerator if there is one.

    >>> resolved("cpu")
    'cpu'
    """
    if name not in (AUTO, CPU, CUDA):
        raise InvalidInput("device", name, f"one of {AUTO}, {CPU}, {CUDA}", did_you_mean(name, (AUTO, CPU, CUDA)))
    if name == CPU:
        return CPU
    if _has_accelerator():
        return CUDA
    if name == CUDA:
        raise InvalidInput("device", name, "one that torch sees", "torch sees no accelerator here: use auto or cpu")
    return CPU


@cache
def _has_accelerator() -> bool:
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise MissingDependency("torch", "audit") from None
    if version.endswith("+cpu"):
        # saves the seconds that importing it takes
        return False
    import torch

    return bool(torch.cuda.is_available())
