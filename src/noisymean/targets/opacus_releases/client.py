"""Our side of a worker: start it, ask it, hand out what it wrote.

A worker holds one release and any number of sessions, one for each setup. A release is written by the worker straight into
memory that both have mapped and is handed out without a copy; the memory is used again once nobody holds the array any more.
A worker belongs to the process that started it and ends with it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from numpy.typing import NDArray

from noisymean.errors import NoisymeanError
from noisymean.numerics.logs import Array
from noisymean.targets.opacus_releases import wire
from noisymean.targets.opacus_releases.install import installed, is_installed
from noisymean.targets.opacus_releases.releases import Release
from noisymean.targets.opacus_releases.setup import Setup
from noisymean.targets.protocol import Neighbour

MODULE = "noisymean.targets.opacus_releases.worker"
_PATIENCE = 5.0


class WorkerFault(NoisymeanError):
    """The release raised, or its process ended."""

    def __init__(self, version: str, what: str) -> None:
        self.version, self.what = version, what
        super().__init__(version, what)

    def __str__(self) -> str:
        return f"opacus=={self.version}: {self.what}"


@final
class Worker:
    """The process of one release."""

    def __init__(self, release: Release) -> None:
        # the release of this environment needs no folder of its own
        folder = [] if is_installed(release) else [str(installed(release))]
        source = str(Path(__file__).parents[3])
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        self.release, self.owner = release, os.getpid()
        self.lender = wire.Lender()
        self.gone: list[int] = []
        self.numbers = itertools.count()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self.process = subprocess.Popen(
            [sys.executable, "-m", MODULE, *folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.close = weakref.finalize(self, _end, self.process, self.log, self.owner)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One question, one answer; a fault of the release is one line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # sessions that end meanwhile are told with the next question
        forget = [self.gone.pop() for _ in range(len(self.gone))]
        try:
            wire.send(self.process.stdin, {**request, "keep": self.lender.paths(), "forget": forget})
            answer = wire.receive(self.process.stdout)
        except BrokenPipeError:
            answer = None
        finally:
            self.lender.unlink()
        if answer is None:
            raise WorkerFault(self.release.version, f"its process ended: {self._last_words()}")
        if "fault" in answer:
            raise WorkerFault(self.release.version, answer["fault"])
        return answer

    def _last_words(self) -> str:
        self.process.wait()
        self.log.seek(0)
        said = self.log.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else f"exit code {self.process.returncode}"


@final
class Session:
    """One setup in a worker."""

    def __init__(self, setup: Setup, arrays: Sequence[NDArray[Any]], threads: int = 1) -> None:
        self.setup, self.worker = setup, worker_of(setup.release.known)
        self.number = next(self.worker.numbers)
        lent = [self.worker.lender.lend(array.shape, array.dtype.str) for array in arrays]
        for (place, _), array in zip(lent, arrays, strict=True):
            place[...] = array
        # the worker reads these for as long as the session lives
        self._held = [place for place, _ in lent]
        described = [description for _, description in lent]
        answer = self._ask("open", setup=setup.to_json(), threads=threads, arrays=described)
        self.dimension: int = answer["dimension"]
        self.shims = tuple(answer["shims"])
        self.where: str = answer["where"]
        weakref.finalize(self, self.worker.gone.append, self.number)

    @property
    def usable(self) -> bool:
        return self.worker.owner == os.getpid() and self.worker.process.poll() is None

    def gradients(self, rows: int) -> Array:
        """The clipped gradients of D'."""
        array, described = self.worker.lender.lend((rows, self.dimension))
        self._ask("gradients", into=described)
        return array

    def release(self, neighbour: Neighbour, seed: int, rounds: int) -> Array:
        """`rounds` releases, a row each; the seed decides all of them."""
        array, described = self.worker.lender.lend((rounds, self.dimension))
        self._ask("release", neighbour=neighbour.value, seed=seed, into=described)
        return array

    def _ask(self, what: str, **details: Any) -> dict[str, Any]:
        return self.worker.ask({"do": what, "session": self.number, **details})


_WORKERS: dict[str, Worker] = {}


def worker_of(release: Release) -> Worker:
    """The worker of this process for that release."""
    worker = _WORKERS.get(release.version)
    if worker is None or worker.owner != os.getpid() or worker.process.poll() is not None:
        worker = _WORKERS[release.version] = Worker(release)
    return worker


def dismiss(release: Release) -> None:
    """End the worker of this process for that release, if there is one."""
    worker = _WORKERS.pop(release.version, None)
    if worker is not None:
        worker.close()


def _end(process: subprocess.Popen[bytes], log: Any, owner: int) -> None:
    """Close its input, which ends it; a forked copy of us has no say in it."""
    if os.getpid() != owner:
        return
    for pipe in (process.stdin, process.stdout, log):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
