"""Sampling rates as they were written: fractions, not floating point."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeAlias, final

from noisymean.errors import InvalidInput, is_number

Rate: TypeAlias = Fraction | float | int | str | Decimal

SMALLEST_RATE = Fraction(1, 10**15)


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
        if isinstance(value, Fraction | int) and is_number(value):
            rate = Fraction(value)
        elif isinstance(value, str) and "/" in value:
            numerator, denominator = value.split("/")
            rate = _decimal(numerator) / _decimal(denominator)
        elif isinstance(value, str | Decimal):
            rate = _decimal(value)
        else:
            rate = _decimal(repr(float(value))) if is_number(value) else Fraction(-1)
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
