"""Words that more than one place prints: the meanings of the three numbers, and typed notes and reasons with their sentences.

A note or a reason is a value. What decides anything looks at the value; the sentence is made here, in `__str__`, and last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import final

from noisymean.written import short

# What each of the three numbers of a run is, in a line.
MEANINGS = {
    "claimed": "what an accountant of the noisy sum reports",
    "leakage": "certainly lost: an explicit pair of datasets proves it",
    "guarantee": "certainly not exceeded",
}
NONE_KNOWN = "none known"
NO_UPPER_BOUND = "no upper bound is known for this run"
BEYOND_DOUBLES = "more than double precision can hold"
NO_CURVE_OF_IT = "the guarantee is known at this δ; its whole curve is not computed here"


def capital(words: str) -> str:
    """With a capital letter."""
    return f"{words[0].upper()}{words[1:]}"


def sentence(words: str) -> str:
    """With a capital letter and a full stop."""
    return f"{capital(words)}."


def rate_text(rate: Fraction) -> str:
    """A short decimal if the rate is one, a short fraction if it is one, else four digits.

    >>> rate_text(Fraction(1, 200)), rate_text(Fraction(1, 300))
    ('0.005', '1/300')
    """
    decimal = f"{float(rate):.6g}"
    if Fraction(decimal) == rate:
        return decimal
    return str(rate) if len(str(rate)) <= 11 else f"{float(rate):.4g}"


def one_over(rate: float) -> str:
    """1/L where the float is that, as the length of a data loader makes it; else six digits.

    >>> one_over(1 / 101), one_over(0.0123)
    ('1/101', '0.0123')
    """
    length = round(1 / rate)
    return f"1/{length}" if 1 / length == rate else f"{rate:.6g}"


class Words(ABC):
    """A value that has a sentence."""

    @abstractmethod
    def __str__(self) -> str:
        """The sentence, without its full stop."""


class Note(Words):
    """What a reader of the numbers must know besides."""


class Reason(Words):
    """Why nothing is proved about a run."""


# --- notes -------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class SizeIsPublic(Note):
    """Zero-out adjacency."""

    def __str__(self) -> str:
        return (
            "zero-out: N is public, so the denominator is a constant; an accountant's claim may be made, but only between"
            " datasets of the same size"
        )


@final
@dataclass(frozen=True)
class ReplacedIsBoth(Note):
    """Replace-one adjacency."""

    def __str__(self) -> str:
        return (
            "replace-one: N is public, so the denominator is a constant; but an accountant's claim is for one record added or"
            " removed, and replacing a record is both, which costs up to twice as much"
        )


@final
@dataclass(frozen=True)
class NotPoisson(Note):
    """Batches that are drawn in another way than the claim is for; in words."""

    drawn: str

    def __str__(self) -> str:
        return (
            f"the claim is for Poisson sampling; these are batches {self.drawn}, and leakage and guarantee are for them"
        )


@final
@dataclass(frozen=True)
class OneSize(Note):
    """An adjacency between datasets of one size, for batches that are not drawn by Poisson sampling."""

    adjacency: str
    change: str

    def __str__(self) -> str:
        return (
            f"{self.adjacency}: N is public, so every denominator is a constant; leakage and guarantee are for one record"
            f" {self.change}, and for no other neighbours"
        )


@final
@dataclass(frozen=True)
class HoldsForOthers(Note):
    """A claim that would hold for neighbours that nobody has said it is for."""

    adjacency: str
    change: str

    def __str__(self) -> str:
        return (
            f"for one record {self.change} the guarantee is no larger than the claim, but accountants mean one record added or"
            f" removed: give adjacency {self.adjacency} if your claim is for one record {self.change}, else add-remove"
        )


@final
@dataclass(frozen=True)
class OnlyAdded(Note):
    """The dataset is too small for one record to be removed."""

    size: int

    def __str__(self) -> str:
        return f"only one record added to the {self.size:,} is judged: with one record less the mechanism cannot run"


@final
@dataclass(frozen=True)
class FloorSteps(Note):
    """floor(N q) changes with one record."""

    before: int
    after: int

    def __str__(self) -> str:
        change = "added" if self.after > self.before else "removed"
        return f"floor(N*q) steps from {self.before:,} to {self.after:,} when one record is {change}"


@final
@dataclass(frozen=True)
class FloorStays(Note):
    """floor(N q) is the same with one record more and one less."""

    floor: int

    def __str__(self) -> str:
        return f"floor(N*q) is {self.floor:,} with one record more or less as well: at this N the denominator is a constant (SGM)"


@final
@dataclass(frozen=True)
class LoaderRuns(Note):
    """(records, batches of an epoch, denominator) at neighbouring numbers of records."""

    runs: tuple[tuple[int, int, int], ...]

    def __str__(self) -> str:
        first, *others = (f"1/{length} and {divisor:,} at {size:,}" for size, length, divisor in self.runs)
        return f"the rate of Opacus, and what it divides by: {'; '.join([f'{first} records', *others])}"


@final
@dataclass(frozen=True)
class ToldAnotherRate(Note):
    """The sampler draws at 1/length, the accountant is told 1/steps."""

    length: int
    steps: int

    def __str__(self) -> str:
        return f"records are sampled at a rate of 1/{self.length}, but the accountant computes with 1/{self.steps}"


@final
@dataclass(frozen=True)
class NoiseFollowsSize(Note):
    """(records, noise multiplier) at neighbouring numbers of records."""

    target_epsilon: float
    noises: tuple[tuple[int, float], ...]

    def __str__(self) -> str:
        each = "; ".join(f"{short(noise)} at {size:,} records" for size, noise in self.noises)
        return f"the noise multiplier is calibrated to epsilon = {short(self.target_epsilon)}: {each}"


@final
@dataclass(frozen=True)
class EpochsDiffer(Note):
    """Steps of an epoch at neighbouring numbers of records."""

    steps: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"an epoch has {' or '.join(map(str, self.steps))} steps, depending on one record: "
            "counting epochs leaks the size by itself"
        )


# --- proofs ------------------------------------------------------------------------------------------------------------


class ProofName(StrEnum):
    """What a guarantee rests on, as it is printed."""

    NOISY_SUM = "noisy sum"
    TRANSPARENT = "batch and membership revealed"
    BATCH = "batch revealed"
    SIZE = "size of the batch revealed"
    CHAIN = "through a third law"
    COUPLED = "both batches drawn together and revealed"
    LIFT = "all-zero pair and coins"
    RATE = "all-zero pair, and the mean put into the rate"
    ONCE = "Gaussian mechanism once an epoch"
    ALLOCATION = "random allocation of one record"
    TAKEN = "one record in another's place, hidden among batches without it"
    SWAPPED = "one record in another's place, and all batches revealed"


# The paper's own theorems.
OF_PAPER = (ProofName.NOISY_SUM, ProofName.TRANSPARENT)


# --- reasons -----------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class RateMoves(Reason):
    """The sampling rates on D and D'."""

    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"the sampling rate itself changes with the number of records ({one_over(self.before)} to"
            f" {one_over(self.after)}), and no bound covers that: fix the rate and the denominator as constants"
        )


