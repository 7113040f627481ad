"""Opacus as a target: `opacus`, the installed release, and `opacus==X` for any from 0.9.0 to 1.6.0.

`OpacusRelease` is a configured release that can be run on any records; `OpacusTarget` is one on a pair of datasets, whose
records are rows of gradients that are given, gradients with a structure, for which N may be as large as one likes, or of any
other kind (`records.Records`). Which mechanism that is follows from the release and its options:

    0.9.0 - 0.13.0, and 0.14.0 - 0.15.0 with poisson=False       ASGM
    0.14.0 - 0.15.0 with poisson=True                            EASGM
    1.0.0 - 1.6.0   at a rate: FEASGM; through its data loader:  OpacusLoader
    loss_reduction="sum"                                         SGM

An empty batch is a step of noise in all of them: where a release would raise, it is handed one record whose gradient is zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np

from noisymean.choices import did_you_mean, written_as
from noisymean.errors import InvalidInput, check_number
from noisymean.mechanisms import ASGM, EASGM, FEASGM, LEAST_NOISE, SGM, Mechanism, OpacusLoader
from noisymean.numerics.logs import Array
from noisymean.targets.claims import claimed_curve
from noisymean.targets.device import AUTO, CPU, resolved
from noisymean.targets.opacus_releases.client import Session, WorkerFault
from noisymean.targets.opacus_releases.install import installed_version
from noisymean.targets.opacus_releases.releases import Clipping, Era, GradSample, Release
from noisymean.targets.opacus_releases.setup import (
    Adaptive,
    AtRate,
    Configured,
    Empty,
    Mode,
    Reduction,
    Sampling,
    Setup,
    Shuffled,
    ThroughLoader,
)
from noisymean.targets.opacus_releases.sources import Rows
from noisymean.targets.plain import from_plain, to_plain
from noisymean.targets.protocol import Adaptation, Knob, Known, Neighbour, Raised, Request, Runnable, check_steps
from noisymean.targets.records import GivenRows, OnOneAxis, Records
from noisymean.targets.registry import described, from_described
from noisymean.tradeoff import TradeOff

_PLAIN = ("dataset_size", "noise_multiplier", "max_grad_norm", "steps", "label")
# Rows of gradients that are handed to a test; the optimal one sums over all batches of them.
_MOST_KNOWN = 64
# little noise on the count, so that what it is divided by can be read
_MOVING = Adaptive(unclipped_num_std=1e-3, clipbound_learning_rate=1.0, target_unclipped_quantile=0.5, moving=True)


def release_named(text: str) -> str:
    """The version in `opacus==X`, or the installed one for `opacus`.

    >>> release_named("opacus==0.15.0")
    '0.15.0'
    """
    name, _, version = text.partition("==")
    if name != "opacus" or ("==" in text and not version):
        raise InvalidInput("target", text, "opacus or opacus==X with X from 0.9.0 to 1.6.0")
    return Release(version or installed_version()).version


def opacus_runnable(text: str) -> Runnable:
    """The release of that name as it comes, or the installed one in the mode `opacus:MODE`."""
    if ":" in text:
        from noisymean.targets.opacus_modes import mode_named

        return mode_named(text).runnable()
    return OpacusRelease(version=release_named(text))


@final
@dataclass(frozen=True, kw_only=True)
class OpacusRelease(Configured, Runnable):
    """One release and its options; from 1.0.0 on through `make_private` on an ordinary data loader, as its users do."""

    device: str = AUTO

    @property
    def name(self) -> str:
        """The release, and the options that are not its defaults."""
        options = [] if self.reduction is Reduction.MEAN else [f"loss_reduction={self.reduction.value}"]
        options += [] if self.poisson and self.era is not Era.POISSON_FLAG else [f"poisson={self.poisson}"]
        options += [] if self.clipping is Clipping.FLAT else [f"clipping={self.clipping.value}"]
        options += [] if self.grad_sample is GradSample.HOOKS else [f"grad_sample_mode={self.grad_sample.value}"]
        return ", ".join([f"opacus=={self.version}", *options])

    @property
    def knob(self) -> Knob:
        return Knob.BATCH_SIZE if self.era is Era.MAKE_PRIVATE else Knob.RATE

    @property
    def adaptation(self) -> Adaptation | None:
        """AdaClip moves its bound; nothing else here does."""
        if self.clipping is not Clipping.ADAPTIVE:
            return None
        return Adaptation(_MOVING.target_unclipped_quantile, _MOVING.clipbound_learning_rate)

    def run(self, run: Request) -> Array:
        rate, size = run.setting.rate, run.setting.batch_size or 1
        by_size = ThroughLoader(size) if self.poisson else Shuffled(size)
        details = {
            "sampling": by_size if rate is None else AtRate(rate),
            "noise_multiplier": run.noise_multiplier,
            "max_grad_norm": run.max_grad_norm,
            "empty": Empty.AS_IT_COMES if run.empty_as_it_comes else Empty.PADDED,
        }
        adaptive = _MOVING if run.moving_bound else Adaptive()
        try:
            return self._released(run.gradients, run.rounds, run.seed, adaptive, **details)
        except WorkerFault as fault:
            raise Raised(f"raises {fault.what}") from None

    def oversized_batch(self, seed: int) -> str | None:
        """What happens to a batch above the declared size in releases that declare one; None if nothing does."""
        half = AtRate(Fraction(1, 2))
        try:
            self._released(
                np.eye(12), 60, seed, Adaptive(), sampling=half, noise_multiplier=0.0, max_grad_norm=1.0, declared=3
            )
        except WorkerFault as fault:
            return fault.what
        return None

    def _released(self, gradients: Array, rounds: int, seed: int, adaptive: Adaptive, **details: Any) -> Array:
        """In a session of its own, through the release's own hooks, where everybody has a processor."""
        records, dimension = gradients.shape
        # the row that only D' would have is zero
        rows = np.zeros((records + 1, dimension), np.float32)
        rows[:records] = gradients
        release = replace(self, mode=Mode.FULL, device=CPU, adaptive=adaptive)
        setup = Setup(release=release, dataset_size=records, source=Rows(dimension), **details)
        return np.array(Session(setup, [rows]).release(Neighbour.SMALLER, seed, rounds))


