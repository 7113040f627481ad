"""The guarantees at sizes where 50 digits take minutes: golden points, made by regenerate.py without the package."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

import noisymean as nm
import oracles

CASES = json.loads(Path(__file__).with_name("curves.json").read_text())["cases"]
KINDS: dict[str, Any] = {"easgm": nm.EASGM, "asgm": nm.ASGM, "feasgm": nm.FEASGM}
NAMES = [f"{c['mechanism']}-N={c['dataset_size']}-n={c['dimension']}-q={c['sample_rate']}" for c in CASES]


def mechanism_of(case: dict[str, Any]) -> Any:
    return KINDS[case["mechanism"]](
        dataset_size=case["dataset_size"],
        dimension=case["dimension"],
        sample_rate=case["sample_rate"],
        noise_multiplier=float(case["noise_multiplier"]),
    )


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_guarantee_passes_through_the_golden_points(case: dict[str, Any]) -> None:
    alpha = np.array([float(point["alpha"]) for point in case["points"]])
    computed = nm.guarantee(mechanism_of(case))(alpha)
    for value, point in zip(computed.tolist(), case["points"], strict=True):
        assert abs(mpf(value) - mpf(point["beta"])) <= case["tolerance"], point


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_truth_lies_between_the_two_sides(case: dict[str, Any]) -> None:
    alpha = np.array([float(point["alpha"]) for point in case["points"]])
    curve = nm.guarantee(mechanism_of(case))
    for low, high, point in zip(curve.lower(alpha), curve.upper(alpha), case["points"], strict=True):
        assert mpf(float(low)) <= mpf(point["beta"]) <= mpf(float(high)), point


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_errors_at_a_threshold(case: dict[str, Any]) -> None:
    # alpha(t) itself, without any inversion
    thresholds = np.array([point["t"] for point in case["points"]])
    tails = nm.guarantee(mechanism_of(case)).tails(thresholds)
    golden = np.array([float(point["alpha"]) for point in case["points"]])
    np.testing.assert_allclose(np.exp(tails.p_above), golden, rtol=0.0, atol=case["tolerance"])


def test_golden_values_are_points_of_curves() -> None:
    for case in CASES:
        assert mpf(case["alias"]) < mpf(10) ** -30
        alpha, beta = ([mpf(point[key]) for point in case["points"]] for key in ("alpha", "beta"))
        assert all(0 < a < 1 and 0 < b < 1 and a + b <= 1 for a, b in zip(alpha, beta, strict=True))
        assert sorted(alpha) == alpha[::-1]
        assert sorted(beta) == beta


def test_one_golden_value_again_from_scratch() -> None:
    [case] = [c for c in CASES if c["dataset_size"] == 99 and c["mechanism"] == "easgm"]
    point = case["points"][1]
    rate, sigma = Fraction(case["sample_rate"]), case["noise_multiplier"]
    parts = oracles.expected_components(99, rate, sigma, 99)
    alpha, beta = oracles.at_float(oracles.mixture_point(case["dimension"], parts, point["t"], digits=25))
    assert alpha == float(point["alpha"])
    assert abs(beta - mpf(point["beta"])) < mpf(10) ** -20


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_golden_case_again_from_scratch(case: dict[str, Any]) -> None:
    """The middle point of each case, every batch size thinned differently than in the file."""
    point = case["points"][2]
    rate, sigma, count = Fraction(case["sample_rate"]), case["noise_multiplier"], case["dataset_size"]
    stride = max(1, case["stride"] * 3 // 4)
    with mp.workdps(35):
        if case["mechanism"] == "asgm":
            again = oracles.averaged_point(case["dimension"], count, rate, sigma, point["t"], stride=stride)
        else:
            step = count if case["mechanism"] == "easgm" else int(count * rate)
            parts = oracles.expected_components(count, rate, sigma, step, stride=stride)
            again = oracles.mixture_point(case["dimension"], parts, point["t"], digits=25)
        alpha, beta = oracles.at_float(again)
        assert abs(beta - mpf(point["beta"])) < mpf(10) ** -20
        assert alpha == float(point["alpha"])
