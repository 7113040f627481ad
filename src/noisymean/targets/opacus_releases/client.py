"""Our side of a worker: start it, ask it, hand out what it wrote.

A release is written by the worker straight into memory that both have mapped and is handed out without a copy; the
memory is used again once nobody holds the array any more. A worker belongs to the process that started it and ends with
it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from numpy.typing import NDArray

from noisymean.errors import NoisymeanError
from noisymean.numerics.logs import Array
from noisymean.targets.opacus_releases import wire
from noisymean.targets.opacus_releases.install import installed, installed_version
from noisymean.targets.opacus_releases.releases import Release
from noisymean.targets.opacus_releases.setup import Setup
from noisymean.targets.protocol import Neighbour

MODULE = "noisymean.targets.opacus_releases.worker"


class WorkerFault(NoisymeanError):
    """The release raised, or its process ended."""


@final
@dataclass(eq=False)
class Session:
    """A worker that runs one setup."""

    setup: Setup
    process: subprocess.Popen[bytes]
    log: Any
    owner: int
    dimension: int = 0
    shims: tuple[str, ...] = ()
    where: str = ""
    lender: wire.Lender = field(default_factory=wire.Lender)

    @classmethod
    def open(cls, setup: Setup, arrays: Sequence[NDArray[Any]], threads: int = 1) -> Session:
        """Start the worker and give it its records."""
        release = Release(setup.release)
        # the release of this environment needs no folder of its own
        folder = [] if _is_installed(release) else [str(installed(release))]
        source = str(Path(__file__).parents[3])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
        }
        log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, *folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
        )
        session = cls(setup, process, log, os.getpid())
        weakref.finalize(session, _end, process, os.getpid())
        lent = [session.lender.lend(array.shape, array.dtype.str) for array in arrays]
        for (place, _), array in zip(lent, arrays, strict=True):
            place[...] = array
        request = {"do": "open", "setup": setup.to_json(), "threads": threads}
        answer = session.ask({**request, "arrays": [described for _, described in lent]})
        session.dimension, session.shims, session.where = answer["dimension"], tuple(answer["shims"]), answer["where"]
        return session

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One question, one answer; a fault of the release is one line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            wire.send(self.process.stdin, {**request, "keep": self.lender.paths()})
            answer = wire.receive(self.process.stdout)
        except BrokenPipeError:
            answer = None
        finally:
            self.lender.unlink()
        if answer is None:
            self.process.wait()
            self.log.seek(0)
            said = self.log.read().decode(errors="replace").strip().splitlines()
            raise WorkerFault(
                f"opacus=={self.setup.release}: its process ended: {said[-1] if said else 'no reason given'}"
            )
        if "fault" in answer:
            raise WorkerFault(f"opacus=={self.setup.release}: {answer['fault']}")
        return answer

    def gradients(self, rows: int) -> Array:
        """The clipped gradients of D'."""
        array, described = self.lender.lend((rows, self.dimension))
        self.ask({"do": "gradients", "into": described})
        return array

    def release(self, neighbour: Neighbour, seed: int, rounds: int) -> Array:
        """`rounds` releases, a row each; the seed decides all of them."""
        array, described = self.lender.lend((rounds, self.dimension))
        self.ask({"do": "release", "neighbour": neighbour.value, "seed": seed, "into": described})
        return array

    def close(self) -> None:
        """End the worker."""
        _end(self.process, self.owner)


def _is_installed(release: Release) -> bool:
    try:
        return installed_version() == release.version
    except NoisymeanError:
        return False


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """Close its input, which ends it; a forked copy of us has no say in it."""
    if os.getpid() != owner:
        return
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
