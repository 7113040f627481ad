r"""A user's own mechanism, `FILE.py:NAME`.

NAME is a function (or any callable object) of two arguments,

    def release(extra_record: bool, generator: numpy.random.Generator) -> array of n numbers, or of T rows of n

that runs the mechanism once, on D' if `extra_record` and else on D, and takes all its randomness from `generator`. It may carry

    release.claim   the TradeOff that is claimed, or a pair (epsilon, delta)
    release.known   a `noisymean.targets.protocol.Known`, for the optimal test

Every trial has a generator of its own, so one that misbehaves can be run again alone. The first run of every call is repeated
with the same seed: it must give the same bits. The file is executed as a module; it is identified by its contents.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.laws.closed import EpsilonDelta
from noisymean.numerics.logs import Array
from noisymean.targets.foreign import Misbehaved, call
from noisymean.targets.protocol import Known, Neighbour, TrialFault
from noisymean.tradeoff import TradeOff

# From so many identical releases on, a target is taken to ignore its generator.
_SUSPICIOUS = 8
Release = Callable[[bool, np.random.Generator], Any]


@final
@dataclass(frozen=True)
class UserCallable:
    """NAME in the Python file `file`, whose contents have the SHA-256 `sha256`."""

    file: str
    attribute: str
    sha256: str

    @classmethod
    def of(cls, file: Path, attribute: str) -> UserCallable:
        """The callable as it is in the file now."""
        return cls(str(file.resolve()), attribute, hashlib.sha256(_source(file)).hexdigest())

    @property
    def name(self) -> str:
        """As typed, without the folder."""
        return f"{Path(self.file).name}:{self.attribute}"

    @property
    def dimension(self) -> int:
        """Of a first run."""
        return int(self._shape[1])

    @property
    def steps(self) -> int:
        """Of a first run."""
        return int(self._shape[0])

    def configuration(self) -> Mapping[str, Any]:
        """The file by place and contents."""
        return {"target": "callable", "file": self.file, "attribute": self.attribute, "sha256": self.sha256}

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> UserCallable:
        """The same callable, or a complaint that the file has changed meanwhile."""
        target = cls(configuration["file"], configuration["attribute"], configuration["sha256"])
        if hashlib.sha256(_source(Path(target.file))).hexdigest() != target.sha256:
            raise InvalidInput(
                "target", target.file, "the file that the audit began with", "it has changed: start anew"
            )
        return target

    def known(self) -> Known | None:
        """What the callable says about itself."""
        found = self._attached("known")
        if found is not None and not isinstance(found, Known):
            raise InvalidInput("target", f"{self.name}.known", "a noisymean.targets.protocol.Known, or left out")
        return found

    def claim(self) -> TradeOff | None:
        """What the callable says is claimed for it."""
        found = self._attached("claim")
        if found is None or isinstance(found, TradeOff):
            return found
        try:
            epsilon, delta = found
            return EpsilonDelta(float(epsilon), float(delta))
        except (TypeError, ValueError) as fault:
            raise InvalidInput("target", f"{self.name}.claim", "a TradeOff or (epsilon, delta)", str(fault)) from None

    def _attached(self, name: str) -> Any:
        """What the callable carries under that name; None if nothing."""
        release = self._release
        try:
            return call(lambda: getattr(release, name, None))
        except Misbehaved as fault:
            raise InvalidInput("target", f"{self.name}.{name}", "a value, or left out", f"it {fault}") from fault

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        """One run after the other, each with a child of `generator`."""
        sources = generator.spawn(trials)
        outputs = np.empty((trials, self.steps, self.dimension))
        for index, source in enumerate(sources):
            outputs[index] = self._checked(neighbour, source, index)
        self._check_randomness(neighbour, sources[0], outputs)
        return outputs

    def _check_randomness(self, neighbour: Neighbour, first: np.random.Generator, outputs: Array) -> None:
        if not np.array_equal(self._checked(neighbour, _again(first), 0), outputs[0]):
            raise TrialFault(
                0, f"the same seed gave two different releases: it ignores its generator; {_how_to(first)}"
            )
        if outputs.shape[0] >= _SUSPICIOUS and (outputs == outputs[0]).all():
            raise TrialFault(
                0, f"{outputs.shape[0]} seeds gave one and the same release: it ignores its generator; {_how_to(first)}"
            )

    def _checked(self, neighbour: Neighbour, source: np.random.Generator, index: int) -> Array:
        rows = _run(self._release, neighbour, source, index)
        if rows.shape != self._shape:
            raise TrialFault(
                index, f"released shape {rows.shape}, its first run {self._shape} (rounds, numbers); {_how_to(source)}"
            )
        if not np.isfinite(rows).all():
            raise TrialFault(index, f"released a number that is not finite; {_how_to(source)}")
        return rows

    @cached_property
    def _shape(self) -> tuple[int, int]:
        source = np.random.Generator(np.random.SFC64(np.random.SeedSequence(0, spawn_key=(2**32 - 1,))))
        try:
            rows = _run(self._release, Neighbour.SMALLER, source, 0)
        except TrialFault as fault:
            raise InvalidInput(
                "target", self.name, "a callable that works", f"in a first run it {fault.reason}"
            ) from None
        return rows.shape[0], rows.shape[1]

    @cached_property
    def _release(self) -> Release:
        return loaded(Path(self.file), self.attribute)


def _run(release: Release, neighbour: Neighbour, source: np.random.Generator, index: int) -> Array:
    where = _how_to(source)
    try:
        found = call(lambda: release(neighbour is Neighbour.LARGER, source))
    except Misbehaved as fault:
        raise TrialFault(index, f"{fault}; {where}") from fault
    try:
        # an array of plain numbers runs nothing of the user's when it is read
        plain = type(found) is np.ndarray and found.dtype.kind in "fiu"
        rows = np.asarray(found, np.float64) if plain else call(lambda: np.asarray(found, dtype=np.float64))
    except Misbehaved as fault:
        did = "" if isinstance(fault.__cause__, TypeError | ValueError) else f": it {fault}"
        kind = type(found).__name__
        raise TrialFault(index, f"released a {kind} that is not an array of numbers{did}; {where}") from None
    if rows.ndim == 1:
        rows = rows[None, :]
    if rows.ndim != 2 or rows.size == 0:
        raise TrialFault(index, f"released shape {rows.shape}, not n numbers or T rows of n; {where}")
    return rows


def _again(source: np.random.Generator) -> np.random.Generator:
    """The same generator at its beginning."""
    return np.random.Generator(type(source.bit_generator)(_seed(source)))


def _seed(source: np.random.Generator) -> np.random.SeedSequence:
    sequence = source.bit_generator.seed_seq
    assert isinstance(sequence, np.random.SeedSequence)
    # without the count of children that it has had
    return np.random.SeedSequence(sequence.entropy, spawn_key=sequence.spawn_key)


def _how_to(source: np.random.Generator) -> str:
    sequence = _seed(source)
    kind = type(source.bit_generator).__name__
    return f"its generator: Generator({kind}(SeedSequence({sequence.entropy}, spawn_key={sequence.spawn_key})))"


def _source(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as fault:
        raise InvalidInput(
            "target", str(file), "a Python file that can be read", fault.strerror or str(fault)
        ) from None


def loaded(file: Path, attribute: str) -> Release:
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
        found = call(executed)
    except Misbehaved as fault:
        name = f"{file.name}:{attribute}"
        raise InvalidInput("target", name, "in a file that can be imported", f"{file.name} {fault}") from fault
    if not callable(found):
        names = ", ".join(name for name, value in vars(module).items() if callable(value) and not name.startswith("_"))
        raise InvalidInput("target", f"{file.name}:{attribute}", f"a callable of that file ({names or 'it has none'})")
    release: Release = found
    return release
