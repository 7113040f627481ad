"""The text of an option as a number. Range checks that the library makes itself are left to it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar

from noisymean.choices import written_as
from noisymean.cli.complaints import refused

Choice = TypeVar("Choice", bound=Enum)

# Lengths are bounded so that a hostile number, such as 1e999999999, is refused instead of being written out.
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}(_[0-9]{1,40}){0,20}", re.ASCII)
_WITH_EXPONENT = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{0,40})?[eE]\+?[0-9]{1,2}", re.ASCII)
_DECIMAL = r"\s*[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?\s*"
_RATE = re.compile(rf"{_DECIMAL}(/{_DECIMAL})?", re.ASCII)


def whole(name: str, text: str) -> int:
    """60000, 60_000, 6e4 or 1.5e3: a whole number however it is written, and nothing that needs rounding."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if _WITH_EXPONENT.fullmatch(text):
        value = Decimal(text)
        if value == value.to_integral_value():
            return int(value)
    raise refused(name, text)


def number(name: str, text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        raise refused(name, text) from None
    if not math.isfinite(value):
        raise refused(name, text)
    return value


def rate(name: str, text: str) -> str:
    """A decimal or a fraction of decimals, still as text: its exact value is the library's to read."""
    if not _RATE.fullmatch(text):
        raise refused(name, text)
    return text


def probabilities(name: str, text: str) -> list[float]:
    """0.01,0.1,0.5: numbers from 0 to 1."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise refused(name, text) from None
    if not all(0.0 <= value <= 1.0 for value in values):
        raise refused(name, text)
    return values


def choice(name: str, text: str, allowed: type[Choice]) -> Choice:
    """One of the values of an enumeration, however it is written."""
    found = written_as(text, [str(one.value) for one in allowed])
    if found is None:
        raise refused(name, text)
    return allowed(found)


def read(**texts: str | None) -> dict[str, Any]:
    """The values of these options by their Python names; what was not typed is left out."""
    return {name: _READERS[name](name, text) for name, text in texts.items() if text is not None}


_READERS: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(("dataset_size", "dimension", "batch_size", "steps"), whole),
    **dict.fromkeys(("noise_multiplier", "max_grad_norm", "delta", "epsilon"), number),
    "sample_rate": rate,
}