@final
@dataclass(frozen=True)
class DenominatorFalls(Reason):
    """One record more makes the denominator smaller."""

    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"one record more makes the denominator smaller ({short(self.before)} to {short(self.after)}), and no bound covers"
            " that: fix it as a constant"
        )


@final
@dataclass(frozen=True)
class NoiseMoves(Reason):
    """The noise multipliers on D and D'."""

    before: float
    after: float

    def __str__(self) -> str:
        return (
            f"the noise multiplier changes with the number of records ({short(self.before)} to {short(self.after)}), and no bound"
            " covers that: give make_private a noise_multiplier of yours"
        )


@final
@dataclass(frozen=True)
class BatchesMove(Reason):
    """The batches of an epoch on D and D'."""

    before: int
    after: int

    def __str__(self) -> str:
        return (
            f"one record more makes {self.after:,} batches of an epoch out of {self.before:,}, and no bound covers that: draw by"
            " Poisson sampling or random allocation, at a rate that is a constant"
        )


@final
@dataclass(frozen=True)
class TooLarge(Reason):
    """The proofs there are say infinity, or more than is worked out."""

    def __str__(self) -> str:
        return (
            "no epsilon below a billion is proved, and larger ones are not computed; or delta is below the probability of the"
            " batch sizes that the computation leaves out"
        )


@final
@dataclass(frozen=True)
class Said(Reason):
    """A reason that somebody else gives, in their words: a prober's doubts, a quantity that does not exist."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence
