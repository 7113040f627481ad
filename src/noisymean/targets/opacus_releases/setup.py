"""What is to be run, as frozen values that travel between processes as JSON.

The gradients come from a network on real images, from rows that are given, or from a structure that needs no rows (any
N). The batch is drawn at a rate, through the library's own data loader, or by shuffling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias, final

from noisymean.targets.opacus_releases.releases import Clipping, GradSample


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
class Network:
    """A model of the catalogue, by name and seed; the records' draws have a seed of their own."""

    model: str
    seed: int = 0
    draws: int = 1
    draws_seed: int = 0


@final
@dataclass(frozen=True)
class Rows:
    """A linear model without a bias whose gradients are the given rows."""

    dimension: int


@final
@dataclass(frozen=True)
class Structured:
    """The same linear model; D's gradients are `shared` times C along the first axis, the new record's `new` times C."""

    dimension: int
    shared: float
    new: float


Source: TypeAlias = Network | Rows | Structured


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


@final
@dataclass(frozen=True, kw_only=True)
class Setup:
    """One configuration of one release; |D| = dataset_size, |D'| one more.

    `declared` is the batch size that releases without a sampler ask for; left out, the largest possible.
    """

    release: str
    dataset_size: int
    source: Source
    sampling: Sampling
    noise_multiplier: float
    max_grad_norm: float
    mode: Mode = Mode.REPLAY
    reduction: Reduction = Reduction.MEAN
    poisson: bool = True
    clipping: Clipping = Clipping.FLAT
    grad_sample: GradSample = GradSample.HOOKS
    adaptive: Adaptive = Adaptive()
    empty: Empty = Empty.PADDED
    declared: int | None = None
    device: str = "cpu"

    def to_json(self) -> dict[str, Any]:
        """Plain values; the rate as a fraction in writing."""
        plain = asdict(self)
        for name in ("mode", "reduction", "clipping", "grad_sample", "empty"):
            plain[name] = plain[name].value
        plain["source"]["kind"] = type(self.source).__name__
        plain["sampling"]["kind"] = type(self.sampling).__name__
        if isinstance(self.sampling, AtRate):
            plain["sampling"]["rate"] = str(self.sampling.rate)
        return plain

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> Setup:
        """The inverse of `to_json`."""
        fields = dict(plain)
        fields["mode"], fields["reduction"] = Mode(fields["mode"]), Reduction(fields["reduction"])
        fields["clipping"], fields["grad_sample"] = Clipping(fields["clipping"]), GradSample(fields["grad_sample"])
        fields["empty"] = Empty(fields.get("empty", Empty.PADDED.value))
        fields["adaptive"] = Adaptive(**fields["adaptive"])
        source = dict(fields["source"])
        kinds: dict[str, type[Any]] = {kind.__name__: kind for kind in (Network, Rows, Structured)}
        fields["source"] = kinds[source.pop("kind")](**source)
        sampling = dict(fields["sampling"])
        match sampling.pop("kind"):
            case "AtRate":
                fields["sampling"] = AtRate(Fraction(sampling["rate"]))
            case "ThroughLoader":
                fields["sampling"] = ThroughLoader(**sampling)
            case _:
                fields["sampling"] = Shuffled(**sampling)
        return Setup(**fields)
