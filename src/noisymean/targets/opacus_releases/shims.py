"""What a release needs that today's torch no longer has: each shim has a name and the releases that it is for."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch.nn.modules.module as torch_module

from noisymean.targets.opacus_releases.releases import Release


@final
@dataclass(frozen=True)
class Shim:
    """A stand-in, put in place before the release is imported."""

    name: str
    why: str
    last: tuple[int, ...]
    install: Callable[[], None]


def _no_torchcsprng() -> None:
    sys.modules.setdefault("torchcsprng", types.ModuleType("torchcsprng"))


def _module_attribute_error() -> None:
    if not hasattr(torch_module, "ModuleAttributeError"):
        torch_module.ModuleAttributeError = AttributeError  # type: ignore[attr-defined]


SHIMS = (
    Shim("torchcsprng", "imported always, used for secure_rng only: an empty module", (0, 10, 1), _no_torchcsprng),
    Shim("ModuleAttributeError", "since torch 1.8 an AttributeError", (0, 11, 0), _module_attribute_error),
)


def put_in_place(release: Release) -> list[str]:
    """The shims of this release, by name. A third, zero_grad(set_to_none=False), is the recorder's (0.14.0 and 0.15.0)."""
    needed = [shim for shim in SHIMS if release.number <= shim.last]
    for shim in needed:
        shim.install()
    return [shim.name for shim in needed]
