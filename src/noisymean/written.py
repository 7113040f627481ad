"""Numbers and symbols as people write them: 10⁻⁵ for 1e-05, 34,280 for 3.428e+04, ε for epsilon, ⌊N·q⌋ for floor(N*q).

Which digits are shown is not decided here: a bound is rounded to its own side first (`outward`), what comes in is kept digit for
digit. A number that somebody may copy into a command stays in the notation of machines; everything else that is read goes
through here. Terminals that know ASCII only are given 10^-5 (`cli.encoding`).
"""

from __future__ import annotations

import re
from decimal import Decimal

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NO_BREAK = "\N{NO-BREAK SPACE}"
# Between these powers of ten a number is written out.
_LEAST_POWER, _MOST_POWER = -4, 6
_MACHINE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?e[+-]?\d+")
_LONG = re.compile(r"(?<![\w.,])\d{5,18}(?![\w.]*\d)")
_GREEK = {"epsilon": "ε", "delta": "δ", "sigma": "σ"}
_GREEK_NAMES = re.compile(rf"\b({'|'.join(_GREEK)})\b")
_EQUAL = re.compile(r" ([=<>≤≥≈]) ")


def power(exponent: int) -> str:
    """A power of ten.

    >>> power(-5), power(19)
    ('10⁻⁵', '10¹⁹')
    """
    return f"10{str(exponent).translate(_RAISED)}"


def plain(text: str) -> str:
    """A number that was written for a machine, for people, to the same digits.

    >>> plain("3.428e+04"), plain("1e-05"), plain("2.5e+19"), plain("0.151"), plain("34280")
    ('34,280', '10⁻⁵', '2.5·10¹⁹', '0.151', '34,280')
    """
    value = Decimal(text)
    if not value.is_finite() or not value:
        return text
    exponent = value.adjusted()
    if _LEAST_POWER <= exponent < _MOST_POWER:
        return f"{value:,f}"
    digits = value.scaleb(-exponent).normalize()
    return power(exponent) if digits == 1 else f"{digits}·{power(exponent)}"


def exactly(value: float) -> str:
    """A number that somebody typed or that is no bound, with all digits that it has.

    >>> exactly(1e-05), exactly(2.5e-07), exactly(34280), exactly(0.30000000000000004)
    ('10⁻⁵', '2.5·10⁻⁷', '34,280', '0.30000000000000004')
    """
    short = f"{value:.6g}"
    return plain(short if float(short) == value else repr(value))


def short(value: float, digits: int = 6) -> str:
    """A number that is no bound, to so many digits: for headlines, where a quotient would fill the line.

    >>> short(1e-05), short(1 / 60_000), short(73_054.3)
    ('10⁻⁵', '1.66667·10⁻⁵', '73,054.3')
    """
    return plain(f"{value:.{digits}g}")


def typeset(words: str) -> str:
    """A denominator, or a product, as a page shows it.

    >>> typeset("floor(N*q)")
    '⌊N·q⌋'
    """
    return re.sub(r"floor\((.*?)\)", r"⌊\1⌋", words).replace("*", "·")


def for_people(text: str) -> str:
    """Words of ours that were written for a terminal: Greek letters, powers of ten and separators instead.

    >>> for_people("calibrated to epsilon = 3 at delta = 1e-05; floor(N*q) = 140199")
    'calibrated to ε = 3 at δ = 10⁻⁵; ⌊N·q⌋ = 140,199'
    """
    greek = _GREEK_NAMES.sub(lambda found: _GREEK[found[0]], text)
    with_powers = _MACHINE.sub(lambda found: plain(found[0]), typeset(greek))
    return _LONG.sub(lambda found: f"{int(found[0]):,}", with_powers)


def unbroken(text: str) -> str:
    """For pages: no line ends between a symbol and its number.

    >>> unbroken("at δ = 10⁻⁵") == "at δ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}10⁻⁵"
    True
    """
    return _EQUAL.sub(rf"{_NO_BREAK}\1{_NO_BREAK}", text)
