"""What a probe found: each conclusion a frozen value beside the runs that it follows from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any, final

from noisymean.errors import InvalidInput, Undefined
from noisymean.mechanisms import ASGM, EASGM, FEASGM, SGM, Mechanism, OpacusLoader, Rate
from noisymean.probe.laws import Kind

KINDS: dict[Kind, type[SGM | EASGM | ASGM | FEASGM]] = {
    Kind.SGM: SGM,
    Kind.EASGM: EASGM,
    Kind.ASGM: ASGM,
    Kind.FEASGM: FEASGM,
}

# kinds that the accountant knows
ACCOUNTED = frozenset({*KINDS, Kind.LOADER})


@final
@dataclass(frozen=True)
class Evidence:
    """One line of the table: what was run, and what came out."""

    run: str
    rounds: int
    batches: str
    denominator: str
    rate: float | None
    finite: bool


@final
@dataclass(frozen=True)
class Level:
    """The deviation of the noise over sigma C, at one sigma and one C, and how far off it may be by chance."""

    noise_multiplier: float
    max_grad_norm: float
    scale: float
    error: float

    @property
    def fits(self) -> bool:
        """Whether it is what was set."""
        return abs(self.scale - 1.0) <= self.error


@final
@dataclass(frozen=True)
class Noise:
    """Whether the noise is divided by what the gradients are divided by, and its deviation there over sigma C.

    `scale` is at the sigma that was asked for; `levels` are the others that were run as well. `fresh` says whether every
    coordinate of every round has normal noise of its own.
    """

    shares_denominator: bool | None
    scale: float | None
    error: float
    noise_multiplier: float
    levels: tuple[Level, ...] = ()
    fresh: bool | None = None


@final
@dataclass(frozen=True)
class Clipping:
    """The bound that is effective, the factor on gradients before it, and the most that one record moves the sum; over C.

    `additive` says whether each record adds the same to the sum whoever else is in the batch; without it the sensitivity is only
    that of the pairs of batches that were seen.
    """

    bound: float | None
    scaled_before: str | None
    sensitivity: float | None
    additive: bool | None = None

    @property
    def sound(self) -> bool:
        """Whether one record moves the sum by C at most, on all records that were run."""
        return self.sensitivity is not None and self.sensitivity <= 1.0 + 1e-3 and self.additive is True


class Sampling(Enum):
    """How batches are drawn."""

    POISSON = "Poisson"
    SHUFFLED = "shuffled"
    GIVEN = "not its own: it is handed batches"
    UNKNOWN = "unknown"


class RateLaw(Enum):
    """What the rate of Poisson sampling is, as a function of what was set and of N."""

    AS_SET = "q as it is set"
    LOADER = "1/ceil(N/b)"
    SHARE = "b/N"


@final
@dataclass(frozen=True)
class Rates:
    """How batches are drawn, at which rate, and whether one record more changes that rate.

    `within` is by how much, relatively, the rate may differ from its law: at the user's own sizes, if any, else at the pair of
    sizes at which it was measured best.
    """

    sampling: Sampling
    law: RateLaw | None
    moves_with_size: bool
    moved: tuple[str, ...] = ()
    within: float | None = None


class Severity(Enum):
    """How bad a remark is; `unknown` is what could not be established."""

    LEAK = "leak"
    FAULT = "fault"
    UNKNOWN = "unknown"
    NOTE = "note"


class Bearing(Enum):
    """What a remark does to the mechanism that was found."""

    # the mechanism is what the remark says: its analysis covers it
    COVERED = "covered"
    # the mechanism's own leakage is there, and this besides: no guarantee
    BESIDES = "besides"
    # it is not that mechanism, or not known to be
    OPEN = "open"


@final
@dataclass(frozen=True)
class Remark:
    """Something that a user has to know; unless it says otherwise, the mechanism is not established."""

    severity: Severity
    words: str
    bearing: Bearing = Bearing.OPEN

    @property
    def forbids(self) -> bool:
        """Whether no guarantee may be given as long as it stands."""
        return self.severity is not Severity.NOTE and self.bearing is not Bearing.COVERED


@final
@dataclass(frozen=True)
class Finding:
    """The mechanism that explains everything that was read, or `unknown`."""

    target: str
    kind: Kind
    denominator: str
    noise: Noise
    clipping: Clipping
    rates: Rates
    empty_batch: str
    remarks: tuple[Remark, ...]
    evidence: tuple[Evidence, ...]
    seed: int
    candidates: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(self)
        plain["kind"] = self.kind.value
        plain["rates"]["sampling"] = self.rates.sampling.value
        plain["rates"]["law"] = None if self.rates.law is None else self.rates.law.value
        plain["rates"]["moved"] = list(self.rates.moved)
        plain["remarks"] = [
            {"severity": one.severity.value, "words": one.words, "bearing": one.bearing.value} for one in self.remarks
        ]
        plain["clipping"]["sound"] = self.clipping.sound
        return plain

    @staticmethod
    def from_json(plain: dict[str, Any]) -> Finding:
        """The inverse of `to_json`."""
        clipping = {name: value for name, value in plain["clipping"].items() if name != "sound"}
        rates = {**plain["rates"], "sampling": Sampling(plain["rates"]["sampling"])}
        rates["moved"] = tuple(rates["moved"])
        rates["law"] = None if rates["law"] is None else RateLaw(rates["law"])
        noise = {**plain["noise"], "levels": tuple(Level(**one) for one in plain["noise"]["levels"])}
        return Finding(
            target=plain["target"],
            kind=Kind(plain["kind"]),
            denominator=plain["denominator"],
            noise=Noise(**noise),
            clipping=Clipping(**clipping),
            rates=Rates(**rates),
            empty_batch=plain["empty_batch"],
            remarks=tuple(
                Remark(Severity(one["severity"]), one["words"], Bearing(one["bearing"])) for one in plain["remarks"]
            ),
            evidence=tuple(Evidence(**one) for one in plain["evidence"]),
            seed=plain["seed"],
            candidates=tuple(plain["candidates"]),
        )

    def named(self, target: str) -> Finding:
        """The same under another name."""
        return replace(self, target=target)

    @property
    def doubts(self) -> tuple[Remark, ...]:
        """What forbids a guarantee: leaks and faults that the mechanism's analysis does not cover, and what is not known."""
        return tuple(remark for remark in self.remarks if remark.forbids)

    @property
    def limits(self) -> str:
        """How well the numbers were measured on which a guarantee rests; what was not run is not seen."""
        rate = "" if self.rates.within is None else f"the rate to {self.rates.within:.1%}, "
        return f"{rate}the noise to {self.noise.error:.1%}, the sensitivity on the records that were run"

    def mechanism(
        self,
        *,
        dataset_size: int,
        dimension: int,
        noise_multiplier: float,
        sample_rate: Rate | None = None,
        batch_size: int | None = None,
    ) -> Mechanism:
        """The value that the accountant takes, at the user's numbers; refused where no proof covers what was found.

        >>> import numpy as np
        >>> from noisymean.probe import probe
        >>> def noisy_mean(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
        ...     lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        ...     clipped = gradients * np.minimum(1.0, max_grad_norm / lengths)
        ...     batch = clipped[generator.random(len(clipped)) < sample_rate]
        ...     noise = noise_multiplier * max_grad_norm * generator.standard_normal(clipped.shape[1])
        ...     return (batch.sum(axis=0) + noise) / (len(clipped) * sample_rate)
        >>> found = probe(noisy_mean, seed=1)
        >>> found.denominator
        'N q'
        >>> found.mechanism(dataset_size=59_999, dimension=26_010, sample_rate=0.005, noise_multiplier=10.0).name
        'easgm'
        """
        self._check_accountable()
        if self.doubts:
            raise Undefined("mechanism", self.kind.value, "one without a doubt left", self._reasons())
        return self.at_least(
            dataset_size=dataset_size, dimension=dimension, noise_multiplier=noise_multiplier,
            sample_rate=sample_rate, batch_size=batch_size,
        )  # fmt: skip

    def at_least(
        self,
        *,
        dataset_size: int,
        dimension: int,
        noise_multiplier: float,
        sample_rate: Rate | None = None,
        batch_size: int | None = None,
    ) -> Mechanism:
        """The mechanism whose leakage is a part of this one's; its guarantee is this one's only if there are no `doubts`."""
        self._check_accountable()
        common: dict[str, Any] = {"dataset_size": dataset_size, "dimension": dimension}
        common["noise_multiplier"] = noise_multiplier
        if self.kind is Kind.LOADER:
            if batch_size is None:
                raise InvalidInput("batch_size", None, "given: the rate follows from it and N")
            return OpacusLoader(batch_size=batch_size, **common)
        if self.kind is Kind.SGM and self.rates.moves_with_size:
            if batch_size is None:
                raise InvalidInput("batch_size", None, "given: the rate follows from it and N")
            loader = OpacusLoader(batch_size=batch_size, **common)
            if loader.rate_moves:
                raise Undefined(
                    "batch_size", batch_size, "a size at which one more record leaves the rate alone",
                    "the denominator is a constant but q = 1/ceil(N/b) is not: give the rate instead",
                )  # fmt: skip
            return SGM(sample_rate=loader.rate, **common)
        if sample_rate is None:
            raise InvalidInput("sample_rate", None, "given, as it was set")
        return KINDS[self.kind](sample_rate=sample_rate, **common)

    def _check_accountable(self) -> None:
        """One of the mechanisms that the accountant knows, with its noise, its sensitivity and its sampling."""
        if self.kind in (Kind.UNKNOWN, Kind.INDEPENDENT):
            raise Undefined("mechanism", self.kind.value, "one that a theorem covers", self._reasons())

    def _reasons(self) -> str:
        """Why there is no guarantee."""
        doubts = "; ".join(remark.words for remark in self.doubts)
        if self.kind in (Kind.UNKNOWN, Kind.INDEPENDENT):
            return "; ".join(filter(None, (f"the denominator is {self.denominator}", doubts)))
        return doubts
