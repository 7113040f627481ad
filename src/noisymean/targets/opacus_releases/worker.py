"""The process in which one release lives: `python -m noisymean.targets.opacus_releases.worker [WHEEL SHA256]`.

With a wheel `import opacus` is what that file has, verified by this process and kept in memory: what was hashed is what is run.
Requests arrive as frames on standard input:

    open      a setup and the records it needs; answered with the number of parameters
    gradients the clipped gradients of D', into a mapped array
    release   rounds on D or D' from a seed, into a mapped array

It ends with its input.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, final

from noisymean.targets.opacus_releases.releases import Clipping, Era, GradSample
from noisymean.targets.opacus_releases.setup import Empty, Mode, Reduction, Setup
from noisymean.targets.opacus_releases.sources import Structured, clipped
from noisymean.targets.processes import wire
from noisymean.targets.processes.serving import serve
from noisymean.targets.wheels.imported import import_from


def main() -> int:
    """Answer until the other side goes away."""
    if len(sys.argv) > 1:
        import_from(Path(sys.argv[1]), sys.argv[2], "opacus")
    return serve(Server)


@final
class Server:
    """One setup, on both datasets."""

    def __init__(self, request: Mapping[str, Any], borrower: wire.Borrower) -> None:
        import torch

        from noisymean.targets.opacus_releases import shims

        torch.set_num_threads(int(request["threads"]))
        self.setup = Setup.from_json(request["setup"])
        self.shims = shims.put_in_place(self.setup.release.known)
        self.borrower = borrower
        self.arrays = [self.borrower.borrow(described) for described in request["arrays"]]
        self.drivers: dict[str, Any] = {}
        import opacus

        self.where = str(Path(opacus.__file__).parent)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a request asks for; arrays are filled in place."""
        import torch

        match request["do"]:
            case "open":
                count = sum(parameter.numel() for parameter in self._module().parameters())
                return {"dimension": count, "shims": self.shims, "where": self.where}
            case "gradients":
                into = self.borrower.borrow(request["into"])
                into[...] = self._clipped().cpu().numpy()
                return {}
            case "release":
                sink = torch.from_numpy(self.borrower.borrow(request["into"]))
                self._driver(request["neighbour"]).run(int(request["seed"]), sink)
                return {}
            case other:
                raise ValueError(other)

    def _module(self) -> Any:
        return self.setup.source.module().to(self.setup.release.device)

    @cached_property
    def _records(self) -> Any:
        """What the network is fed with; the last record is the one that D lacks."""
        return tuple(part.to(self.setup.release.device) for part in self.setup.source.records(self.arrays))

    @cached_property
    def _gradients(self) -> Any:
        """Of all records of D', before clipping."""
        return self.setup.source.gradients(self._module(), self._records)

    def _clipped(self) -> Any:
        """As the library clips them: the whole gradient, or every layer of it to its share of the bound."""
        import torch

        bound = self.setup.max_grad_norm
        if self.setup.release.clipping is not Clipping.PER_LAYER:
            return clipped(self._gradients.double(), bound)
        sizes = [parameter.numel() for parameter in self._module().parameters()]
        layers = self._gradients.double().split(sizes, dim=1)
        return torch.cat([clipped(layer, bound / math.sqrt(len(sizes))) for layer in layers], dim=1)

    def _driver(self, neighbour: str) -> Any:
        if neighbour in self.drivers:
            return self.drivers[neighbour]
        import torch

        from noisymean.targets.opacus_releases import feeders
        from noisymean.targets.opacus_releases.drivers import AttachedEngine, MadePrivate

        setup, release, source = self.setup, self.setup.release, self.setup.source
        kind = MadePrivate if release.era is Era.MAKE_PRIVATE else AttachedEngine
        driver = kind(setup, setup.dataset_size + (neighbour == "D'"), self._module())
        steps = driver.release.steps_on_empty and release.clipping is not Clipping.ADAPTIVE
        trained = driver.private if isinstance(driver, MadePrivate) else driver.module
        if isinstance(source, Structured):
            bound = setup.max_grad_norm
            driver.feeder = feeders.StructuredRows(
                driver.parameters, steps, setup.dataset_size, source.shared * bound, source.new * bound
            )
        elif release.grad_sample is GradSample.GHOST and isinstance(driver, MadePrivate):
            driver.feeder = feeders.Ghost(driver.parameters, steps, trained, self._records, driver.criterion)
        elif release.mode is Mode.REPLAY:
            driver.feeder = feeders.Replayed(driver.parameters, steps, self._gradients)
        else:
            driver.feeder = feeders.Recomputed(
                driver.parameters,
                steps,
                trained,
                self._records,
                source.passes,
                torch.mean if release.reduction is Reduction.MEAN else torch.sum,
                isinstance(driver, MadePrivate),
            )
        driver.feeder.as_it_comes = setup.empty is Empty.AS_IT_COMES
        self.drivers[neighbour] = driver
        return driver


if __name__ == "__main__":
    sys.exit(main())
