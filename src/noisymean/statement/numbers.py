"""Numbers of a statement as text: each rounded to its own side, none in the notation of machines."""

from __future__ import annotations

from noisymean.accounts import Account
from noisymean.outward import Rounding, at_least, at_most
from noisymean.words import BEYOND_DOUBLES, NONE_KNOWN
from noisymean.written import exactly, plain

FEW_DIGITS = ".2g"
_DIGITS = ".4g"


def number(value: float | None, side: Rounding, digits: str = _DIGITS, unknown: str = BEYOND_DOUBLES) -> str:
    """A bound for people, rounded to its side."""
    return unknown if value is None else plain(side(value, digits))


def symbol(answer: Account) -> str:
    """What is bounded."""
    return "ε" if answer.asked_delta else "δ"


def given(answer: Account) -> str:
    """`δ = 10⁻⁵`: what it is bounded at."""
    value = answer.claimed.delta if answer.asked_delta else answer.claimed.epsilon
    return f"{'δ' if answer.asked_delta else 'ε'} = {exactly(value or 0.0)}"


def claimed_number(answer: Account) -> str:
    """What accountants report, rounded up."""
    return number(answer.value(answer.claimed), at_most)


def leaked_number(answer: Account) -> str:
    """What certainly leaks, rounded down."""
    return number(answer.value(answer.leakage), at_least)


def guaranteed(answer: Account) -> float | None:
    """What is guaranteed; None where nothing is, or a delta of 1, which every program has."""
    value = answer.value(answer.guarantee)
    return None if value is None or (not answer.asked_delta and value >= 1.0) else value


def guaranteed_number(answer: Account) -> str:
    """The same, rounded up."""
    return number(guaranteed(answer), at_most, unknown=NONE_KNOWN)


def steps_in_words(count: int) -> str:
    """`1 noisy step`, `2 noisy steps`."""
    return f"{count:,} noisy step{'s' if count > 1 else ''}"
