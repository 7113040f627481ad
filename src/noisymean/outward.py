"""Bounds as text: rounded to the side on which they still are bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

from noisymean.written import plain

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


def lower_bound(value: float, spec: str = ".4g") -> str:
    """The same for people: in a sentence, a headline or a cell of a page.

    >>> lower_bound(34285.1), lower_bound(2.71e-07, ".2g")
    ('34,280', '2.7·10⁻⁷')
    """
    return plain(at_least(value, spec))


def upper_bound(value: float, spec: str = ".4g") -> str:
    """The same for people.

    >>> upper_bound(34285.1), upper_bound(2.71e-07, ".2g")
    ('34,290', '2.8·10⁻⁷')
    """
    return plain(at_most(value, spec))


def _shown(value: float, spec: str, side: int) -> str:
    text = format(value, spec)
    # a double is what is written for it: 0.1 is shown as 0.1
    if not math.isfinite(value) or side * (float(text) - value) >= 0.0:
        return text
    digits, shown = int(spec[1:-1]), Decimal(text)
    # one more in the last digit of the format, be it shown or a zero that was dropped
    last = -digits if spec.endswith("f") else shown.adjusted() - digits + (1 if spec.endswith("g") else 0)
    return format(float(shown + side * Decimal(1).scaleb(last)), spec)
