"""Opacus as a target: `opacus`, the installed release, and `opacus==X` for any from 0.9.0 to 1.6.0.

The records are real images under a model of the catalogue, rows of gradients that are given, or gradients with a
structure, for which N may be as large as one likes. Which mechanism that is follows from the release and its options:

    0.9.0 - 0.13.0, and 0.14.0 - 0.15.0 with poisson=False       ASGM
    0.14.0 - 0.15.0 with poisson=True                            EASGM
    1.0.0 - 1.6.0   at a rate: FEASGM; through its data loader:  OpacusLoader
    loss_reduction="sum"                                         SGM

An empty batch is a step of noise in all of them: where a release would raise, it is handed one record whose gradient is zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from noisymean.errors import InvalidInput, check_number
from noisymean.mechanisms import ASGM, EASGM, FEASGM, LEAST_NOISE, SGM, Mechanism, OpacusLoader
from noisymean.numerics.logs import Array
from noisymean.paper import data
from noisymean.paper.model_sizes import parameters_of
from noisymean.targets.claims import claimed_curve
from noisymean.targets.device import AUTO, resolved
from noisymean.targets.opacus_releases.client import Session
from noisymean.targets.opacus_releases.install import installed_version
from noisymean.targets.opacus_releases.releases import Clipping, Era, GradSample, Release
from noisymean.targets.opacus_releases.setup import (
    Adaptive,
    AtRate,
    Mode,
    Network,
    Reduction,
    Rows,
    Sampling,
    Setup,
    Shuffled,
    Source,
    Structured,
    ThroughLoader,
)
from noisymean.targets.protocol import Known, Neighbour, Structure
from noisymean.tradeoff import TradeOff

MOST_STEPS = 10**6
_ADAPTIVE = Adaptive()
# Rows of gradients that are handed to a test; the optimal one sums over all batches of them.
_MOST_KNOWN = 64


@final
@dataclass(frozen=True, kw_only=True)
class Photographs:
    """The first images of a set, under an untrained model of the catalogue."""

    dataset: str
    model: str
    seed: int = 0
    draws: int = 1
    draws_seed: int = 0
    data_dir: str | None = None

    def images(self, count: int) -> data.Images:
        """The first `count`."""
        folder = Path(self.data_dir) if self.data_dir is not None else None
        return data.load(self.dataset, data_dir=folder).first(count)


@final
@dataclass(frozen=True)
class GivenRows:
    """Gradients before clipping, one for each record of D'; the last is the one that D lacks."""

    rows: tuple[tuple[float, ...], ...]


@final
@dataclass(frozen=True)
class Alike:
    """Gradients along one axis, for any N: see `protocol.Structure`."""

    dimension: int
    structure: Structure


Records: TypeAlias = Photographs | GivenRows | Alike


def release_named(text: str) -> str:
    """The version in `opacus==X`, or the installed one for `opacus`.

    >>> release_named("opacus==0.15.0")
    '0.15.0'
    """
    name, _, version = text.partition("==")
    if name != "opacus" or ("==" in text and not version):
        raise InvalidInput("target", text, "opacus or opacus==X with X from 0.9.0 to 1.6.0")
    return Release(version or installed_version()).version


