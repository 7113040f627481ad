"""What is to be run, as frozen values that travel between processes as JSON.

`Configured` is a release as its user has set it up: audits, probes and workers all hold this one description. A batch is drawn
at a rate, through the library's own data loader, or by shuffling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias, final

from noisymean.errors import InvalidInput
from noisymean.targets.opacus_releases.releases import Clipping, Era, GradSample, Release
from noisymean.targets.opacus_releases.sources import Source
from noisymean.targets.plain import from_plain, to_plain
from noisymean.targets.registry import described, from_described


class Mode(Enum):
    """Whether gradients are computed once and put back on every trial, or computed anew by the library each time."""

    REPLAY = "replay"
    FULL = "full"


class Empty(Enum):
    """What is done about an empty batch: a record whose gradient is zero where the release would raise, or nothing."""

    PADDED = "padded"
    AS_IT_COMES = "as it comes"


class Reduction(Enum):
    """The library's `loss_reduction`."""

    MEAN = "mean"
    SUM = "sum"


@final
@dataclass(frozen=True)
class AtRate:
    """Poisson sampling at this rate, whatever N is."""

    rate: Fraction


@final
@dataclass(frozen=True)
class ThroughLoader:
    """`PrivacyEngine.make_private` on an ordinary data loader of this batch size; the rate follows from N. From 1.0.0 on."""

    batch_size: int


@final
@dataclass(frozen=True)
class Shuffled:
    """An ordinary shuffled data loader, no Poisson sampling."""

    batch_size: int


Sampling: TypeAlias = AtRate | ThroughLoader | Shuffled


@final
@dataclass(frozen=True)
class Adaptive:
    """What AdaClip needs on top; the bound is set back before every trial, or left as the last one made it (`moving`)."""

    target_unclipped_quantile: float = 0.5
    clipbound_learning_rate: float = 0.2
    max_clipbound: float = 1e8
    min_clipbound: float = 1e-8
    unclipped_num_std: float = 100.0
    moving: bool = False


@dataclass(frozen=True, kw_only=True)
class Configured:
    """One release and the options that its user has set."""

    version: str
    mode: Mode = Mode.REPLAY
    reduction: Reduction = Reduction.MEAN
    # the switch of 0.14.0 and 0.15.0, and of make_private
    poisson: bool = True
    clipping: Clipping = Clipping.FLAT
    grad_sample: GradSample = GradSample.HOOKS
    adaptive: Adaptive = Adaptive()
    device: str = "cpu"

    def __post_init__(self) -> None:
        release = self.known
        for name, value, offered in (
            ("clipping", self.clipping, release.clippings()),
            ("grad_sample", self.grad_sample, release.grad_samples()),
        ):
            if value not in offered:
                names = ", ".join(one.value for one in offered)
                raise InvalidInput(name, value.value, f"offered by opacus=={release.version}: {names}")
        if not self.poisson and self.known.era in (Era.NO_SAMPLER, Era.SAMPLER):
            raise InvalidInput("poisson", False, f"left out for opacus=={self.version}, which has no such option")

    @property
    def known(self) -> Release:
        return Release(self.version)

    @property
    def era(self) -> Era:
        return self.known.era


@final
@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a worker is asked to run: a configured release on records, |D| = dataset_size, |D'| one more.

    `declared` is the batch size that releases without a sampler ask for; left out, the largest possible.
    """

    release: Configured
    dataset_size: int
    source: Source
    sampling: Sampling
    noise_multiplier: float
    max_grad_norm: float
    empty: Empty = Empty.PADDED
    declared: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; the rate as a fraction in writing."""
        return {**to_plain(self), "source": described(self.source)}

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> Setup:
        return from_plain(Setup, {**plain, "source": from_described(plain["source"])})
