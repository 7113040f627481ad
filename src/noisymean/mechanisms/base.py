r"""What a mechanism is: one round of DP-SGD at *every* number of records.

One round on N records: draw a batch B, by Poisson sampling at rate q(N) unless it says otherwise (`sampling`), clip every
gradient to norm C, sum, add N(0, sigma(N)^2 C^2 I_n), divide by a denominator, release n numbers. A mechanism says what q, sigma
and the denominator are as functions of N, and what to call them; accountant, targets, prober and pages read that and nothing
else. There are two families:

    DatasetDenominator   c(N): on two neighbours all that moves is (q, q', s), with s the noise on D' over that on D
    BatchDenominator     c(|B|): the size of the batch itself decides

Where a value speaks of neighbours, `dataset_size` is that of the smaller one: |D| = N, |D'| = N + 1.

To add a mechanism: a frozen dataclass in one of the families, registered by its name (docs/how-to/extend.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, final

import numpy as np

from noisymean.checks import member, of_kind, real, whole
from noisymean.errors import InvalidInput, Undefined, Unproved
from noisymean.mechanisms.adjacency import Adjacency
from noisymean.mechanisms.rates import ToldRate
from noisymean.mechanisms.sampling import Cut, Sampling
from noisymean.numerics.logs import Array
from noisymean.words import DenominatorFalls, NoiseMoves, Note, RateMoves, rate_text

LARGEST_DATASET = 10**15
LARGEST_DIMENSION = 10**15
LEAST_NOISE, MOST_NOISE = 1e-6, 1e9


class Mechanism(ABC):
    """One round at every number of records. Subclasses are frozen dataclasses that have these fields among theirs."""

    # in --mechanism and in JSON
    name: ClassVar[str]
    # what the noisy sum is divided by, in words
    denominator: ClassVar[str]
    # the options that fix the rate
    rate_option: ClassVar[str] = "--sample-rate"
    # whether N and n matter at all
    size_matters: ClassVar[bool] = True
    # whether the sampling rate follows from the number of records
    rate_from_size: ClassVar[bool] = False
    # where the rate comes from if it is not an option: said to whoever gives one all the same
    rate_source: ClassVar[str] = "it follows from the other settings"

    # settings that are not written out while they are what they are by default
    unsaid: ClassVar[tuple[str, ...]] = ()
    # how batches may be drawn
    samplings: ClassVar[tuple[Sampling, ...]] = (Sampling.POISSON,)

    dataset_size: int | None
    dimension: int | None
    # what the accountant is told; `noise_at` is what is used
    noise_multiplier: float
    # a field of those that can be drawn in more than one way
    sampling: Sampling | str = Sampling.POISSON

    def __post_init__(self) -> None:
        self._fix_sampling()
        noise = real(
            "noise_multiplier",
            self.noise_multiplier,
            least=LEAST_NOISE,
            most=MOST_NOISE,
            remedy="without noise nothing is private",
        )
        fixed: dict[str, object] = {"noise_multiplier": noise}
        for name, least, most in (("dataset_size", 0, LARGEST_DATASET), ("dimension", 1, LARGEST_DIMENSION)):
            value = getattr(self, name)
            if value is not None or self.size_matters:
                fixed[name] = whole(name, value, least, most)
        self._fix(**fixed)

    @final
    def _fix(self, **values: object) -> None:
        """Bring fields to their exact types while the value is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @final
    def _fix_sampling(self) -> None:
        try:
            sampling = member("sampling", self.sampling, Sampling)
        except InvalidInput:
            sampling = None
        if sampling not in self.samplings:
            allowed = [one.value for one in self.samplings]
            raise InvalidInput("sampling", self.sampling, f"one of {', '.join(allowed)} for {self.name}")
        if self.sampling is not sampling:
            self._fix(sampling=sampling)

    # --- how batches are drawn -----------------------------------------------------------------------------------------

    @final
    @property
    def drawn(self) -> Sampling:
        """How batches are drawn."""
        return Sampling(self.sampling)

    @final
    @property
    def is_poisson(self) -> bool:
        """Whether batches are drawn as accountants of DP-SGD assume."""
        return self.drawn is Sampling.POISSON

    @final
    def need_poisson(self) -> None:
        """Undefined where batches are drawn in another way: what is computed for Poisson sampling is not about them."""
        if not self.is_poisson:
            raise Undefined(
                "sampling", self.drawn.value, "poisson for this", "account, calibrate and report know the other ways"
            )

    @property
    def size_of_batches(self) -> int | None:
        """b, of batches that have a size other than the last; None where it is not known."""
        return None

    @property
    def drops_last(self) -> bool:
        """Whether a last batch that is not full is dropped."""
        return False

    @final
    def cut(self, size: int) -> Cut:
        """The batches of an epoch that is a dataset of `size` records cut into batches; Undefined if their size is unknown."""
        if self.size_of_batches is None:
            raise Undefined(
                "batch_size", None, "known where batches are cut", "give the dataset size and the batch size"
            )
        found = Cut.of(size, self.size_of_batches, drop_last=self.drops_last)
        if not found.batches:
            raise Undefined(
                "batch_size", self.size_of_batches, f"<= {size}", "there is no whole batch, and others are dropped"
            )
        return found

    @property
    def _fewest(self) -> int:
        """The records without which no batch can be drawn."""
        if self.is_poisson:
            return 0
        whole_batch = self.drops_last or self.drawn is Sampling.FIXED_SIZE
        return (self.size_of_batches or 1) if whole_batch else int(self.drawn.is_cut)

    @property
    def batches_in_epoch(self) -> int:
        """Steps that one pass over the data takes: the batches it is cut into, or one over the rate."""
        if self.drawn.is_cut and self.size_of_batches is not None and self.dataset_size is not None:
            return self.cut(self.dataset_size).batches
        return math.ceil(1 / self.rate)

    @final
    @property
    def knows_size(self) -> bool:
        """Whether one record more is another run: by what is divided by, or by batches that are cut or of a fixed size."""
        return self.size_matters or self.drawn.is_cut or self.drawn is Sampling.FIXED_SIZE

    @final
    @property
    def adjacency(self) -> Adjacency:
        """What neighbours differ in unless it is said: one record added or removed, as accountants of DP-SGD have it.

        Where a constant denominator hides N and the way of drawing batches does not, it is one record zeroed out: that is what
        results on such batches are about.
        """
        return Adjacency.ADD_REMOVE if self.size_matters or not self.knows_size else Adjacency.ZERO_OUT

    # --- what runs on `size` records -----------------------------------------------------------------------------------

    @abstractmethod
    def rate_at(self, size: int) -> Fraction:
        """q(N), the rate at which records are really sampled."""

    @abstractmethod
    def divisors(self, size: int, batches: Array) -> Array:
        """What the sums of batches of these sizes are divided by, on a dataset of `size` records."""

    def exact_divisor(self, size: int, batch: int) -> Fraction:
        """The same of one batch, exactly."""
        return Fraction(float(self.divisors(size, np.array([float(batch)]))[0]))

    def noise_at(self, size: int) -> float:
        """sigma(N), in units of the clipping bound."""
        return self.noise_multiplier

    def told_rate(self) -> ToldRate:
        """The rate that the user's accountant is told: for the claim, and for nothing else."""
        return ToldRate(self.q)

    @property
    def least_size(self) -> int:
        """The fewest records on which there is anything to run."""
        return 0

    @property
    def is_sum(self) -> bool:
        """Whether neighbours differ in nothing but the noisy sum, which dividing by one number only post-processes."""
        return False

    # --- the same on this dataset --------------------------------------------------------------------------------------

    @property
    def rate(self) -> Fraction:
        """The sampling rate on this dataset, exactly."""
        return self.rate_at(self.dataset_size or 0)

    @property
    def q(self) -> float:
        """The sampling rate as a float, for the mathematics."""
        return float(self.rate)

    @property
    def needed_dimension(self) -> int:
        """n, or a complaint: the denominator's leak grows with it."""
        if self.dimension is None:
            raise InvalidInput("dimension", None, "given: the denominator's leak grows with it")
        return self.dimension

    @property
    def rate_with(self) -> float:
        """The rate at which the new record is sampled: that of D'."""
        return float(self.rate_at((self.dataset_size or 0) + 1))

    @final
    @property
    def noises(self) -> tuple[float, float]:
        """The noise multiplier that is really used on D and on D'."""
        size = self.dataset_size or 0
        return self.noise_at(size), self.noise_at(size + 1)

    @final
    @property
    def rate_moves(self) -> bool:
        """Whether the added record changes the sampling rate."""
        return self.q != self.rate_with

    @final
    @property
    def noise_moves(self) -> bool:
        """Whether the added record changes the noise multiplier."""
        return self.noises[0] != self.noises[1]

    @final
    @property
    def is_claimed_sum(self) -> bool:
        """Whether the run is the noisy sum at the very rate and noise that the accountant is told: what the claim is about."""
        told = self.told_rate(), self.noise_multiplier
        return self.is_sum and (ToldRate(self.rate_with), self.noises[1]) == told

    @final
    def fewer(self) -> Self | None:
        """The mechanism with one record taken away; None where that leaves nothing to run, or where N does not matter."""
        if not self.knows_size or self.dataset_size is None or self.dataset_size <= max(self.least_size, self._fewest):
            return None
        return self.resized(self.dataset_size - 1)

    @final
    def resized(self, size: int | None) -> Self:
        """The same on another number of records; None leaves it as it is."""
        return self if size is None else replace(self, dataset_size=size)  # type: ignore[type-var]

    def telling_size(self) -> int | None:
        """Another number of records that says more about the mechanism than this one, if there is one."""
        return None

    def steps_in(self, epochs: float) -> int:
        """The rounds that so many passes over the data take: 1/q each, unless whoever counts them does so otherwise."""
        by_rate = self.is_poisson or self.drawn is Sampling.FIXED_SIZE
        return math.ceil(epochs / self.q) if by_rate else math.ceil(epochs * self.batches_in_epoch)

    def constants_for_opacus(self) -> tuple[Fraction, int] | None:
        """(rate, denominator) to fix as constants where this is a run of Opacus; None where it is not known to be one."""
        return None

    # --- words and plain data ------------------------------------------------------------------------------------------

    def notes(self) -> tuple[Note, ...]:
        """What has to be said of this number of records and its neighbours."""
        return ()

    def rate_in_words(self) -> str:
        """The rate of this dataset."""
        return rate_text(self.rate)

    def denominator_in_words(self) -> str:
        """What this dataset is divided by."""
        return self.denominator

    def noise_in_words(self) -> tuple[str, str]:
        """The noise, and the option that says so."""
        return f"{self.noise_multiplier:g}", "--noise-multiplier"

    def batches_in_words(self) -> str:
        """How batches are drawn, of which size where they have one, and what becomes of a last one that is smaller."""
        size = self.size_of_batches
        of_size = "" if size is None else f" in batches of {size:,}"
        return f"{self.drawn.value}{of_size}{', a smaller last one dropped' if self.drops_last else ''}"

    @final
    def in_a_line(self, *, greek: bool = True) -> str:
        """`EASGM: N = 59,999, n = 26,010, q = 0.005, σ = 10`, without what was not given."""
        return f"{self.name.upper()}: {self.numbers(greek=greek)}"

    @final
    def numbers(self, *, greek: bool = True) -> str:
        """The same without the name."""
        sizes = [
            f"{symbol} = {value:,}"
            for symbol, value in (("N", self.dataset_size), ("n", self.dimension))
            if value is not None
        ]
        noise = f"{'σ' if greek else 'sigma'} = {self.noise_multiplier:g}"
        drawn = [] if self.is_poisson else [self.batches_in_words()]
        return ", ".join([*sizes, f"q = {rate_text(self.rate)}", noise, *drawn])

    @final
    def settings(self) -> dict[str, object]:
        """What was computed, for JSON: the exact rate as a fraction beside its float, then what only this kind has."""
        common = {
            "dataset_size": self.dataset_size,
            "dimension": self.dimension,
            "sample_rate": self.q,
            "sample_rate_exact": str(self.rate),
            "noise_multiplier": self.noise_multiplier,
            "sampling": self.drawn.value,
        }
        own = {name: value for name, value in self.to_plain().items() if name not in (*common, "name")}
        return common | {name: value for name, value in own.items() if value is not False}

    @final
    def to_plain(self) -> dict[str, Any]:
        """All that makes the value, as JSON; `from_plain` is its inverse."""
        said = [one for one in fields(self) if one.name not in self.unsaid or getattr(self, one.name) != one.default]  # type: ignore[arg-type]
        given = {one.name: getattr(self, one.name) for one in said}
        plain = {name: str(value) if isinstance(value, Fraction) else value for name, value in given.items()}
        plain |= {name: value.value for name, value in given.items() if isinstance(value, Enum)}
        return {"name": self.name, **{name: value for name, value in plain.items() if value is not None}}

    @final
    @classmethod
    def takes(cls, name: str) -> bool:
        """Whether this kind is made with a setting of that name."""
        return any(one.name == name for one in fields(cls))  # type: ignore[arg-type]


