"""Our side of the worker of a library: one process for each environment, started when it is first asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from noisymean.numerics.logs import Array
from noisymean.targets import processes
from noisymean.targets.libraries.environments import Environment, built, verified
from noisymean.targets.processes.client import Worker
from noisymean.targets.protocol import Request

MODULE = "noisymean.targets.libraries.inside.worker"
_START = Path(processes.__file__).parent / "start.py"
# what a library could be changed by: paths of the caller's
_DROPPED = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")
_WORKERS: dict[str, Worker] = {}


# nothing of a `site-packages` is looked at, so none of its `.pth` and no `sitecustomize`; bytecode is neither read nor written
_ALONE = ("-I", "-S", "-B", "-X", f"pycache_prefix={os.devnull}")


def start(name: str, folders: Sequence[Path]) -> Worker:
    """A process of this interpreter with the standard library, then `folders`, and no more."""
    environment = {key: value for key, value in os.environ.items() if key not in _DROPPED}
    return Worker(name, [sys.executable, *_ALONE, str(_START), MODULE, *map(str, folders)], environment)


def worker_of(environment: Environment) -> Worker:
    """The worker of this process for that library; its environment is built if it is not there."""
    worker = _WORKERS.get(environment.title)
    if worker is None or not worker.usable:
        packages = verified(built(environment))
        worker = _WORKERS[environment.title] = start(environment.title, [packages])
    return worker


def dismiss(environment: Environment) -> None:
    """End the worker of this process for that library, if there is one."""
    worker = _WORKERS.pop(environment.title, None)
    if worker is not None:
        worker.close()


@final
class Session:
    """One way of a library in a worker."""

    def __init__(self, worker: Worker, module: str, way: str, options: Mapping[str, Any]) -> None:
        self.worker, self.number = worker, next(worker.numbers)
        self._ask("open", module=module, way=way, options=dict(options))

    def release(self, run: Request) -> Array:
        """The releases of a run, a row for each round."""
        lender = self.worker.lender
        rows, described = lender.lend(run.gradients.shape)
        rows[...] = run.gradients
        released, into = lender.lend((run.rounds, run.gradients.shape[1]))
        self._ask(
            "release",
            rows=described,
            into=into,
            rate=float(run.setting.rate or 1),
            batch_size=run.setting.batch_size,
            noise_multiplier=run.noise_multiplier,
            max_grad_norm=run.max_grad_norm,
            seed=run.seed,
            empty_as_it_comes=run.empty_as_it_comes,
        )
        return released.copy()

    def said(self) -> dict[str, float]:
        """What the library's own accounting says of the run in `inside.way`, by the name of the number."""
        found: dict[str, float] = self._ask("said")["said"]
        return found

    def _ask(self, what: str, **details: Any) -> dict[str, Any]:
        return self.worker.ask({"do": what, "session": self.number, **details})
