r"""A user's own mechanism with datasets of its own: a function (or any callable object) of two arguments,

    def release(extra_record: bool, generator: numpy.random.Generator) -> array of n numbers, or of T rows of n

that runs the mechanism once, on D' if `extra_record` and else on D, and takes all its randomness from `generator`. It may carry

    release.claim   the TradeOff that is claimed, or a pair (epsilon, delta)
    release.known   a `noisymean.targets.protocol.Known`, for the optimal test

A function of gradients, which can be probed as well, is a `functions.FunctionOfGradients` on a pair of datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.targets import underway
from noisymean.targets.claims import claim_of_others
from noisymean.targets.files import attached, check_unchanged, how_to, loaded, sha256_of, trials_of
from noisymean.targets.foreign import Misbehaved, call
from noisymean.targets.protocol import Known, Neighbour, TrialFault
from noisymean.targets.returned import NotNumbers, numbers_of
from noisymean.tradeoff import TradeOff

Release = Callable[[bool, np.random.Generator], Any]


@final
@dataclass(frozen=True)
class UserCallable:
    """NAME in the Python file `file`, whose contents have the SHA-256 `sha256`."""

    file: str
    attribute: str
    sha256: str
    # rounds and numbers of a first run, where another process has made it
    seen: tuple[int, int] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, file: Path, attribute: str, seen: tuple[int, int] | None = None) -> UserCallable:
        return cls(str(file.resolve()), attribute, sha256_of(file), seen)

    @property
    def name(self) -> str:
        return f"{Path(self.file).name}:{self.attribute}"

    @property
    def dimension(self) -> int:
        """Numbers in a round of a first run."""
        return int(self._shape[1])

    @property
    def steps(self) -> int:
        return int(self._shape[0])

    def configuration(self) -> Mapping[str, Any]:
        return {"target": "callable", "file": self.file, "attribute": self.attribute, "sha256": self.sha256}

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> UserCallable:
        """The same callable, or a complaint that the file has changed meanwhile."""
        check_unchanged(configuration)
        return cls(configuration["file"], configuration["attribute"], configuration["sha256"])

    def known(self) -> Known | None:
        found = attached(self._release, self.name, "known")
        if found is not None and not isinstance(found, Known):
            raise InvalidInput("target", f"{self.name}.known", "a noisymean.targets.protocol.Known, or left out")
        return found

    def claim(self) -> TradeOff | None:
        return attached_claim(self._release, self.name)

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        return trials_of(
            lambda source, index: _run(self._release, neighbour, source, index), self._shape, generator, trials
        )

    @cached_property
    def _shape(self) -> tuple[int, int]:
        if self.seen is not None:
            return self.seen
        source = np.random.Generator(np.random.SFC64(np.random.SeedSequence(0, spawn_key=(2**32 - 1,))))
        try:
            with underway.doing(underway.Stage.FIRST_RUN):
                rows = _run(self._release, Neighbour.SMALLER, source, 0)
        except TrialFault as fault:
            raise InvalidInput(
                "target", self.name, "a callable that works", f"in a first run it {fault.reason}"
            ) from None
        return rows.shape[0], rows.shape[1]

    @cached_property
    def _release(self) -> Release:
        return loaded(Path(self.file), self.attribute)


def attached_claim(release: Any, owner: str) -> TradeOff | None:
    """The claim that a callable carries, if it does."""
    found = attached(release, owner, "claim")
    return None if found is None else claim_of_others(found, f"{owner}.claim")


def _run(release: Release, neighbour: Neighbour, source: np.random.Generator, index: int) -> Array:
    where = how_to(source)
    try:
        found = call(lambda: release(neighbour is Neighbour.LARGER, source))
    except Misbehaved as fault:
        raise TrialFault(index, f"{fault}; {where}") from fault
    if found is None:
        raise TrialFault(index, f"returned nothing; it must return n numbers, or T rows of n; {where}")
    try:
        rows = numbers_of(found)
    except NotNumbers as fault:
        raise TrialFault(index, f"returned {fault}; {where}") from None
    except Misbehaved as fault:
        did = "" if isinstance(fault.__cause__, TypeError | ValueError) else f": it {fault}"
        kind = type(found).__name__
        raise TrialFault(index, f"returned a {kind} that is not an array of numbers{did}; {where}") from None
    shape = rows.shape
    if rows.ndim == 1:
        rows = rows[None, :]
    if rows.ndim != 2 or rows.size == 0:
        did = f"numbers of shape {shape}" if shape else "a single number that is no array"
        raise TrialFault(index, f"returned {did}; it must return n numbers, or T rows of n; {where}")
    return rows
