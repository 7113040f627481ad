"""errors: one line each, in a tree that callers can catch."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from noisymean.errors import (
    InvalidInput,
    MissingDependency,
    NoisymeanError,
    Undefined,
    Unproved,
    check_number,
    check_probability,
)
from noisymean.words import RateMoves


def test_the_tree() -> None:
    assert issubclass(InvalidInput, NoisymeanError)
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(Undefined, InvalidInput)
    assert issubclass(MissingDependency, NoisymeanError)
    assert issubclass(MissingDependency, ImportError)


def test_a_message_has_four_parts() -> None:
    assert str(InvalidInput("alpha", 2, "<= 1", "divide by 100")) == "alpha=2: must be <= 1; divide by 100"
    assert str(InvalidInput("alpha", 2, "<= 1")) == "alpha=2: must be <= 1"


def test_parts_are_fields() -> None:
    fault = InvalidInput("alpha", "two", "<= 1", "divide by 100")
    assert (fault.name, fault.value, fault.allowed, fault.remedy) == ("alpha", "'two'", "<= 1", "divide by 100")


class Particular(InvalidInput):
    """Made of something else than its fields."""

    def __init__(self, number: int) -> None:
        super().__init__("number", number, "another")


class Stubborn:
    """A value that does not leave its process."""

    def __reduce__(self) -> str:
        raise TypeError

    def __str__(self) -> str:
        return "stubborn"


@pytest.mark.parametrize(
    "fault",
    [
        InvalidInput("alpha", "two", "<= 1", "divide by 100"),
        Undefined("steps", Stubborn(), "few"),
        Unproved(RateMoves(0.1, 0.2)),
        Particular(3),
        MissingDependency("matplotlib", "plots"),
    ],
)
def test_faults_cross_from_one_process_to_another(fault: NoisymeanError) -> None:
    again = pickle.loads(pickle.dumps(fault))
    assert type(again) is type(fault)
    assert str(again) == str(fault)
    assert vars(again) == vars(fault)


@pytest.mark.parametrize("value", ["two\nlines", np.arange(1000), "x" * 500, [[1, 2], [3, 4]]])
def test_values_are_shown_on_one_short_line(value: object) -> None:
    line = str(InvalidInput("x", value, "short"))
    assert "\n" not in line
    assert len(line) < 100


def test_missing_dependency_names_the_extra() -> None:
    assert "pip install 'noisymean[plots]'" in str(MissingDependency("matplotlib", "plots"))


@pytest.mark.parametrize(
    ("value", "bounds", "allowed"),
    [
        (-1.0, {"least": 0.0}, ">= 0"),
        (3.0, {"least": 0.0, "most": 2.0}, ">= 0 and <= 2"),
        (0.0, {"above": 0.0}, ".*> 0"),
        (0.0, {"above": 0.0, "most": 5.0}, ".*> 0 and <= 5"),
        (np.nan, {}, "finite"),
        (np.inf, {"least": 0.0}, ">= 0"),
        ("one", {}, "a number"),
        (object(), {}, "a number"),
    ],
)
def test_numbers_outside_of_their_range(value: object, bounds: dict[str, float], allowed: str) -> None:
    with pytest.raises(InvalidInput, match=f"must be {allowed}"):
        check_number("x", value, **bounds)  # type: ignore[arg-type]


def test_the_first_bad_element_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^x=7\.0: must be >= 0 and <= 1$"):
        check_probability("x", [0.5, 7.0, 9.0])


def test_good_numbers_pass_unchanged() -> None:
    values = [0.0, 0.5, 1.0]
    assert check_probability("x", values) is values
    assert check_number("x", 3) == 3
