"""The process in which one library lives: `python -I start.py noisymean.targets.libraries.inside.worker FOLDER...`.

Requests arrive as frames on standard input:

    open     a module and the name of one of its ways, with options
    release  rounds on given gradients, into a mapped array
    said     what the library's own accounting says of one run, as numbers with their names

It ends with its input.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from noisymean.targets.libraries.inside.way import Setting
from noisymean.targets.processes import wire
from noisymean.targets.processes.serving import serve

# Parameters that no record has to do with are added up to a multiple of this, so that few shapes have to be compiled.
_WIDTH = 512
_FAINT = 1e-30


def main() -> int:
    """Answer until the other side goes away."""
    return serve(Opened)


@final
class Opened:
    """One way of one library."""

    def __init__(self, request: Mapping[str, Any], borrower: wire.Borrower) -> None:
        self.borrower = borrower
        self.module = importlib.import_module(request["module"])
        self.way = getattr(self.module, request["way"])(**request["options"])

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a request asks for; arrays are filled in place."""
        try:
            return self._answer(request)
        except Exception as fault:
            # some libraries put a trace into what they say: the places of files are of this machine only
            lines = [line.strip() for line in str(fault).splitlines()]
            words = " ".join(line for line in lines if not line.startswith('File "'))
            raise type(type(fault).__name__, (Exception,), {})(words) from None

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "open":
                return {}
            case "said":
                return {"said": self.module.said()}
            case "release":
                self._release(request)
                return {}
            case other:
                raise ValueError(other)

    def _release(self, request: Mapping[str, Any]) -> None:
        given = self.borrower.borrow(request["rows"]).astype(np.float32)
        into = self.borrower.borrow(request["into"])
        dimension = given.shape[1]
        rows = np.pad(given, ((0, 0), (0, -dimension % _WIDTH)))
        setting = Setting(request["noise_multiplier"], request["max_grad_norm"], rows.shape[1], request["seed"])
        if request["batch_size"] is not None:
            rounds = self.way.rounds(setting, rows, request["batch_size"], len(into))
            for sink, released in zip(into, rounds, strict=True):
                sink[...] = released[:dimension]
            return
        generator = np.random.default_rng(setting.seed)
        self.way.begin(setting)
        for sink in into:
            batch = rows[generator.random(len(rows)) < request["rate"]]
            if not len(batch) and not request["empty_as_it_comes"]:
                # where a library would raise, or divide by zero: one record that adds next to nothing, but has a length
                batch = np.full((1, rows.shape[1]), _FAINT, np.float32)
            sink[...] = self.way.step(batch)[:dimension]
