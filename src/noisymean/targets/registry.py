"""Targets by the name in their configuration; each is imported when it is asked for, so that none costs the others anything.

To add one: a class with `configuration()` and `from_configuration()`, and an entry here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from noisymean.errors import InvalidInput
from noisymean.targets.protocol import Target

TARGETS = {
    "synthetic": "noisymean.targets.synthetic:Synthetic",
    "callable": "noisymean.targets.callable_:UserCallable",
    "opacus": "noisymean.targets.opacus:OpacusTarget",
    "dpsur": "noisymean.paper.dpsur:Dpsur",
}


def rebuilt(configuration: Mapping[str, Any]) -> Target:
    """The target that `configuration` describes, in this process or another."""
    kind = configuration.get("target")
    if kind not in TARGETS:
        raise InvalidInput("target", kind, f"one of {', '.join(TARGETS)}")
    module, name = TARGETS[str(kind)].split(":")
    target: Target = getattr(importlib.import_module(module), name).from_configuration(configuration)
    return target
