"""Our side of the worker of a release: start it, and hand out what it wrote.

A worker holds one release and any number of sessions, one for each setup. A release is written by the worker straight into
memory that both have mapped and is handed out without a copy; the memory is used again once nobody holds the array any more.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from numpy.typing import NDArray

from noisymean.numerics.logs import Array
from noisymean.targets.opacus_releases.install import digest_of, installed, is_installed
from noisymean.targets.opacus_releases.releases import Release
from noisymean.targets.opacus_releases.setup import Setup
from noisymean.targets.processes.client import Worker, WorkerFault, beginning
from noisymean.targets.protocol import Neighbour

__all__ = ["Session", "Worker", "WorkerFault", "dismiss", "worker_of"]

MODULE = "noisymean.targets.opacus_releases.worker"


def _worker(release: Release) -> Worker:
    """A process for that release; the one of this environment needs no wheel."""
    verified = []
    if not is_installed(release):
        wheel = installed(release)
        verified = [str(wheel), digest_of(release, wheel)]
    source = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    return Worker(f"opacus=={release.version}", beginning(MODULE, *verified), {**os.environ, "PYTHONPATH": path})


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
        return self.worker.usable

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
    if worker is None or not worker.usable:
        worker = _WORKERS[release.version] = _worker(release)
    return worker


def dismiss(release: Release) -> None:
    """End the worker of this process for that release, if there is one."""
    worker = _WORKERS.pop(release.version, None)
    if worker is not None:
        worker.close()