@final
@dataclass(frozen=True, kw_only=True)
class OpacusTarget:
    """One release on one pair of datasets, |D| = dataset_size."""

    release_version: str
    dataset_size: int
    records: Records
    sampling: Sampling
    noise_multiplier: float
    max_grad_norm: float = 0.1
    mode: Mode = Mode.REPLAY
    reduction: Reduction = Reduction.MEAN
    poisson: bool = True
    clipping: Clipping = Clipping.FLAT
    grad_sample: GradSample = GradSample.HOOKS
    adaptive: Adaptive = _ADAPTIVE
    steps: int = 1
    label: str = ""
    device: str = AUTO

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", resolved(self.device))
        check_number("noise_multiplier", self.noise_multiplier, least=LEAST_NOISE, most=1e9)
        check_number("max_grad_norm", self.max_grad_norm, above=0.0, most=1e9)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 1 <= self.steps <= MOST_STEPS:
            raise InvalidInput("steps", self.steps, f"a whole number from 1 to {MOST_STEPS}")
        if isinstance(self.records, GivenRows) and len(self.records.rows) != self.dataset_size + 1:
            raise InvalidInput(
                "dataset_size", self.dataset_size, f"{len(self.records.rows) - 1}, one less than the rows"
            )
        self._check_options(Release(self.release_version))
        self._check_sampling(Release(self.release_version))

    def _check_options(self, release: Release) -> None:
        offered = f"offered by opacus=={release.version}"
        if self.clipping not in release.clippings():
            names = ", ".join(kind.value for kind in release.clippings())
            raise InvalidInput("clipping", self.clipping.value, f"{offered}: {names}")
        if self.grad_sample not in release.grad_samples():
            names = ", ".join(kind.value for kind in release.grad_samples())
            raise InvalidInput("grad_sample", self.grad_sample.value, f"{offered}: {names}")
        if self.grad_sample is not GradSample.HOOKS and (self.mode is Mode.REPLAY or isinstance(self.records, Alike)):
            raise InvalidInput("grad_sample", self.grad_sample.value, "hooks in replay", "choose the mode 'full'")
        if self.grad_sample is GradSample.GHOST and (
            self.clipping is not Clipping.FLAT
            or not isinstance(self.records, Photographs)
            or "cnn" not in self.records.model
        ):
            raise InvalidInput("grad_sample", "ghost", "with flat clipping and a classifier")
        if self.clipping is Clipping.ADAPTIVE and self.noise_multiplier >= 2 * self.adaptive.unclipped_num_std:
            raise InvalidInput("noise_multiplier", self.noise_multiplier, "below 2 * unclipped_num_std for AdaClip")
        if not self.poisson and release.era is not Era.POISSON_FLAG:
            raise InvalidInput(
                "poisson", self.poisson, "True but for 0.14.0 and 0.15.0", "use shuffled sampling instead"
            )
        if self.mode is Mode.FULL and isinstance(self.records, Alike):
            raise InvalidInput(
                "mode", "full", "replay for structured gradients", "give the rows to have them recomputed"
            )

    def _check_sampling(self, release: Release) -> None:
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
                if rate == 1 and release.era is Era.POISSON_FLAG and self.poisson:
                    raise InvalidInput("sample_rate", 1, f"< 1 for opacus=={release.version}, which takes log(1 - q)")
                floor = math.floor(self.dataset_size * rate)
                if release.era is Era.MAKE_PRIVATE and self.reduction is Reduction.MEAN and floor == 0:
                    raise InvalidInput(
                        "sample_rate",
                        rate,
                        f"at least 1/{self.dataset_size}",
                        "the release divides by floor(N q) = 0 otherwise",
                    )

    @property
    def name(self) -> str:
        """The release, and what it runs on."""
        match self.records:
            case Photographs(dataset=dataset, model=model):
                what = f"{model} on {dataset}"
            case GivenRows():
                what = "given gradients"
            case Alike(structure=structure):
                what = f"{structure.value} gradients"
        library = f"opacus=={self.release_version}"
        run = f"{self.label} ({library})" if self.label else library
        match self.sampling:
            case AtRate(rate=rate):
                drawn = f"q={float(rate):g}"
            case ThroughLoader(batch_size=size) | Shuffled(batch_size=size):
                drawn = f"b={size}"
        reduced = "" if self.reduction is Reduction.MEAN else ", loss_reduction=sum"
        return (
            f"{run}, {what}{reduced}: N={self.dataset_size} {drawn} n={self.dimension} sigma={self.noise_multiplier:g}"
            f" C={self.max_grad_norm:g} T={self.steps}"
        )

    @property
    def dimension(self) -> int:
        """Numbers released in a round."""
        match self.records:
            case Photographs(model=model):
                return parameters_of(model)
            case GivenRows(rows=rows):
                return len(rows[0])
            case Alike(dimension=dimension):
                return dimension

    @property
    def mechanism(self) -> Mechanism | None:
        """What the release really is; None where no mechanism of ours describes the sampling."""
        era = Release(self.release_version).era
        sigma = self.noise_multiplier
        if self.clipping is Clipping.ADAPTIVE:
            # Andrew et al. 2021, Theorem 1: part of the budget goes to the count
            sigma = (sigma**-2 - (2 * self.adaptive.unclipped_num_std) ** -2) ** -0.5
        common: dict[str, Any] = {
            "dataset_size": self.dataset_size,
            "dimension": self.dimension,
            "noise_multiplier": sigma,
        }
        if self.reduction is Reduction.SUM and (
            # the clipper is not told: the gradients are divided by |B|, the noise is not
            self.release_version in ("0.9.0", "0.9.1")
            # the hooks are not told: each gradient is multiplied by |B| before it is clipped
            or (self.release_version == "0.14.0" and self.mode is Mode.FULL)
        ):
            return None
        match self.sampling:
            case Shuffled():
                return None
            case ThroughLoader(batch_size=size):
                loader = OpacusLoader(batch_size=size, **common)
                if self.reduction is Reduction.MEAN:
                    return loader
                return None if loader.rate_moves else SGM(sample_rate=loader.rate, **common)
            case AtRate(rate=rate) if self.reduction is Reduction.SUM:
                return SGM(sample_rate=rate, **common)
            case AtRate(rate=rate) if era is Era.MAKE_PRIVATE:
                return FEASGM(sample_rate=rate, **common)
            case AtRate(rate=rate) if era is Era.POISSON_FLAG and self.poisson:
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
            case ThroughLoader(batch_size=size):
                return Fraction(1, self._loader(size).run(self.dataset_size).steps_per_epoch)
            case Shuffled(batch_size=size) if Release(self.release_version).era is Era.MAKE_PRIVATE:
                # the loader stays the user's own, and its length is what is asked
                return Fraction(1, self._loader(size).run(self.dataset_size).loader_length)
            case Shuffled(batch_size=size):
                return Fraction(size, self.dataset_size)

    def _loader(self, batch_size: int) -> OpacusLoader:
        return OpacusLoader(
            dataset_size=self.dataset_size,
            batch_size=batch_size,
            dimension=self.dimension,
            noise_multiplier=self.noise_multiplier,
        )

    def configuration(self) -> Mapping[str, Any]:
        """All of it."""
        plain = self._setup().to_json()
        records = asdict(self.records)
        records["kind"] = type(self.records).__name__
        if isinstance(self.records, Alike):
            records["structure"] = self.records.structure.value
        for name in ("source", "empty", "declared"):
            plain.pop(name)
        return {"target": "opacus", **plain, "records": records, "steps": self.steps, "label": self.label}

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> OpacusTarget:
        """The inverse of `configuration`."""
        plain = {
            name: value for name, value in configuration.items() if name not in ("target", "records", "steps", "label")
        }
        setup = Setup.from_json({**plain, "source": {"kind": "Rows", "dimension": 1}})
        described = dict(configuration["records"])
        records: Records
        match described.pop("kind"):
            case "Photographs":
                records = Photographs(**described)
            case "Alike":
                records = Alike(described["dimension"], Structure(described["structure"]))
            case _:
                records = GivenRows(tuple(tuple(row) for row in described["rows"]))
        fields = {
            name: value for name, value in vars(setup).items() if name not in ("release", "source", "empty", "declared")
        }
        return cls(
            release_version=setup.release,
            records=records,
            steps=configuration["steps"],
            label=configuration["label"],
            **fields,
        )

    def known(self) -> Known | None:
        """The mechanism and the clipped gradients, if both can be written down."""
        mechanism = self.mechanism
        if mechanism is None:
            return None
        if isinstance(self.records, Alike):
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

    def recomputed(self) -> OpacusTarget:
        """The same in the mode `full`."""
        return replace(self, mode=Mode.FULL)

    @property
    def _session(self) -> Session:
        """A worker of this process, started when it is first needed."""
        held: Session | None = self.__dict__.get("_held")
        if held is None or not held.usable:
            held = Session(self._setup(), self._arrays())
            self.__dict__["_held"] = held
        return held

    def _setup(self) -> Setup:
        source: Source
        match self.records:
            case Photographs() as given:
                source = Network(given.model, given.seed, given.draws, given.draws_seed)
            case GivenRows():
                source = Rows(self.dimension)
            case Alike(dimension=dimension, structure=structure):
                source = Structured(dimension, structure.datasets.shared, structure.datasets.new)
        return Setup(
            release=self.release_version,
            dataset_size=self.dataset_size,
            source=source,
            sampling=self.sampling,
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            mode=self.mode,
            reduction=self.reduction,
            poisson=self.poisson,
            clipping=self.clipping,
            grad_sample=self.grad_sample,
            adaptive=self.adaptive,
            device=self.device,
        )

    def _arrays(self) -> list[NDArray[Any]]:
        match self.records:
            case Photographs() as given:
                images = given.images(self.dataset_size + 1)
                return [np.asarray(images.pixels), np.asarray(images.labels)]
            case GivenRows(rows=rows):
                return [np.asarray(rows, np.float32)]
            case Alike():
                return []
