"""mechanisms: the rate is the decimal that was written, the floor is the mathematical one, errors name value, range and remedy."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import noisymean as nm
from noisymean.mechanisms import exact_rate, with_public_size

KINDS = (nm.EASGM, nm.ASGM, nm.FEASGM)
GOOD: dict[str, Any] = {"dataset_size": 10, "dimension": 5, "sample_rate": 0.5, "noise_multiplier": 1.0}

SAME_RATE = [
    0.005,
    "0.005",
    "1/200",
    " 5e-3 ",
    "0.5/100",
    "2/400",
    Decimal("0.005"),
    Fraction(1, 200),
    np.float64(0.005),
]


class TestTheRate:
    @pytest.mark.parametrize("written", SAME_RATE, ids=repr)
    def test_is_what_was_written(self, written: Any) -> None:
        assert exact_rate(written) == Fraction(1, 200)
        assert nm.FEASGM(**{**GOOD, "sample_rate": written}).rate == Fraction(1, 200)

    @pytest.mark.parametrize(
        "written", [1, 1.0, "1", "1.0", "7/7", Fraction(1), Decimal(1), np.int64(1), np.float64(1.0)]
    )
    def test_one(self, written: Any) -> None:
        assert exact_rate(written) == 1

    def test_a_third_stays_a_third(self) -> None:
        assert nm.EASGM(**{**GOOD, "sample_rate": "1/3"}).rate == Fraction(1, 3)
        assert nm.EASGM(**{**GOOD, "sample_rate": "1/3"}).q == 1 / 3

    @pytest.mark.parametrize(
        "written",
        [
            0,
            0.0,
            -0.1,
            1.0000001,
            "0",
            "2",
            "-1/3",
            "4/3",
            "1/0",
            "a",
            "",
            "1/2/3",
            "nan",
            "inf",
            float("nan"),
            float("inf"),
        ]
        + [None, [0.1], {}, 1j, Decimal("NaN"), Decimal("Infinity"), Fraction(3, 2)],
        ids=repr,
    )
    @pytest.mark.parametrize("kind", [*KINDS, nm.SGM])
    def test_anything_else_is_refused_in_one_line(self, kind: type, written: Any) -> None:
        with pytest.raises(nm.InvalidInput) as caught:
            kind(**{**GOOD, "sample_rate": written})
        line = str(caught.value)
        assert line.startswith("sample_rate=")
        assert "0 < sample_rate <= 1" in line
        assert '"1/100"' in line
        assert "\n" not in line


class TestTheFloor:
    @pytest.mark.parametrize("written", SAME_RATE, ids=repr)
    @pytest.mark.parametrize(
        ("size", "floors"), [(140_198, (700, 700)), (140_199, (700, 701)), (140_200, (701, 701)), (140_399, (701, 702))]
    )
    def test_of_the_decimal(self, written: Any, size: int, floors: tuple[int, int]) -> None:
        assert nm.FEASGM(**{**GOOD, "dataset_size": size, "sample_rate": written}).floors == floors

    def test_binary_floating_point_would_get_it_wrong(self) -> None:
        # 0.29 * 100 is 28.999999999999996 as a double
        assert int(100 * 0.29) == 28
        assert nm.FEASGM(**{**GOOD, "dataset_size": 100, "sample_rate": 0.29}).floors[0] == 29

    def test_at_the_largest_sizes(self) -> None:
        mechanism = nm.FEASGM(**{**GOOD, "dataset_size": 10**15 - 1, "sample_rate": "0.000000000000001"})
        assert mechanism.floors == (0, 1)

    @pytest.mark.parametrize("rate", ["1/3", "0.1", "0.7", "1", "0.999"])
    def test_against_integers(self, rate: str) -> None:
        q = Fraction(rate)
        for size in range(50):
            floors = nm.FEASGM(**{**GOOD, "dataset_size": size, "sample_rate": rate}).floors
            assert floors == ((size * q.numerator) // q.denominator, ((size + 1) * q.numerator) // q.denominator)


class TestTheStep:
    def test_easgm_steps_by_its_size(self) -> None:
        assert nm.EASGM(**GOOD).neighbours.big_k() == 10

    def test_easgm_of_nothing_is_undefined(self) -> None:
        with pytest.raises(nm.Undefined, match=r"dataset_size=0: must be >= 1 for EASGM; "):
            nm.EASGM(**{**GOOD, "dataset_size": 0}).neighbours.big_k()

    def test_sgm_never_steps(self) -> None:
        assert nm.SGM(sample_rate=0.1, noise_multiplier=1.0).neighbours.big_k() is None

    def test_feasgm_steps_when_its_floor_does(self) -> None:
        def step(size: int, rate: str) -> float | None:
            return nm.FEASGM(**{**GOOD, "dataset_size": size, "sample_rate": rate}).neighbours.big_k()

        assert step(140_199, "0.005") == 700
        assert step(140_200, "0.005") is None
        # floor 0 -> 1: both divide by 1
        assert step(9, "0.1") is None
        assert step(0, "1") is None
        assert step(19, "0.1") == 1


class TestOtherFields:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        ("field", "value", "allowed"),
        [
            ("dataset_size", -1, "whole number from 0"),
            ("dataset_size", 2.5, "whole number"),
            ("dataset_size", "12", "whole number"),
            ("dataset_size", None, "whole number"),
            ("dataset_size", True, "whole number"),
            ("dataset_size", 10**16, "whole number"),
            ("dataset_size", float("nan"), "whole number"),
            ("dataset_size", float("inf"), "whole number"),
            ("dimension", 0, "whole number from 1"),
            ("dimension", -3, "whole number from 1"),
            ("dimension", 1.5, "whole number"),
            ("dimension", 10**16, "whole number"),
            ("noise_multiplier", 0.0, ">= 1e-06 and <= 1e\\+09"),
            ("noise_multiplier", -1.0, ">= 1e-06"),
            ("noise_multiplier", 1e10, "<= 1e\\+09"),
            ("noise_multiplier", float("nan"), ">= 1e-06"),
            ("noise_multiplier", float("inf"), ">= 1e-06"),
            ("noise_multiplier", "loud", "a number"),
            ("noise_multiplier", None, ">= 1e-06|a number"),
        ],
        ids=repr,
    )
    def test_bad_values_are_refused_in_one_line(self, kind: type, field: str, value: Any, allowed: str) -> None:
        with pytest.raises(nm.InvalidInput, match=rf"^{field}=.*: must be .*({allowed})") as caught:
            kind(**{**GOOD, field: value})
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, ValueError)
        if field == "noise_multiplier":
            assert "without noise nothing is private" in str(caught.value)

    def test_whole_floats_and_numpy_integers_are_whole(self) -> None:
        mechanism = nm.ASGM(dataset_size=np.int64(7), dimension=1e6, sample_rate=0.5, noise_multiplier=np.float32(2))  # type: ignore[arg-type]
        assert (mechanism.dataset_size, mechanism.dimension) == (7, 1_000_000)
        assert type(mechanism.dataset_size) is type(mechanism.dimension) is int
        assert type(mechanism.noise_multiplier) is float

    def test_sgm_needs_neither_size_nor_dimension(self) -> None:
        mechanism = nm.SGM(sample_rate=0.1, noise_multiplier=1.0)
        assert (mechanism.dataset_size, mechanism.dimension) == (None, None)
        with pytest.raises(nm.InvalidInput, match="dimension=0"):
            nm.SGM(sample_rate=0.1, noise_multiplier=1.0, dimension=0)

    def test_values_are_frozen_and_comparable(self) -> None:
        mechanism = nm.EASGM(**GOOD)
        with pytest.raises(AttributeError):
            mechanism.dataset_size = 3  # type: ignore[misc]
        assert mechanism == nm.EASGM(**{**GOOD, "sample_rate": "1/2"})
        assert hash(mechanism) == hash(nm.EASGM(**{**GOOD, "sample_rate": "1/2"}))
        assert mechanism != nm.ASGM(**GOOD)

    def test_only_keywords(self) -> None:
        with pytest.raises(TypeError):
            nm.EASGM(10, 5, 0.5, 1.0)  # type: ignore[call-arg]


class TestPublicSize:
    @pytest.mark.parametrize("adjacency", [nm.Adjacency.ZERO_OUT, nm.Adjacency.REPLACE_ONE])
    def test_expected_denominators_become_sgm(self, adjacency: nm.Adjacency) -> None:
        for kind in (nm.EASGM, nm.FEASGM):
            mechanism = with_public_size(kind(**GOOD), adjacency)
            assert mechanism == nm.SGM(**GOOD)
            assert mechanism.neighbours.big_k() is None

    def test_add_remove_changes_nothing(self) -> None:
        for kind in KINDS:
            assert with_public_size(kind(**GOOD), nm.Adjacency.ADD_REMOVE) == kind(**GOOD)
