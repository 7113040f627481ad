r"""What runs: one round of DP-SGD as a frozen value. No accounting in here.

One round on N records: sample a batch B at Poisson rate q, clip every gradient to norm C, sum, add N(0, sigma^2 C^2 I_n),
divide by a denominator, release n numbers. The four mechanisms differ in the denominator only:

    SGM      a constant of the user's        what accountants analyse
    EASGM    N q                             Abadi et al. 2016; Opacus 0.14-0.15 with poisson=True
    FEASGM   floor(N q)                      Opacus 1.x
    ASGM     |B|                             Bu et al. 2020; Opacus 0.12-0.13, optax, TF-Privacy

A denominator of 0 (N q = 0, or an empty batch) is replaced by 1, the paper's convention. `dataset_size` is always that of
the smaller neighbour: |D| = N, |D'| = N + 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import TypeAlias, assert_never, final

from noisymean.errors import InvalidInput, Undefined, Unproved, check_number

Rate: TypeAlias = Fraction | float | int | str | Decimal

LARGEST_DATASET = 10**15
LARGEST_DIMENSION = 10**15
SMALLEST_RATE = Fraction(1, 10**15)
LEAST_NOISE, MOST_NOISE = 1e-6, 1e9


class Adjacency(Enum):
    """What two neighbouring datasets may differ in."""

    ADD_REMOVE = "add-remove"
    ZERO_OUT = "zero-out"
    REPLACE_ONE = "replace-one"


@final
@dataclass(frozen=True)
class ToldRate:
    """The rate that an accountant is told. It is no sampling rate: Opacus may sample at 1/93 and tell 1/92."""

    value: float


def exact_rate(value: Rate) -> Fraction:
    """The rate the user wrote, as a fraction: 0.005, "0.005" and "1/200" are all 1/200 exactly.

    A binary float stands for its shortest decimal, because that is what was typed.

    >>> exact_rate(0.005) == exact_rate("1/200")
    True
    """
    try:
        if isinstance(value, Fraction | int) and not isinstance(value, bool):
            rate = Fraction(value)
        elif isinstance(value, str) and "/" in value:
            numerator, denominator = value.split("/")
            rate = _decimal(numerator) / _decimal(denominator)
        elif isinstance(value, str | Decimal):
            rate = _decimal(value)
        else:
            rate = _decimal(repr(float(value)))
    except (ValueError, TypeError, ZeroDivisionError, OverflowError, InvalidOperation):
        rate = Fraction(-1)
    if not SMALLEST_RATE <= rate <= 1:
        raise InvalidInput("sample_rate", value, "a number with 0 < sample_rate <= 1", 'write it as 0.01 or "1/100"')
    return rate


def _decimal(text: str | Decimal) -> Fraction:
    """The exact value of a decimal, refused before it is written out if that would take more than a line."""
    number = Decimal(text.strip() if isinstance(text, str) else text)
    if not number.is_finite() or abs(number.adjusted()) > 400:
        raise ValueError(text)
    return Fraction(number)


def _whole(name: str, value: object, least: int, most: int) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]
        exact = not isinstance(value, bool) and number == value
    except (TypeError, ValueError, OverflowError):
        number, exact = least, False
    if not exact or not least <= number <= most:
        raise InvalidInput(name, value, f"a whole number from {least} to {most:.0e}")
    return int(number)


class _Validated:
    """Checks the fields that every mechanism shares and brings them to their exact types."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        fix = object.__setattr__
        if not isinstance(self, OpacusLoader):
            fix(self, "sample_rate", self.rate)
        check_number(
            "noise_multiplier",
            self.noise_multiplier,
            least=LEAST_NOISE,
            most=MOST_NOISE,
            remedy="without noise nothing is private",
        )
        fix(self, "noise_multiplier", float(self.noise_multiplier))
        for name, least, most in (("dataset_size", 0, LARGEST_DATASET), ("dimension", 1, LARGEST_DIMENSION)):
            value = getattr(self, name)
            if value is not None or not isinstance(self, SGM):
                fix(self, name, _whole(name, value, least, most))

    @property
    def rate(self) -> Fraction:
        """The sample rate exactly as it was written."""
        return exact_rate(getattr(self, "sample_rate"))  # noqa: B009 - a field of every subclass

    @property
    def q(self) -> float:
        """The sample rate as a float, for the mathematics."""
        return float(self.rate)


