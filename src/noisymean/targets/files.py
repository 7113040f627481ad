"""Code of the user's in a file, `FILE.py:NAME`, and trials of it.

The file is executed as a module; it is identified by its contents. Every trial has a generator of its own, so one that misbehaves
can be run again alone. The first run of every call is repeated with the same seed: it must give the same bits.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.targets import underway
from noisymean.targets.foreign import Misbehaved, call
from noisymean.targets.protocol import TrialFault

# From so many identical releases on, a target is taken to ignore its generator.
_SUSPICIOUS = 8


def sha256_of(file: Path) -> str:
    """The SHA-256 of what is in the file, by which it is identified."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as fault:
        raise InvalidInput(
            "target", str(file), "a Python file that can be read", fault.strerror or str(fault)
        ) from None


def check_unchanged(configuration: Mapping[str, Any]) -> None:
    """Complain if the file of a configuration is not what it was."""
    if sha256_of(Path(configuration["file"])) != configuration["sha256"]:
        raise InvalidInput(
            "target", configuration["file"], "the file that the audit began with", "it has changed: start anew"
        )


def place_of(text: str) -> tuple[Path, str]:
    """FILE and NAME of FILE.py:NAME; the file exists."""
    file, colon, attribute = text.rpartition(":")
    if not colon or not file.endswith(".py") or not attribute.isidentifier():
        raise InvalidInput("target", text, "FILE.py:NAME")
    if not Path(file).is_file():
        raise InvalidInput("target", text, "a callable in an existing file", f"there is no file {file}")
    return Path(file), attribute


def place_of_function(function: Any) -> tuple[Path, str]:
    """The same of a function at the top level of a file."""
    name = getattr(function, "__qualname__", "")
    source = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    if source is None or not name.isidentifier() or not Path(source).is_file():
        raise InvalidInput(
            "target", name or type(function).__name__, "a function at the top level of a file", "or give 'FILE.py:NAME'"
        )
    return Path(source), name


def loaded(file: Path, attribute: str) -> Callable[..., Any]:
    """The callable of that name; the file is executed as a module."""
    module_name = f"noisymean_target_{hashlib.sha256(os.fsencode(file)).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise InvalidInput("target", str(file), "a Python file, FILE.py:NAME")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    loader = spec.loader

    def executed() -> Any:
        loader.exec_module(module)
        return getattr(module, attribute, None)

    try:
        with underway.doing(underway.Stage.IMPORT):
            found = call(executed)
    except Misbehaved as fault:
        name = f"{file.name}:{attribute}"
        raise InvalidInput("target", name, "in a file that can be imported", f"{file.name} {fault}") from fault
    if not callable(found):
        names = ", ".join(name for name, value in vars(module).items() if callable(value) and not name.startswith("_"))
        raise InvalidInput("target", f"{file.name}:{attribute}", f"a callable of that file ({names or 'it has none'})")
    release: Callable[..., Any] = found
    return release


def attached(release: Any, owner: str, name: str) -> Any:
    """What the callable carries under that name; None if nothing."""
    try:
        with underway.doing(underway.Stage.ATTRIBUTE):
            return call(lambda: getattr(release, name, None))
    except Misbehaved as fault:
        raise InvalidInput("target", f"{owner}.{name}", "a value, or left out", f"it {fault}") from fault


def trials_of(
    once: Callable[[np.random.Generator, int], Array],
    shape: tuple[int, int],
    generator: np.random.Generator,
    trials: int,
    *,
    may_be_constant: bool = False,
) -> Array:
    """One run after the other, each with a child of `generator`; `once` gives (rounds, numbers), and is told its index."""
    sources = generator.spawn(trials)
    outputs = np.empty((trials, *shape))
    for index, source in enumerate(sources):
        underway.run(index)
        outputs[index] = _checked(once(source, index), shape, source, index)
    first = sources[0]
    # the same generator at its beginning
    underway.run(0)
    again = np.random.Generator(type(first.bit_generator)(_seed(first)))
    if not np.array_equal(_checked(once(again, 0), shape, first, 0), outputs[0]):
        raise TrialFault(0, f"the same seed gave two different releases: it ignores its generator; {how_to(first)}")
    if not may_be_constant and trials >= _SUSPICIOUS and (outputs == outputs[0]).all():
        raise TrialFault(0, f"{trials} seeds gave one and the same release: it ignores its generator; {how_to(first)}")
    return outputs


def _checked(rows: Array, shape: tuple[int, int], source: np.random.Generator, index: int) -> Array:
    if rows.shape != shape:
        raise TrialFault(
            index, f"released (rounds, numbers) {rows.shape}, but {shape} in its first run; {how_to(source)}"
        )
    if not np.isfinite(rows).all():
        raise TrialFault(index, f"released a number that is not finite; {how_to(source)}")
    return rows


def _seed(source: np.random.Generator) -> np.random.SeedSequence:
    sequence = source.bit_generator.seed_seq
    assert isinstance(sequence, np.random.SeedSequence)
    # without the count of children that it has had
    return np.random.SeedSequence(sequence.entropy, spawn_key=sequence.spawn_key)


def how_to(source: np.random.Generator) -> str:
    """How to make the generator of a run again."""
    sequence = _seed(source)
    kind = type(source.bit_generator).__name__
    return f"its generator: Generator({kind}(SeedSequence({sequence.entropy}, spawn_key={sequence.spawn_key})))"
