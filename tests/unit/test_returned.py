"""What foreign code returns, says and claims is taken as what it is, or refused; nothing of it is lost on the way."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from noisymean.errors import InvalidInput
from noisymean.laws.closed import EpsilonDelta, Gaussian
from noisymean.numerics.logs import Array
from noisymean.targets.claims import claim_of_others
from noisymean.targets.foreign import Misbehaved, call, message_of
from noisymean.targets.returned import NotNumbers, numbers_of
from noisymean.tradeoff import Tails, TradeOff


class Unsayable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even that")


class Endless(Exception):
    def __str__(self) -> str:
        return "x" * 10**6 + "\n"


class Leaves(BaseException):
    def __str__(self) -> str:
        raise SystemExit(0)


def raises(fault: BaseException) -> Any:
    def function() -> None:
        raise fault

    return function


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Unsayable(), "raised Unsayable"),
        (Leaves(), "raised Leaves"),
        (ValueError("two\nlines\x1b[31m"), "raised ValueError: two lines\\x1b[31m"),
        (SystemExit(Unsayable()), "called sys.exit(Unsayable)"),
    ],
)
def test_an_exception_that_cannot_say_what_it_is(fault: BaseException, said: str) -> None:
    with pytest.raises(Misbehaved) as caught:
        call(raises(fault))
    assert str(caught.value) == said


def test_what_an_exception_says_is_cut() -> None:
    assert len(message_of(Endless())) == 500


@pytest.mark.parametrize(
    ("returned", "numbers"),
    [
        ([1, 2.5], [1.0, 2.5]),
        ((True, False), [1.0, 0.0]),
        (np.array([0.1], np.float16), [float(np.float16(0.1))]),
        ([Fraction(1, 4), Decimal("0.5"), 3], [0.25, 0.5, 3.0]),
        (np.array([2**70, 1], object), [2.0**70, 1.0]),
        (np.array([1.5], np.longdouble), [1.5]),
    ],
)
def test_numbers_of_any_kind(returned: Any, numbers: list[float]) -> None:
    found = numbers_of(returned)
    assert found.dtype == np.float64
    assert found.tolist() == numbers


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ([1.0, 1 + 2j], "complex numbers"),
        (np.array([1 + 0j]), "complex numbers"),
        ([np.complex64(1), 2.0], "complex numbers"),
        (np.array([1.0, 2j], object), "complex numbers"),
        (np.array([np.complex128(1), Fraction(1, 2)], object), "complex numbers"),
        (np.ma.masked_array([1.0, 2.0], mask=[False, True]), "a masked array"),
        (["1", "2"], "a list that is not an array of numbers"),
        (b"12", "a bytes that is not an array of numbers"),
        (np.array(["1.5", 2.0], object), "not an array of numbers"),
        ([None, 1.0], "not an array of numbers"),
        (np.array(["2020-01-01"], "datetime64[D]"), "not an array of numbers"),
        (np.zeros(2, [("a", float)]), "not an array of numbers"),
    ],
)
def test_what_is_no_array_of_numbers(returned: Any, said: str) -> None:
    with pytest.raises(NotNumbers, match=said):
        numbers_of(returned)


def test_a_number_that_is_larger_than_any_double() -> None:
    with pytest.raises(Misbehaved, match="raised OverflowError"):
        numbers_of([10**400, 1])


class Crooked(TradeOff):
    """A curve of the user's own."""

    def __init__(self, tails: Any) -> None:
        self._tails = tails

    def tails(self, t: Array) -> Tails:
        found: Tails = self._tails(t)
        return found


def nothing(t: Array) -> Tails:
    return Tails(*(np.full(np.shape(t), np.nan) for _ in range(4)))


@pytest.mark.parametrize(
    "claim",
    [
        (float("nan"), 1e-5),
        (1.0, float("nan")),
        (-1.0, 1e-5),
        (1.0, -1e-5),
        (1.0, 1.5),
        (float("inf"), 0.0),
        (1.0,),
        (1.0, 1e-5, 0.0),
        (),
        "12",
        ("1", "2"),
        (1.0, None),
        (1 + 1j, 0.0),
        (True, False),
        (10**400, 0.0),
        1.0,
        {1.0: 2.0},
        lambda alpha: 1.0 - alpha,
        np.ones((2, 2)),
        Crooked(nothing),
        Crooked(lambda t: 1 / 0),
        Crooked(lambda t: Tails(*(np.zeros(np.shape(t)) for _ in range(4)))),
    ],
)
def test_a_claim_that_is_none(claim: Any) -> None:
    with pytest.raises(InvalidInput, match=r"mine\.py:release\.claim: must be|mine\.py:release\.claim'?: must be"):
        claim_of_others(claim, "mine.py:release.claim")


@pytest.mark.parametrize("claim", [(1.0, 1e-5), [1, 0], np.array([1.0, 0.0]), (Fraction(1), 0)])
def test_a_pair_however_it_is_written(claim: Any) -> None:
    assert claim_of_others(claim, "release.claim") in (EpsilonDelta(1.0, 1e-5), EpsilonDelta(1.0, 0.0))


def test_a_curve_is_itself() -> None:
    for curve in (Gaussian(0.0), Gaussian(3.0), EpsilonDelta(0.0, 0.0), EpsilonDelta(50.0, 1.0)):
        assert claim_of_others(curve, "release.claim") is curve