@final
@dataclass(frozen=True, kw_only=True)
class SGM(_Validated):
    """Subsampled Gaussian mechanism: the noisy sum, or the sum over a constant. Neither N nor n matters.

    >>> SGM(sample_rate="1/100", noise_multiplier=1.0).q
    0.01
    """

    sample_rate: Rate
    noise_multiplier: float
    dataset_size: int | None = None
    dimension: int | None = None
    name = "sgm"


@final
@dataclass(frozen=True, kw_only=True)
class EASGM(_Validated):
    """Expected-averaged SGM: divides by N q (paper, Definition EASGM)."""

    dataset_size: int
    dimension: int
    sample_rate: Rate
    noise_multiplier: float
    name = "easgm"


@final
@dataclass(frozen=True, kw_only=True)
class ASGM(_Validated):
    """Batch-averaged SGM: divides by `|B|`, by 1 when B is empty (paper, Definition ASGM)."""

    dataset_size: int
    dimension: int
    sample_rate: Rate
    noise_multiplier: float
    name = "asgm"


@final
@dataclass(frozen=True, kw_only=True)
class FEASGM(_Validated):
    """Floor-based expected-averaged SGM: divides by floor(N q), by 1 when that is 0 (paper, Definition FEASGM).

    >>> FEASGM(dataset_size=140_199, dimension=1, sample_rate=0.005, noise_multiplier=10).floors
    (700, 701)
    """

    dataset_size: int
    dimension: int
    sample_rate: Rate
    noise_multiplier: float
    name = "feasgm"

    @property
    def floors(self) -> tuple[int, int]:
        """floor(N q) and floor((N+1) q) of the exact decimal."""
        return math.floor(self.dataset_size * self.rate), math.floor((self.dataset_size + 1) * self.rate)


@final
@dataclass(frozen=True)
class LoaderRun:
    """What Opacus 1.x makes of a data loader, in its own floating point."""

    loader_length: int
    sample_rate: float
    steps_per_epoch: int
    accountant_rate: ToldRate
    expected_batch_size: int


