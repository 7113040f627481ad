"""What a probe found: each conclusion a frozen value beside the runs that it follows from, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, Unpack, assert_never, final

from noisymean.accounts import Account
from noisymean.errors import InvalidInput, Undefined
from noisymean.mechanisms import KINDS, SGM, Mechanism, OpacusLoader, Rate
from noisymean.mechanisms import from_plain as mechanism_from
from noisymean.outward import at_least, at_most
from noisymean.probe.laws import Kind
from noisymean.results import Lines, Result
from noisymean.targets.plain import from_plain, to_plain
from noisymean.verdict import Word
from noisymean.written import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    # the smallest and the largest denominator that was seen
    least: float | None = None
    most: float | None = None


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
class Calibrated:
    """The noise multiplier that was calibrated at N records and at one more, as measured there, each good to `error`."""

    run: str
    before: float
    after: float
    error: float

    @property
    def moves(self) -> bool:
        """Whether one record more changes it, beyond what chance explains."""
        return abs(self.after - self.before) > self.error * (self.after + self.before)


@final
@dataclass(frozen=True)
class Noise:
    """Whether the noise is divided by what the gradients are divided by, and its deviation there over sigma C.

    `scale` is at the sigma that was asked for; `levels` are the others that were run as well. `fresh` says whether every
    coordinate of every round has normal noise of its own. `calibrated`, where the implementation chooses sigma itself: what it
    chose, at pairs of sizes.
    """

    shares_denominator: bool | None
    scale: float | None
    error: float
    noise_multiplier: float
    levels: tuple[Level, ...] = ()
    fresh: bool | None = None
    calibrated: tuple[Calibrated, ...] = ()


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
    PARTS = "Poisson in parts of the records, each drawn again while nobody is in it"
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
    sizes at which it was measured best. `parts`: of how many parts of the records a batch is put together.
    """

    sampling: Sampling
    law: RateLaw | None
    moves_with_size: bool
    moved: tuple[str, ...] = ()
    within: float | None = None
    parts: int = 1


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


class RunNumbers(TypedDict):
    """The numbers of a user's run; the rate or the batch size, whichever was set."""

    dataset_size: int
    dimension: int
    noise_multiplier: float
    sample_rate: NotRequired[Rate | None]
    batch_size: NotRequired[int | None]


@final
@dataclass(frozen=True)
class RunVerdict:
    """The verdict on the user's run, on what it rests or why there is none, and the numbers if there are any."""

    word: Word
    because: str
    account: Account | None = None

    @property
    def sentence(self) -> str:
        """The three numbers and the word, or why there are none."""
        if (answer := self.account) is None:
            return f"Not accounted for, undetermined: {self.because}."
        proved = answer.guarantee.epsilon
        return (
            f"{answer.steps:,} rounds at delta = {short(answer.claimed.delta or 0.0)}:"
            f" claimed epsilon {at_most(answer.claimed.epsilon or 0.0)}, leakage {at_least(answer.leakage.epsilon or 0.0)},"
            f" guarantee {'none known' if proved is None else at_most(proved)}: {self.word}{self._rests_on(proved)}."
        )

    def _rests_on(self, proved: float | None) -> str:
        match self.word:
            case "holds":
                return f", as far as was measured: {self.because}"
            case "undetermined":
                return f": {self.because}" if proved is None else ""
            case "violated":
                return ""
        assert_never(self.word)


