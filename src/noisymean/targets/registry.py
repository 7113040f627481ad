"""Everything that is found by its name; each is imported when it is asked for, so that none costs the others anything.

To add a target: a module with a class that has `configuration()` and `from_configuration()`, an entry in TARGETS, and what
its options on the command line are (`cli/targets.py`). To add a library that can be probed: a module with a `Runnable` and a
function that makes one of its name, and an entry in RUNNABLES (docs/how-to/extend.md).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from noisymean.choices import did_you_mean
from noisymean.errors import InvalidInput
from noisymean.targets.files import place_of
from noisymean.targets.functions import in_file
from noisymean.targets.plain import from_plain, to_plain
from noisymean.targets.protocol import BuiltIn, Runnable, Target

# What an audit can be given, by the name in its configuration.
TARGETS = {
    "synthetic": "noisymean.targets.synthetic:Synthetic",
    "callable": "noisymean.targets.callable_:UserCallable",
    "runnable": "noisymean.targets.on_pair:OnPair",
    "opacus": "noisymean.targets.opacus:OpacusTarget",
    "opacus-training": "noisymean.targets.opacus_training:OpacusTraining",
    "dpsur": "noisymean.paper.dpsur:Dpsur",
}
# What can be run on any records, by the first word of its name: a function of that name, with what may stand behind == or :.
RUNNABLES = {
    "synthetic": "noisymean.targets.synthetic:formula_named",
    "opacus": "noisymean.targets.opacus:opacus_runnable",
    "dpsgd-hf": "noisymean.paper.methods:method_runnable",
    "dpsur": "noisymean.paper.methods:method_runnable",
    "dp-feta": "noisymean.paper.methods:method_runnable",
    "privimage": "noisymean.paper.methods:method_runnable",
    **dict.fromkeys(
        ("optax", "objax", "tensorflow-privacy", "jax-privacy", "pfl", "flwr"),
        "noisymean.targets.libraries.ways:way_named",
    ),
}
# Records, and where gradients come from in a worker, by the `kind` in their description.
_DESCRIBED = {
    "GivenRows": "noisymean.targets.records:GivenRows",
    "Alike": "noisymean.targets.records:OnOneAxis",
    "Photographs": "noisymean.paper.photographs:Photographs",
    "Rows": "noisymean.targets.opacus_releases.sources:Rows",
    "Structured": "noisymean.targets.opacus_releases.sources:Structured",
    "Network": "noisymean.paper.photographs:Network",
}
NAMES = ("opacus", "opacus==X", "opacus:MODE", *(name for name in RUNNABLES if name not in ("opacus", "synthetic")))


def imported(place: str) -> Any:
    """What `module:name` stands for."""
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


def rebuilt(configuration: Mapping[str, Any]) -> Target:
    """The target that `configuration` describes, in this process or another."""
    kind = configuration.get("target")
    if kind not in TARGETS:
        raise InvalidInput("target", kind, f"one of {', '.join(TARGETS)}")
    target: Target = imported(TARGETS[str(kind)]).from_configuration(configuration)
    return target


def described(value: Any) -> dict[str, Any]:
    """Records or a source as plain data, with their kind."""
    return {**to_plain(value), "kind": value.kind}


def from_described(plain: Mapping[str, Any]) -> Any:
    """The inverse of `described`."""
    return from_plain(imported(_DESCRIBED[plain["kind"]]), plain)


def first_word(text: str) -> str:
    """The part of a name that says who it is: `opacus` of opacus==1.6.0, `synthetic` of synthetic:asgm."""
    return text.partition("==")[0].partition(":")[0]


def runnable_named(text: str, built_in: BuiltIn) -> Runnable:
    """opacus, opacus==X, opacus:MODE, a method, synthetic (EASGM), synthetic:KIND or FILE.py:NAME."""
    if (word := first_word(text)) in RUNNABLES:
        runnable: Runnable = imported(RUNNABLES[word])(text)
        return runnable
    if ".py:" not in text:
        allowed = f"{', '.join(NAMES)}, synthetic or FILE.py:NAME"
        meant = did_you_mean(word, RUNNABLES)
        raise InvalidInput("target", text, allowed, meant or "e.g. noisymean probe opacus==0.15.0")
    return in_file(*place_of(text), built_in)
