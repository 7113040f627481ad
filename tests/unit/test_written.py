"""Numbers as people write them: the same number, and nothing that looks like a machine's."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisymean.written import exactly, for_people, plain, power, unbroken

_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def read(text: str) -> Decimal:
    """What a person reads: the other way round, by its own rule."""
    raised = re.search("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+$", text)
    if raised is None:
        return Decimal(text.replace(",", ""))
    digits = text[: raised.start()].removesuffix("10").removesuffix("·")
    return Decimal({"": "1", "-": "-1"}.get(digits, digits)).scaleb(int(raised[0].translate(_LOWERED)))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("3.428e+04", "34,280"),
        ("1e-05", "10⁻⁵"),
        ("1.5e-200", "1.5·10⁻²⁰⁰"),
        ("1e+06", "10⁶"),
        ("999999", "999,999"),
        ("0.0001", "0.0001"),
        ("-2.5", "-2.5"),
        ("0", "0"),
        ("inf", "inf"),
    ],
)
def test_numbers_for_people_have_no_machine_notation(written: str, read: str) -> None:
    assert plain(written) == read


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_number_stays_what_it_is(value: float) -> None:
    written = exactly(value)
    assert float(read(written)) == value
    assert "e" not in written


def test_powers_of_ten() -> None:
    assert [power(one) for one in (-12, 0, 3)] == ["10⁻¹²", "10⁰", "10³"]


@pytest.mark.parametrize(
    ("terminal", "people"),
    [
        ("at least epsilon = 3.4e+04 at delta = 1e-05", "at least ε = 34,000 at δ = 10⁻⁵"),
        ("floor(N*q) steps from 700 to 701", "⌊N·q⌋ steps from 700 to 701"),
        ("60000 records, 1/100 and 599", "60,000 records, 1/100 and 599"),
        # names of things are no numbers
        ("jax-privacy 1e and opacus==0.15.0, seed cafe1e5", "jax-privacy 1e and opacus==0.15.0, seed cafe1e5"),
    ],
)
def test_words_for_a_terminal_become_words_for_people(terminal: str, people: str) -> None:
    assert for_people(terminal) == people


def test_no_line_ends_between_a_symbol_and_its_number() -> None:
    assert " = " not in unbroken("δ = 10⁻⁵ and ε ≥ 3")
    assert unbroken("δ = 10⁻⁵ and ε ≥ 3").split(" ") == [
        "δ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}10⁻⁵",
        "and",
        "ε\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}3",
    ]
