"""The releases of Opacus on PyPI and how they differ where it matters: sampling, denominator, options.

Read in the wheels and run (docs/implementations.md). With `loss_reduction="mean"`:

    0.9.0  - 0.11.0   no sampler                      |B|
    0.12.0 - 0.13.0   UniformWithReplacementSampler   |B|
    0.14.0 - 0.15.0   its sampler leaves empty batches out, the engine makes up for them if poisson=True
                                                      N q if poisson=True, |B| if not (the default)
    1.0.0  - 1.6.0    DPDataLoader                    int(N / L), L = len(data_loader)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final

from noisymean.errors import InvalidInput

VERSIONS = (
    "0.9.0", "0.9.1", "0.10.0", "0.10.1", "0.11.0", "0.12.0", "0.13.0", "0.14.0", "0.15.0",
    "1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.1.1", "1.1.2", "1.1.3", "1.2.0", "1.3.0", "1.4.0", "1.4.1",
    "1.5", "1.5.1", "1.5.2", "1.5.3", "1.5.4", "1.6.0",
)  # fmt: skip


class Era(Enum):
    """How a release is driven."""

    NO_SAMPLER = "0.9.0 to 0.11.0"
    SAMPLER = "0.12.0 and 0.13.0"
    POISSON_FLAG = "0.14.0 and 0.15.0"
    MAKE_PRIVATE = "1.0.0 and later"


class Clipping(Enum):
    """How gradients are clipped."""

    FLAT = "flat"
    PER_LAYER = "per_layer"
    ADAPTIVE = "adaptive"


class GradSample(Enum):
    """How the library computes per-sample gradients when it is asked to."""

    HOOKS = "hooks"
    FUNCTORCH = "functorch"
    EXPANDED_WEIGHTS = "ew"
    GHOST = "ghost"


@final
@dataclass(frozen=True)
class Release:
    """One release.

    >>> Release("0.15.0").era.value
    '0.14.0 and 0.15.0'
    """

    version: str

    def __post_init__(self) -> None:
        if self.version not in VERSIONS:
            raise InvalidInput(
                "opacus", self.version, "a release from 0.9.0 to 1.6.0", f"one of {', '.join(VERSIONS[::5])}, ..."
            )

    @property
    def number(self) -> tuple[int, ...]:
        """To compare with: 1.5 is (1, 5, 0)."""
        parts = [int(part) for part in self.version.split(".")]
        return tuple(parts + [0] * (3 - len(parts)))

    @property
    def era(self) -> Era:
        for era, first in ((Era.MAKE_PRIVATE, (1, 0, 0)), (Era.POISSON_FLAG, (0, 14, 0)), (Era.SAMPLER, (0, 12, 0))):
            if self.number >= first:
                return era
        return Era.NO_SAMPLER

    @property
    def steps_on_empty(self) -> bool:
        """Whether an empty batch gives a step of noise; all others raise and are handed a record whose gradient is zero."""
        return self.number >= (1, 3, 0)

    def clippings(self) -> tuple[Clipping, ...]:
        always = (Clipping.FLAT, Clipping.PER_LAYER)
        return (*always, Clipping.ADAPTIVE) if self.number >= (1, 5, 0) else always

    def grad_samples(self) -> tuple[GradSample, ...]:
        if self.number >= (1, 5, 3):
            return tuple(GradSample)
        if self.number >= (1, 2, 0):
            return GradSample.HOOKS, GradSample.FUNCTORCH, GradSample.EXPANDED_WEIGHTS
        return (GradSample.HOOKS,)