class Segment(NamedTuple):
    """So many rounds of one mechanism."""

    mechanism: Mechanism
    steps: int


KINDS: dict[str, type[Mechanism]] = {}
Registered = TypeVar("Registered", bound=type[Mechanism])


def register(kind: Registered) -> Registered:
    """Make a mechanism known by its name; a class decorator."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        raise InvalidInput("kind", kind, "a class of mechanisms", "docs/how-to/extend.md has one")
    if KINDS.setdefault(kind.name, kind) is not kind:
        raise InvalidInput("name", kind.name, "a name that no other mechanism has", "choose another")
    return kind


def need_mechanism(value: object) -> Mechanism:
    """`value` if it is a mechanism."""
    return of_kind("mechanism", value, Mechanism, "a mechanism", "e.g. SGM(sample_rate=0.01, noise_multiplier=1)")  # type: ignore[type-abstract]


def from_plain(plain: dict[str, Any]) -> Mechanism:
    """The mechanism that `to_plain` described."""
    settings = dict(plain)
    name = settings.pop("name", None)
    if name not in KINDS:
        raise InvalidInput("mechanism", name, f"one of {', '.join(KINDS)}")
    return KINDS[name](**settings)


class BatchDenominator(Mechanism):
    """A mechanism that divides by a function of the size of the batch."""

    # that function is the size itself, but for the empty batch: then sums over sizes may leave most of them out
    divides_by_size: ClassVar[bool] = False

    @abstractmethod
    def divisor(self, batches: Array) -> Array:
        """What batches of these sizes are divided by; above 0."""

    @final
    def one_noise(self) -> float:
        """The noise multiplier of both neighbours; Unproved where it, or their rate, is not the same."""
        need_same((self.q, self.rate_with), self.noises)
        return self.noises[0]

    @final
    def divisors(self, size: int, batches: Array) -> Array:
        """As `divisor`, whatever the number of records."""
        return self.divisor(batches)


class DatasetDenominator(Mechanism):
    """A mechanism that divides by a function of the number of records."""

    @abstractmethod
    def denominator_at(self, size: int) -> Fraction:
        """c(N), above 0; Undefined where there is none."""

    @final
    def divisors(self, size: int, batches: Array) -> Array:
        """c(N) for every batch."""
        return np.full(np.shape(batches), float(self.denominator_at(size)))

    @final
    def exact_divisor(self, size: int, batch: int) -> Fraction:
        """c(N), which is exact."""
        return self.denominator_at(size)

    @final
    @property
    def neighbours(self) -> Neighbours:
        """What moves between this dataset and the one with one more record; Undefined where one of them divides by 0."""
        size = self.dataset_size or 0
        return Neighbours(
            (self.q, self.rate_with), self.noises, (self.denominator_at(size), self.denominator_at(size + 1))
        )

    @final
    @property
    def is_sum(self) -> bool:
        """One rate, one noise and one denominator, and batches drawn as the noisy sum has them."""
        return self.is_poisson and not self.rate_moves and not self.noise_moves and self.neighbours.growth == 0


def need_same(rates: tuple[float, float], noises: tuple[float, float]) -> None:
    """Unproved where one record more moves the rate or the noise."""
    if rates[0] != rates[1]:
        raise Unproved(RateMoves(*rates))
    if noises[0] != noises[1]:
        raise Unproved(NoiseMoves(*noises))


@final
@dataclass(frozen=True)
class Neighbours:
    """Rate, noise and denominator, each on D and on D' = D plus one record."""

    rates: tuple[float, float]
    noises: tuple[float, float]
    denominators: tuple[Fraction, Fraction]

    @property
    def growth(self) -> Fraction:
        """(c' - c)/c, exactly."""
        before, after = self.denominators
        return (after - before) / before

    @property
    def log_shrink(self) -> float:
        """log(c/c'): what becomes of the gradients; exact near 0."""
        return -math.log1p(self.growth)

    @property
    def log_scale(self) -> float:
        """log s, what becomes of the noise: that of the gradients, and sigma'/sigma where the noise comes from N."""
        before, after = self.noises
        return self.log_shrink + math.log1p((after - before) / before)

    @property
    def paper_like(self) -> bool:
        """Whether nothing moves but the denominator, and that grows: what the paper's theorems are about."""
        return self.rates[0] == self.rates[1] and self.noises[0] == self.noises[1] and self.growth >= 0

    def big_k(self) -> float | None:
        """K with c'/c = (K+1)/K, None where both are divided by one number; Unproved where no proof covers what moves.

        K is N for EASGM and floor(N q) for FEASGM. Where it is None the mechanism *is* the noisy sum, post-processed.
        """
        need_same(self.rates, self.noises)
        if self.growth < 0:
            raise Unproved(DenominatorFalls(*map(float, self.denominators)))
        return float(1 / self.growth) if self.growth else None
