"""Bounds as text stay bounds, and stay close."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisymean.outward import at_least, at_most, lower_bound, upper_bound

SPECS = (".6g", ".4g", ".4f", ".2f", ".1f", ".3e")


@given(
    value=st.floats(min_value=-1e12, max_value=1e12, allow_nan=False).filter(lambda x: x == 0.0 or abs(x) > 1e-300),
    spec=st.sampled_from(SPECS),
)
def test_what_is_shown_is_on_its_side_and_next_to_the_value(value: float, spec: str) -> None:
    shown = at_least(value, spec), at_most(value, spec)
    assert float(shown[0]) <= value <= float(shown[1])
    low, high = map(Decimal, shown)
    # at most one unit of the last place between them
    digits = int(spec[1:-1])
    scale = max(abs(low), abs(high)).adjusted() if spec.endswith(("g", "e")) else 0
    last = -digits if spec.endswith("f") else scale - digits + (1 if spec.endswith("g") else 0)
    assert high - low <= Decimal(1).scaleb(last)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 25.0, 1e-5, 3.534])
def test_a_number_that_fits_is_shown_as_it_is(value: float) -> None:
    assert at_least(value) == at_most(value) == f"{value:g}"


def test_carries_and_what_is_no_number() -> None:
    assert at_most(9.999991) == "10"
    assert at_most(0.99995, ".4f") == "1.0000"
    assert at_least(-9.999999) == "-10"
    assert at_least(1e-7, ".4f") == "0.0000"
    assert at_most(1e-7, ".4f") == "0.0001"
    assert at_most(math.inf) == "inf"


def test_for_people_a_bound_is_on_the_same_side() -> None:
    assert [lower_bound(34_289.0), upper_bound(34_281.0)] == ["34,280", "34,290"]
    assert [lower_bound(1.99e-7, ".1g"), upper_bound(1.01e-7, ".1g")] == ["10⁻⁷", "2·10⁻⁷"]
