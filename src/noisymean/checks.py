"""One value at a time, as the user wrote it: a number, a whole number, one name of a few, something of a kind; else InvalidInput.

Numbers are those of Python and numpy, Fraction and Decimal; True is none, and neither is a text. An int may be of any length.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

import numpy as np

from noisymean.choices import did_you_mean, written_as
from noisymean.errors import InvalidInput, as_double, check_number, is_number

Member = TypeVar("Member", bound=Enum)
Kind = TypeVar("Kind")


def real(
    name: str,
    value: object,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    above: float | None = None,
    remedy: str = "",
) -> float:
    """`value` as a float if it is one number inside [least, most] (and > above)."""
    number = _scalar(value)
    if not is_number(number):
        raise InvalidInput(name, value, "a number", remedy)
    check_number(name, number, least=least, most=most, above=above, remedy=remedy)  # type: ignore[arg-type]
    return as_double(number)


def whole(name: str, value: object, least: int, most: int) -> int:
    """`value` as an int if it is a whole number from `least` to `most`."""
    given: Any = _scalar(value)
    # as a double first: a Decimal of few digits may be an int of millions
    near = least <= as_double(given) <= most if is_number(given) else False
    number = int(given) if near else None
    if number is None or number != given or not least <= number <= most:
        raise InvalidInput(name, value, f"a whole number from {least} to {most:.0e}")
    return number


def seed_of(name: str, value: object) -> int:
    """`value` if a generator can be made of it."""
    number = _scalar(value)
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or not 0 <= number < 2**128:
        raise InvalidInput(name, value, "a whole number from 0 to 2^128 - 1")
    return int(number)


def switch(name: str, value: object) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(name, value, "True or False")
    return bool(value)


def member(name: str, value: object, kind: type[Member]) -> Member:
    """One of an enumeration, or its name, however that is written."""
    if isinstance(value, kind):
        return value
    known = [str(one.value) for one in kind]
    found = written_as(value, known) if isinstance(value, str) else None
    if found is None:
        meant = did_you_mean(value, known) if isinstance(value, str) else ""
        raise InvalidInput(name, value, f"one of {', '.join(known)}", meant)
    return kind(found)


def of_kind(name: str, value: object, kind: type[Kind], allowed: str, remedy: str = "") -> Kind:
    """`value` if it is an instance of that class."""
    if not isinstance(value, kind):
        raise InvalidInput(name, value, allowed, remedy)
    return value


def _scalar(value: object) -> object:
    """An array that is one number, as that number."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