@final
@dataclass(frozen=True, kw_only=True)
class OpacusLoader(_Validated):
    """DP-SGD through Opacus 1.x's `make_private` on an ordinary data loader: q and the denominator both come from N and b.

    With L = ceil(N/b) (floor(N/b) if the loader drops its last batch) the sampler's rate is 1/L, it takes int(1/(1/L)) steps an
    epoch, and the optimizer divides by int(N * (1/steps)), everything in binary floating point, reproduced here to the bit.
    Adding a record can move L, and with it q.

    >>> OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1.0).runs
    ((0.01, 600), (0.009900990099009901, 594))

    With `make_private_with_epsilon` the noise comes from L as well: give `target_epsilon`, `target_delta` ("1/N" for the recipe
    of that name), `epochs` and the `accountant` of the engine instead of a noise multiplier, and the installed Opacus calibrates
    for each number of records.
    """

    dataset_size: int
    batch_size: int
    dimension: int
    noise_multiplier: float = math.nan
    drop_last: bool = False
    target_epsilon: float | None = None
    target_delta: float | str | None = None
    epochs: int | None = None
    accountant: str | None = None
    name = "opacus-loader"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset_size", _whole("dataset_size", self.dataset_size, 1, LARGEST_DATASET))
        most = self.dataset_size if self.drop_last else self.dataset_size + 1
        object.__setattr__(self, "batch_size", _whole("batch_size", self.batch_size, 1, most))
        told = {name: getattr(self, name) for name in ("target_epsilon", "target_delta", "epochs", "accountant")}
        if self.is_calibrated:
            self._calibrate(told)
        elif math.isnan(self.noise_multiplier):
            raise InvalidInput("noise_multiplier", None, "given", "or target_epsilon, target_delta and epochs")
        elif any(value is not None for value in told.values()):
            extra = next(name for name, value in told.items() if value is not None)
            raise InvalidInput(extra, told[extra], "left out without target_epsilon", "the noise is given")
        _Validated.__post_init__(self)

    def _calibrate(self, told: dict[str, object]) -> None:
        object.__setattr__(self, "accountant", self.accountant or "prv")
        check_number("target_epsilon", self.target_epsilon, above=0.0, most=1e6)  # type: ignore[arg-type]
        object.__setattr__(self, "epochs", _whole("epochs", self.epochs, 1, 10**9))
        if self.target_delta != "1/N":
            check_number("target_delta", told["target_delta"], above=0.0, most=1.0, remedy='or "1/N"')  # type: ignore[arg-type]
        least = self.batch_size if self.drop_last else 1
        near = [self.dataset_size + i for i in (0, 1, -1) if self.dataset_size + i >= least]
        if not math.isnan(self.noise_multiplier) and self.noise_multiplier not in map(self.noise, near):
            raise InvalidInput(
                "noise_multiplier", self.noise_multiplier, "left out with target_epsilon", "one of the two"
            )
        object.__setattr__(self, "noise_multiplier", self.noise(self.dataset_size))

    @property
    def is_calibrated(self) -> bool:
        """Whether the noise is computed from the number of records."""
        return self.target_epsilon is not None

    def noise(self, size: int) -> float:
        """The noise multiplier on `size` records."""
        if not self.is_calibrated:
            return self.noise_multiplier
        delta = 1.0 / size if self.target_delta == "1/N" else float(self.target_delta or 0.0)
        # Opacus is asked, which the mathematics does not import
        opacus = import_module("noisymean.opacus_noise")
        return float(
            opacus.noise_multiplier(
                self.target_epsilon, delta, self.run(size).sample_rate, self.epochs, self.accountant or "prv"
            )
        )

    def run(self, size: int) -> LoaderRun:
        """What a dataset of `size` records gives."""
        length = size // self.batch_size if self.drop_last else -(-size // self.batch_size)
        if length == 0:
            raise Undefined(
                "batch_size", self.batch_size, f"<= {size}", "a loader that drops its last batch has no other here"
            )
        rate = 1 / length
        steps = int(1 / rate)
        told = 1 / steps
        return LoaderRun(length, rate, steps, ToldRate(told), int(size * told))

    @property
    def runs(self) -> tuple[tuple[float, int], tuple[float, int]]:
        """(sample rate, denominator) on D and on D'."""
        before, after = self.run(self.dataset_size), self.run(self.dataset_size + 1)
        return (before.sample_rate, before.expected_batch_size), (after.sample_rate, after.expected_batch_size)

    @property
    def noises(self) -> tuple[float, float]:
        """Noise multiplier on D and on D'."""
        return self.noise_multiplier, self.noise(self.dataset_size + 1)

    @property
    def rate_moves(self) -> bool:
        """Whether the added record changes the sampling rate."""
        (before, _), (after, _) = self.runs
        return before != after

    @property
    def noise_moves(self) -> bool:
        """Whether the added record changes the noise multiplier."""
        before, after = self.noises
        return before != after

    @property
    def sample_rate(self) -> Fraction:
        """The sampler's rate on D, the exact value of its binary float."""
        return Fraction(self.run(self.dataset_size).sample_rate)

    @property
    def rate(self) -> Fraction:
        """As `sample_rate`."""
        return self.sample_rate


Mechanism: TypeAlias = SGM | EASGM | ASGM | FEASGM | OpacusLoader
Expected: TypeAlias = SGM | EASGM | FEASGM | OpacusLoader


def denominators(mechanism: Expected) -> tuple[int, int]:
    """What D and D' are divided by, up to a common factor; 0 is replaced by 1 but for Opacus, which really divides by it."""
    match mechanism:
        case SGM():
            return 1, 1
        case EASGM():
            if mechanism.dataset_size == 0:
                raise Undefined("dataset_size", 0, ">= 1 for EASGM", "an empty dataset has N*q = 0 to divide by")
            return mechanism.dataset_size, mechanism.dataset_size + 1
        case FEASGM():
            before, after = mechanism.floors
            return max(before, 1), max(after, 1)
        case OpacusLoader():
            (_, before), (_, after) = mechanism.runs
            if before == 0 or after == 0:
                raise Undefined(
                    "batch_size",
                    mechanism.batch_size,
                    "such that int(N/steps) >= 1",
                    f"at N={mechanism.dataset_size} Opacus divides by zero and releases non-finite gradients",
                )
            return before, after


