"""Bounds as text: rounded to the side on which they still are bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

Rounding: TypeAlias = Callable[[float, str], str]


def at_least(value: float, spec: str = ".6g") -> str:
    """A lower bound: the number that is shown is never above `value`.

    >>> at_least(29.5889), at_least(29.5889, ".4g")
    ('29.5889', '29.58')
    """
    return _shown(value, spec, -1)


def at_most(value: float, spec: str = ".6g") -> str:
    """An upper bound: the number that is shown is never below `value`.

    >>> at_most(31.52614), at_most(31.52614, ".2f")
    ('31.5262', '31.53')
    """
    return _shown(value, spec, 1)


SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain(text: str) -> str:
    """A number that was written for a machine, for people, to the same digits.

    >>> plain("3.428e+04"), plain("1e-05"), plain("2.5e+19"), plain("0.151")
    ('34,280', '10⁻⁵', '2.5·10¹⁹', '0.151')
    """
    value = Decimal(text)
    if not value.is_finite() or not value:
        return text
    power = value.adjusted()
    if -4 <= power < 6:
        return f"{value:,f}"
    digits = value.scaleb(-power).normalize()
    raised = f"10{str(power).translate(SUPERSCRIPT)}"
    return raised if digits == 1 else f"{digits}·{raised}"


def _shown(value: float, spec: str, side: int) -> str:
    text = format(value, spec)
    # a double is what is written for it: 0.1 is shown as 0.1
    if not math.isfinite(value) or side * (float(text) - value) >= 0.0:
        return text
    digits, shown = int(spec[1:-1]), Decimal(text)
    # one more in the last digit of the format, be it shown or a zero that was dropped
    last = -digits if spec.endswith("f") else shown.adjusted() - digits + (1 if spec.endswith("g") else 0)
    return format(float(shown + side * Decimal(1).scaleb(last)), spec)
