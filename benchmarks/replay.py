"""Running real Opacus: replayed trials beside the library's own step in a bare loop, alternately.

A whole trial is what an audit runs: a batch drawn by the release, its per-sample gradients put in place, the library's step in a
process of its own, and the release in the memory that the auditor reads. The bare loop is the library's `zero_grad` and `step` on
per-sample gradients that are already there, for the same sizes of batches: what nobody can do without.

`python -m benchmarks.replay VERSION` measures one release and prints a row; without a version both are published.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.table import publish

TRIALS, PART, PARTS = 10_000, 30, 5
RATE = Fraction(1, 2)
FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"


class _Lent:
    """Arrays of this process, lent to a server in the same process."""

    def borrow(self, array: np.ndarray) -> np.ndarray:
        return array


def measured(version: str) -> list[str]:
    """DP-FETA's model on MNIST, five records, q = 1/2: medians over alternating parts."""
    import torch

    from noisymean.paper.methods import opacus_method
    from noisymean.targets.opacus_releases.drivers import MadePrivate
    from noisymean.targets.opacus_releases.worker import Server
    from noisymean.targets.protocol import Neighbour

    target = opacus_method("dp-feta", "mnist", release=version, sample_rate=RATE, data_dir=str(FIXTURES), device="cpu")
    arrays = target.records.arrays(target.dataset_size + 1)
    request = {"setup": target.setup().to_json(), "arrays": arrays, "threads": 1}
    server = Server(request, _Lent())  # type: ignore[arg-type]
    driver = server._driver(Neighbour.LARGER.value)
    rows = server._gradients
    optimizer = driver.optimizer if isinstance(driver, MadePrivate) else driver.recorder
    sizes = np.maximum(np.random.default_rng(1).binomial(5, float(RATE), PART), 1)
    pieces = [
        part.reshape(-1, *parameter.shape).contiguous()
        for part, parameter in zip(
            torch.split(rows, [one.numel() for one in driver.parameters], dim=1), driver.parameters, strict=True
        )
    ]

    def bare() -> None:
        driver.recorder.start(torch.empty(0, target.dimension))
        for size in sizes:
            optimizer.zero_grad()
            for parameter, piece in zip(driver.parameters, pieces, strict=True):
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad_sample = piece[:size]
            optimizer.step()

    def trials() -> None:
        target.release(Neighbour.LARGER, np.random.default_rng(2), PART)

    works = {"alone": bare, "whole": trials}
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(PARTS):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    alone, whole = (float(np.median(times[name])) * TRIALS / PART for name in ("alone", "whole"))
    return [f"opacus {version}", f"{alone:.0f} s", f"{whole:.0f} s", f"{alone / whole:.2f}"]


def in_a_process_of_its_own(version: str) -> list[str]:
    """Two releases cannot be imported into one process."""
    from noisymean.targets.opacus_releases.install import installed, installed_version
    from noisymean.targets.opacus_releases.releases import Release

    folder = "" if version == installed_version() else str(installed(Release(version)))
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.replay", version]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    row: list[str] = json.loads(done.stdout.splitlines()[-1])
    return row


def main() -> None:
    """Measure and publish."""
    from noisymean.targets.opacus_releases.install import installed_version

    publish(
        "replay",
        "10,000 replayed trials of Opacus' own step, 1,485,217 parameters, one thread (150 trials, scaled)",
        ["release", "the library's step alone", "whole trials", "speed, of the step alone (limit 0.8)"],
        [in_a_process_of_its_own(version) for version in ("0.15.0", installed_version())],
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from noisymean.targets.opacus_releases import shims
        from noisymean.targets.opacus_releases.releases import Release

        shims.put_in_place(Release(sys.argv[1]))
        print(json.dumps(measured(sys.argv[1])))
    else:
        main()
