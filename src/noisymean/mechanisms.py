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
from typing import TypeAlias, final

from noisymean.errors import InvalidInput, Undefined, check_number

Rate: TypeAlias = Fraction | float | int | str | Decimal

LARGEST_DATASET = 10**15
LARGEST_DIMENSION = 10**15


class Adjacency(Enum):
    """What two neighbouring datasets may differ in."""

    ADD_REMOVE = "add-remove"
    ZERO_OUT = "zero-out"
    REPLACE_ONE = "replace-one"


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
            rate = Fraction(Decimal(numerator.strip())) / Fraction(Decimal(denominator.strip()))
        elif isinstance(value, str | Decimal):
            rate = Fraction(Decimal(value))
        else:
            rate = Fraction(Decimal(repr(float(value))))
    except (ValueError, TypeError, ZeroDivisionError, OverflowError, InvalidOperation):
        rate = Fraction(-1)
    if not 0 < rate <= 1:
        raise InvalidInput("sample_rate", value, "a number with 0 < sample_rate <= 1", 'write it as 0.01 or "1/100"')
    return rate


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

    sample_rate: Rate
    noise_multiplier: float

    def __post_init__(self) -> None:
        fix = object.__setattr__
        fix(self, "sample_rate", exact_rate(self.sample_rate))
        check_number("noise_multiplier", self.noise_multiplier, above=0.0, remedy="without noise nothing is private")
        fix(self, "noise_multiplier", float(self.noise_multiplier))
        for name, least, most in (("dataset_size", 0, LARGEST_DATASET), ("dimension", 1, LARGEST_DIMENSION)):
            value = getattr(self, name)
            if value is not None or not isinstance(self, SGM):
                fix(self, name, _whole(name, value, least, most))

    @property
    def rate(self) -> Fraction:
        """The sample rate exactly as it was written."""
        return exact_rate(self.sample_rate)

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
    """Batch-averaged SGM: divides by |B|, by 1 when B is empty (paper, Definition ASGM)."""

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


Mechanism: TypeAlias = SGM | EASGM | ASGM | FEASGM


def denominator_step(mechanism: SGM | EASGM | FEASGM) -> int | None:
    """K when adding a record multiplies the denominator by (K+1)/K; None when the denominator stays.

    K is N for EASGM and floor(N q) for FEASGM. Where it is None the two datasets are divided by the same number, which is
    post-processing: the mechanism *is* SGM there.
    """
    match mechanism:
        case SGM():
            return None
        case EASGM():
            if mechanism.dataset_size == 0:
                raise Undefined("dataset_size", 0, ">= 1 for EASGM", "an empty dataset has N*q = 0 to divide by")
            return mechanism.dataset_size
        case FEASGM():
            before, after = mechanism.floors
            # floors 0 and 1 are both a division by 1: the convention for an empty denominator
            return before if after > before and before > 0 else None


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
        case _:
            return SGM(
                sample_rate=mechanism.rate,
                noise_multiplier=mechanism.noise_multiplier,
                dataset_size=mechanism.dataset_size,
                dimension=mechanism.dimension,
            )
