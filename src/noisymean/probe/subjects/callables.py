r"""A function of gradients, to be probed:

    def release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm) -> array of n numbers

It gets the gradients of N records (a row of n numbers each, not clipped), runs one round of its mechanism on them, and takes
all its randomness from `generator`. Of the keywords it takes those that it has: `batch_size` instead of `sample_rate` if its rate
follows from a batch size. Without `noise_multiplier` and `max_grad_norm` there is nothing to measure its noise and its clipping
against, so both are asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.probe.subject import Adaptation, Knob, Raised, Run
from noisymean.targets.callable_ import loaded

Release = Callable[..., Any]
SIGNATURE = "release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm)"


@final
@dataclass(frozen=True)
class FunctionOfGradients:
    """A release callable of the caller's."""

    release: Release
    label: str = ""

    def __post_init__(self) -> None:
        taken = self._keywords
        missing = [name for name in ("noise_multiplier", "max_grad_norm") if name not in taken]
        if "sample_rate" not in taken and "batch_size" not in taken:
            missing.insert(0, "sample_rate (or batch_size)")
        if missing:
            raise InvalidInput("target", self.name, f"a function like {SIGNATURE}", f"it lacks {', '.join(missing)}")

    @property
    def name(self) -> str:
        """Its own, unless it was given one."""
        return self.label or getattr(self.release, "__name__", type(self.release).__name__)

    @property
    def knob(self) -> Knob:
        """By the keyword that it takes."""
        return Knob.RATE if "sample_rate" in self._keywords else Knob.BATCH_SIZE

    @property
    def adaptation(self) -> Adaptation | None:
        """None."""
        return None

    @property
    def _keywords(self) -> set[str]:
        try:
            parameters = inspect.signature(self.release).parameters.values()
        except (TypeError, ValueError):
            return set()
        return {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}

    def run(self, run: Run) -> Array:
        """Round after round from one generator."""
        generator = np.random.default_rng(run.seed)
        options: dict[str, Any] = {"noise_multiplier": run.noise_multiplier, "max_grad_norm": run.max_grad_norm}
        if self.knob is Knob.RATE:
            options["sample_rate"] = float(run.setting.rate or 1)
        else:
            options["batch_size"] = run.setting.batch_size
        rows = np.empty((run.rounds, run.gradients.shape[1]))
        for row in rows:
            row[...] = self._once(run.gradients, generator, options)
        return rows

    def _once(self, gradients: Array, generator: np.random.Generator, options: dict[str, Any]) -> Array:
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(self.release(gradients.copy(), generator, **options), dtype=np.float64)
        except Exception as fault:  # whatever a user's code raises is a finding
            raise Raised(f"{type(fault).__name__}: {fault}") from fault
        if found.shape != gradients.shape[1:]:
            raise Raised(f"it released shape {found.shape} for gradients of {gradients.shape[1]} numbers")
        return found


def in_file(file: Path, attribute: str) -> FunctionOfGradients:
    """NAME of FILE.py; the file is executed as a module of this process, as it would be by its owner."""
    return FunctionOfGradients(loaded(file, attribute), f"{file.name}:{attribute}")