def with_options(
    release: OpacusRelease, reduction: str, poisson: bool, clipping: str, grad_sample: str
) -> OpacusRelease:
    """The release with the options of that name; refused if it does not offer them."""
    offered_by = release.known
    modes = [one for one in offered_by.grad_samples() if one is not GradSample.GHOST]
    chosen: list[str] = []
    for name, value, offered in (
        ("loss_reduction", reduction, tuple(Reduction)),
        ("clipping", clipping, offered_by.clippings()),
        ("grad_sample_mode", grad_sample, modes),
    ):
        allowed = [one.value for one in offered]
        known = written_as(value, allowed)
        if known is None:
            offers = f"one that opacus=={release.version} offers here: {', '.join(allowed)}"
            raise InvalidInput(name, value, offers, did_you_mean(value, allowed))
        chosen.append(known)
    reduced, clipped, computed = Reduction(chosen[0]), Clipping(chosen[1]), GradSample(chosen[2])
    return replace(release, reduction=reduced, poisson=poisson, clipping=clipped, grad_sample=computed)


@final
@dataclass(frozen=True, kw_only=True)
class OpacusTarget:
    """One configured release on a pair of datasets, the smaller of `dataset_size` records."""

    library: OpacusRelease
    dataset_size: int
    records: Records
    sampling: Sampling
    noise_multiplier: float
    max_grad_norm: float = 0.1
    steps: int = 1
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "library", replace(self.library, device=resolved(self.library.device)))
        check_number("noise_multiplier", self.noise_multiplier, least=LEAST_NOISE, most=1e9)
        check_number("max_grad_norm", self.max_grad_norm, above=0.0, most=1e9)
        check_steps(self.steps)
        if isinstance(self.records, GivenRows) and len(self.records.rows) != self.dataset_size + 1:
            raise InvalidInput(
                "dataset_size", self.dataset_size, f"{len(self.records.rows) - 1}, one less than the rows"
            )
        self._check_options(self.library)
        self._check_sampling(self.library)

    def _check_options(self, release: OpacusRelease) -> None:
        """What the release offers, but not on these records or by replaying gradients."""
        replayed, mode = release.mode is Mode.REPLAY, release.grad_sample
        if mode is not GradSample.HOOKS and (replayed or isinstance(self.records, OnOneAxis)):
            raise InvalidInput("grad_sample", mode.value, "hooks in replay", "choose the mode 'full'")
        if mode is GradSample.GHOST and not (release.clipping is Clipping.FLAT and self.records.is_labelled):
            raise InvalidInput("grad_sample", "ghost", "with flat clipping and a classifier")
        if release.clipping is Clipping.ADAPTIVE and self.noise_multiplier >= 2 * release.adaptive.unclipped_num_std:
            raise InvalidInput("noise_multiplier", self.noise_multiplier, "below 2 * unclipped_num_std for AdaClip")
        if not release.poisson and release.era is not Era.POISSON_FLAG:
            raise InvalidInput("poisson", False, "True but for 0.14.0 and 0.15.0", "use shuffled sampling instead")
        if not replayed and isinstance(self.records, OnOneAxis):
            raise InvalidInput(
                "mode", "full", "replay for structured gradients", "give the rows to have them recomputed"
            )

    def _check_sampling(self, release: OpacusRelease) -> None:
        match self.sampling:
            case ThroughLoader(batch_size=size) | Shuffled(batch_size=size):
                if not 1 <= size <= self.dataset_size:
                    raise InvalidInput("batch_size", size, f"a whole number from 1 to {self.dataset_size}")
                if isinstance(self.sampling, ThroughLoader) and release.era is not Era.MAKE_PRIVATE:
                    raise InvalidInput(
                        "opacus", release.version, ">= 1.0.0 to sample through make_private", "give a rate"
                    )
            case AtRate(rate=rate):
                if not 0 < rate <= 1:
                    raise InvalidInput("sample_rate", rate, "a number with 0 < sample_rate <= 1")
                if rate == 1 and release.era is Era.POISSON_FLAG and release.poisson:
                    raise InvalidInput("sample_rate", 1, f"< 1 for opacus=={release.version}, which takes log(1 - q)")
                floor = math.floor(self.dataset_size * rate)
                if release.era is Era.MAKE_PRIVATE and release.reduction is Reduction.MEAN and floor == 0:
                    remedy = "the release divides by floor(N q) = 0 otherwise"
                    raise InvalidInput("sample_rate", rate, f"at least 1/{self.dataset_size}", remedy)

    @property
    def name(self) -> str:
        library = f"opacus=={self.library.version}"
        run = f"{self.label} ({library})" if self.label else library
        match self.sampling:
            case AtRate(rate=rate):
                drawn = f"q={float(rate):g}"
            case ThroughLoader(batch_size=size) | Shuffled(batch_size=size):
                drawn = f"b={size}"
        reduced = "" if self.library.reduction is Reduction.MEAN else ", loss_reduction=sum"
        return (
            f"{run}, {self.records.words}{reduced}: N={self.dataset_size} {drawn} n={self.dimension}"
            f" sigma={self.noise_multiplier:g} C={self.max_grad_norm:g} T={self.steps}"
        )

    @property
    def dimension(self) -> int:
        return self.records.dimension

    @property
    def mechanism(self) -> Mechanism | None:
        """What the release really is; None where no mechanism of ours describes the sampling."""
        release, sigma = self.library, self.noise_multiplier
        if release.clipping is Clipping.ADAPTIVE:
            # Andrew et al. 2021, Theorem 1: part of the budget goes to the count
            sigma = (sigma**-2 - (2 * release.adaptive.unclipped_num_std) ** -2) ** -0.5
        common: Any = {"dataset_size": self.dataset_size, "dimension": self.dimension, "noise_multiplier": sigma}
        if release.reduction is Reduction.SUM and (
            # the clipper is not told: the gradients are divided by |B|, the noise is not
            release.version in ("0.9.0", "0.9.1")
            # the hooks are not told: each gradient is multiplied by |B| before it is clipped
            or (release.version == "0.14.0" and release.mode is Mode.FULL)
        ):
            return None
        match self.sampling:
            case Shuffled():
                return None
            case ThroughLoader(batch_size=size):
                loader = OpacusLoader(batch_size=size, **common)
                if release.reduction is Reduction.MEAN:
                    return loader
                return None if loader.rate_moves else SGM(sample_rate=loader.rate, **common)
            case AtRate(rate=rate) if release.reduction is Reduction.SUM:
                return SGM(sample_rate=rate, **common)
            case AtRate(rate=rate) if release.era is Era.MAKE_PRIVATE:
                return FEASGM(sample_rate=rate, **common)
            case AtRate(rate=rate) if release.era is Era.POISSON_FLAG and release.poisson:
                return EASGM(sample_rate=rate, **common)
            case AtRate(rate=rate):
                return ASGM(sample_rate=rate, **common)

    @property
    def claimed_rate(self) -> Fraction:
        """The rate that the release's accountant is told on D: in floating point, as the release computes it.

        Through its loader 1.x says one over the steps of an epoch, int(1/(1/L)), which is not always the L of the sampler.
        """
        match self.sampling:
            case AtRate(rate=rate):
                return rate
            case Shuffled(batch_size=size) if self.library.era is not Era.MAKE_PRIVATE:
                return Fraction(size, self.dataset_size)
            case ThroughLoader(batch_size=size) | Shuffled(batch_size=size):
                n, sigma = self.dimension, self.noise_multiplier
                loader = OpacusLoader(
                    dataset_size=self.dataset_size, batch_size=size, dimension=n, noise_multiplier=sigma
                )
                run = loader.run(self.dataset_size)
                # a shuffled loader stays the user's own, and its length is what is asked
                return Fraction(1, run.loader_length if isinstance(self.sampling, Shuffled) else run.steps_per_epoch)

    def configuration(self) -> Mapping[str, Any]:
        options = to_plain(self.library)
        return {
            "target": "opacus",
            "release": options.pop("version"),
            **options,
            **{name: to_plain(getattr(self, name)) for name in _PLAIN},
            "sampling": {**to_plain(self.sampling), "kind": type(self.sampling).__name__},
            "records": described(self.records),
        }

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> OpacusTarget:
        release = from_plain(OpacusRelease, {**configuration, "version": configuration["release"]})
        return from_plain(
            cls, {**configuration, "library": release, "records": from_described(configuration["records"])}
        )

    def known(self) -> Known | None:
        """The mechanism and the clipped gradients, if both can be written down."""
        mechanism = self.mechanism
        if mechanism is None:
            return None
        if isinstance(self.records, OnOneAxis):
            return Known(mechanism, self.max_grad_norm, structured=self.records.structure)
        if self.dataset_size >= _MOST_KNOWN:
            return None
        return Known(mechanism, self.max_grad_norm, gradients=self._session.gradients(self.dataset_size + 1))

    def claim(self) -> TradeOff:
        """What the library's accountant analyses: SGM at its rate and noise."""
        return claimed_curve(SGM(sample_rate=self.claimed_rate, noise_multiplier=self.noise_multiplier), self.steps)

    def release(self, neighbour: Neighbour, generator: np.random.Generator, trials: int) -> Array:
        """The library's own steps, all of them from one seed that the generator gives."""
        seed = int(generator.integers(1 << 63))
        rows = self._session.release(neighbour, seed, trials * self.steps)
        return rows.reshape(trials, self.steps, self.dimension)

    @property
    def _session(self) -> Session:
        """A worker of this process, started when it is first needed."""
        held: Session | None = self.__dict__.get("_held")
        if held is None or not held.usable:
            held = Session(self.setup(), self.records.arrays(self.dataset_size + 1))
            self.__dict__["_held"] = held
        return held

    def setup(self) -> Setup:
        return Setup(
            release=self.library,
            dataset_size=self.dataset_size,
            source=self.records.source(),
            sampling=self.sampling,
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
        )