def denominator_step(mechanism: Expected) -> int | None:
    """K when adding a record multiplies the denominator by (K+1)/K; None when the denominator stays.

    K is N for EASGM and floor(N q) for FEASGM. Where it is None the two datasets are divided by the same number, which is
    post-processing: the mechanism *is* SGM there.
    """
    before, after = denominators(mechanism)
    if isinstance(mechanism, OpacusLoader):
        _need_one_rate_and_noise(mechanism, after - before)
    return before if after > before else None


def _need_one_rate_and_noise(mechanism: OpacusLoader, step: int) -> None:
    """Complain where one record more moves what no bound covers."""
    if mechanism.rate_moves:
        before, after = (mechanism.run(mechanism.dataset_size + more).loader_length for more in (0, 1))
        raise Unproved(
            f"the sampling rate itself changes with the number of records (1/{before} to 1/{after}), and no bound covers that:"
            " fix the rate and the denominator as constants"
        )
    if step not in (0, 1):
        raise Unproved(
            f"one record more changes the denominator by {step}, and no bound covers that: fix it as a constant"
        )
    if mechanism.noise_moves:
        before_noise, after_noise = mechanism.noises
        raise Unproved(
            f"the noise multiplier changes with the number of records ({before_noise:.6g} to {after_noise:.6g}), and no bound"
            " covers that: give make_private a noise_multiplier of yours"
        )


def is_sum(mechanism: Mechanism) -> bool:
    """Whether both neighbours have one rate, one noise and one denominator: then it is the noisy sum, post-processed."""
    if isinstance(mechanism, ASGM):
        return False
    if isinstance(mechanism, OpacusLoader) and (mechanism.rate_moves or mechanism.noise_moves):
        return False
    before, after = denominators(mechanism)
    return before == after


def nearest_step(mechanism: FEASGM) -> int | None:
    """The dataset size nearest to N at which floor(N q) steps; None if there is none below the largest size."""
    rate, size = mechanism.rate, mechanism.dataset_size
    level = math.floor(size * rate)
    # floor((M+1) q) > floor(M q) exactly at M = ceil(j/q) - 1
    candidates = [math.ceil(j / rate) - 1 for j in (level - 1, level, level + 1, level + 2) if j >= 2]
    return min((m for m in candidates if m >= 1), key=lambda m: abs(m - size), default=None)


def told_rate(mechanism: Mechanism) -> ToldRate:
    """The rate that the user's accountant is told: for the claim, and for nothing else."""
    if isinstance(mechanism, OpacusLoader):
        return mechanism.run(mechanism.dataset_size).accountant_rate
    return ToldRate(mechanism.q)


def new_record_rate(mechanism: Expected) -> float:
    """The rate at which the new record is sampled: that of D'."""
    return mechanism.runs[1][0] if isinstance(mechanism, OpacusLoader) else mechanism.q


def noises(mechanism: Expected) -> tuple[float, float]:
    """The noise multiplier on D and on D'."""
    return mechanism.noises if isinstance(mechanism, OpacusLoader) else (mechanism.noise_multiplier,) * 2


def with_public_size(mechanism: Mechanism, adjacency: Adjacency) -> Mechanism:
    """The mechanism to analyse when neighbours have the same number of records.

    Under zero-out and replace-one N is public, so N q and floor(N q) are constants, dividing by them is post-processing,
    and EASGM and FEASGM are SGM (docs/theory.md, "Public size"). |B| is not a constant under either.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return mechanism
    match mechanism:
        case ASGM():
            raise Undefined(
                "adjacency",
                adjacency.value,
                "add-remove for ASGM",
                "its denominator |B| is random under every adjacency",
            )
        case SGM() | EASGM() | FEASGM() | OpacusLoader():
            return SGM(
                sample_rate=mechanism.rate,
                noise_multiplier=mechanism.noise_multiplier,
                dataset_size=mechanism.dataset_size,
                dimension=mechanism.dimension,
            )
        case other:
            assert_never(other)