@final
@dataclass(frozen=True)
class Finding(Result):
    """The mechanism that explains everything that was read, or `unknown`; with the user's numbers, the verdict on their run."""

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
    # None: no run was described
    run: RunVerdict | None = None

    def to_plain(self) -> dict[str, Any]:
        """What was found, without the verdict on a run: `from_plain` is its inverse."""
        plain: dict[str, Any] = to_plain(replace(self, run=None))
        del plain["run"]
        plain["clipping"]["sound"] = self.clipping.sound
        return plain

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Finding:
        return from_plain(Finding, plain)

    def to_dict(self) -> dict[str, object]:
        plain, run = self.to_plain(), self.run
        answer, version = None if run is None else run.account, import_module("noisymean").__version__
        # the keys that `account --json` adds, empty: nothing was asked of them
        beside = {
            "asked_pair": None,
            "asked_adjacency": None,
            "grounds": [],
            "reported": {},
            "elsewhere": None,
            "version": version,
        }
        return {
            "target": plain.pop("target"),
            "mechanism": plain.pop("kind"),
            **plain,
            "account": None if answer is None else {**answer.to_dict(), **beside},
            "account_refused": run.because if run is not None and answer is None else None,
            "verdict": None if run is None else run.word,
            "because": None if run is None else run.because,
            "doubts": [remark.words for remark in self.doubts],
            "version": version,
        }

    def columns(self) -> Mapping[str, Sequence[object]]:
        """A row for each setting that was run."""
        names = ("run", "rounds", "batches", "denominator", "least", "most", "rate", "finite")
        return {name: [getattr(one, name) for one in self.evidence] for name in names}

    def lines(self) -> Lines:
        """The mechanism, each conclusion, the remarks, and the verdict on the run that was described."""
        accounted = self.kind.value in KINDS
        caveat = " but for what follows, so without a guarantee" if self.doubts and accounted else ""
        if self.kind is Kind.SGM and self.rates.moves_with_size:
            # the rate of a data loader, whose name its denominator alone does not earn
            caveat = f", but only where one record more does not change the sampling rate{caveat and f', and{caveat}'}"
        # what was raised may end a sentence of its own
        sentences = [f"- {remark.severity.value}: {remark.words.removesuffix('.')}." for remark in self.remarks]
        if self.run is not None:
            notes = () if self.run.account is None else self.run.account.notes
            sentences += [self.run.sentence, *(f"- {note}." for note in notes)]
        return Lines(f"{self.target}: {self.kind.value.upper()}{caveat}", ("what", "found"), self.facts(), sentences)

    def facts(self) -> list[tuple[str, str]]:
        """The conclusions, in a word each."""
        noise, clipping, rates = self.noise, self.clipping, self.rates
        shared = {None: "not seen", True: "divided by the same", False: "NOT divided by the same"}
        at = f"sigma C at sigma = {noise.noise_multiplier:g}"
        scale = "" if noise.scale is None else f", {noise.scale:.3f} +- {noise.error:.3f} times {at}"
        bound = "not seen" if clipping.bound is None else f"{clipping.bound:.4g} C"
        before = "" if clipping.scaled_before is None else f", gradients multiplied by {clipping.scaled_before} before"
        moved = "not seen" if clipping.sensitivity is None else f"{clipping.sensitivity:.3f} C"
        within = "" if rates.within is None else f", to within {rates.within:.1%}"
        law = "" if rates.law is None else f" at {rates.law.value}{within}"
        return [
            ("denominator", self.denominator),
            ("noise", shared[noise.shares_denominator] + scale),
            ("clipping bound", bound + before),
            ("sensitivity", moved),
            ("sampling", f"{rates.sampling.value}{law}{'; moves with N' if rates.moves_with_size else ''}"),
            ("empty batch", self.empty_batch),
        ]

    def seen(self) -> Lines:
        """What was run, and what came out."""
        rows = []
        for one in self.evidence:
            found = one.denominator if one.finite else "not finite"
            rate = "-" if one.rate is None else f"{one.rate:.4f}"
            rows.append((one.run, str(one.rounds), one.batches, found, rate))
        return Lines("", ("run", "rounds", "|B| seen", "denominator", "rate seen"), rows)

    def plot(self) -> Figure:
        """The denominators that were seen, against the expected size of a batch."""
        figure: Figure = import_module("noisymean.report.probe_plots").finding_figure(self)
        return figure

    @property
    def doubts(self) -> tuple[Remark, ...]:
        """What forbids a guarantee: leaks and faults that the mechanism's analysis does not cover, and what is not known."""
        return tuple(remark for remark in self.remarks if remark.forbids)

    @property
    def limits(self) -> str:
        """How well the numbers were measured on which a guarantee rests; what was not run is not seen."""
        rate = "" if self.rates.within is None else f"the rate to {self.rates.within:.1%}, "
        return f"{rate}the noise to {self.noise.error:.1%}, the sensitivity on the records that were run"

    def mechanism(self, **numbers: Unpack[RunNumbers]) -> Mechanism:
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
        if self.doubts and self.kind.value in KINDS:
            raise Undefined("mechanism", self.kind.value, "one without a doubt left", self.reasons)
        return self.at_least(**numbers)

    def at_least(self, **numbers: Unpack[RunNumbers]) -> Mechanism:
        """The mechanism whose leakage is a part of this one's; its guarantee is this one's only if there are no `doubts`."""
        if self.kind.value not in KINDS:
            reasons = (f"the denominator is {self.denominator}", self.reasons)
            raise Undefined("mechanism", self.kind.value, "one that a theorem covers", "; ".join(filter(None, reasons)))
        common: dict[str, Any] = dict(numbers)
        sample_rate, batch_size = common.pop("sample_rate", None), common.pop("batch_size", None)
        if self.noise.calibrated:
            raise Undefined(
                "noise_multiplier", numbers["noise_multiplier"], "left to the implementation, which calibrates it to N",
                "give OpacusLoader its target_epsilon instead, or account --calibrated-to",
            )  # fmt: skip
        kind = KINDS[self.kind.value]
        if not kind.rate_from_size and not (self.kind is Kind.SGM and self.rates.moves_with_size):
            if sample_rate is None:
                raise InvalidInput("sample_rate", None, "given, as it was set")
            return mechanism_from({"name": self.kind.value, "sample_rate": sample_rate, **common})
        if batch_size is None:
            raise InvalidInput("batch_size", None, "given: the rate follows from it and N")
        loader = OpacusLoader(batch_size=batch_size, **common)
        if kind.rate_from_size:
            return loader
        if loader.rate_moves:
            raise Undefined(
                "batch_size", batch_size, "a size at which one record more does not change the rate",
                "the denominator is a constant but q = 1/ceil(N/b) is not: give the rate instead",
            )  # fmt: skip
        return SGM(sample_rate=loader.rate, **common)

    @property
    def reasons(self) -> str:
        """The doubts in words: why there is no guarantee."""
        return "; ".join(remark.words for remark in self.doubts)
