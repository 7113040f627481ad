"""Recomputes curves.json: points of the exact guarantees at sizes where 50 digits take too long for every test run.

    python tests/golden/regenerate.py          about ten minutes on two cores

Provenance of every number: mpmath, 50 digits, Bromwich integrals along a vertical line (tests/oracles.py), summed over batch
sizes. Above a few thousand records every h-th size is taken; `alias` is the relative error of that, kept with each case.
Nothing of the package is imported.
"""

from __future__ import annotations

import json
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
from mpmath import mp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import oracles

FILE = Path(__file__).with_name("curves.json")
# in deviations of the loss from its mean under P
THRESHOLDS = (-2.5, -1.0, 0.3, 1.5, 3.0)

# mechanism, N, n, q, sigma, largest error allowed
CASES: list[tuple[str, int, int, str, str, float]] = [
    ("easgm", 99, 10_000, "0.05", "1", 1e-10),
    ("easgm", 999, 100_000, "0.005", "1", 1e-10),
    ("easgm", 9_999, 100_000, "0.05", "0.5", 1e-10),
    ("asgm", 99, 1_000, "0.7", "10", 1e-10),
    ("asgm", 499, 100_000, "0.7", "2", 1e-10),
    ("feasgm", 1_399, 1_000, "0.05", "10", 1e-10),
    ("feasgm", 140_199, 100_000, "0.005", "10", 1e-10),
    ("easgm", 59_999, 1_485_217, "0.005", "10", 1e-8),
    ("asgm", 59_999, 1_485_217, "0.005", "10", 1e-8),
    ("asgm", 59_999, 1_485_217, "0.7", "10", 1e-8),
    ("feasgm", 59_999, 1_485_217, "0.005", "10", 1e-8),
    ("easgm", 1_000_000, 10**12, "0.01", "1", 1e-6),
    ("easgm", 10**9, 10**12, "0.001", "1", 1e-6),
    ("asgm", 10**9, 10**12, "0.001", "1", 1e-6),
    ("feasgm", 10**9 - 1, 10**12, "0.001", "1", 1e-6),
]


def step_of(mechanism: str, count: int, rate: Fraction) -> int:
    return count if mechanism == "easgm" else math.floor(count * rate)


def stride_of(count: int, rate: Fraction) -> int:
    # at a third of a deviation the alias is far below 50 digits
    deviation = math.sqrt(count * rate * (1 - rate))
    return max(1, int(deviation / 3)) if deviation > 15 else 1


def thresholds(components: list[oracles.Component], dimension: int) -> list[float]:
    """Spread over the loss's range under P, for the average component."""
    total = sum(c.weight for c in components)
    mu = sum(c.weight * c.shift for c in components) / total
    s = sum(c.weight * c.scale for c in components) / total
    c = 1 / s**2 - 1
    mean = -(dimension * (c - mpmath.log(1 + c)) + mu**2 / s**2) / 2
    deviation = mpmath.sqrt(dimension * c**2 / 2 + mu**2 / s**4)
    return [float(f"{float(mean + z * deviation):.5g}") for z in THRESHOLDS]


def computed(case: tuple[str, int, int, str, str, float]) -> dict[str, Any]:
    mp.dps = oracles.DIGITS
    mechanism, count, dimension, q, sigma, tolerance = case
    rate, stride = Fraction(q), stride_of(count, Fraction(q))
    if mechanism == "asgm":
        parts = oracles.averaged_components(count, rate, sigma, stride=stride)
    else:
        parts = oracles.expected_components(count, rate, sigma, step_of(mechanism, count, rate), stride=stride)
    points = []
    for t in thresholds(parts, dimension):
        if mechanism == "asgm":
            point = oracles.averaged_point(dimension, count, rate, sigma, t, stride=stride)
        else:
            point = oracles.mixture_point(dimension, parts, t)
        alpha, beta = oracles.at_float(point)
        points.append({"t": t, "alpha": repr(alpha), "beta": mpmath.nstr(beta, 30)})
    return {
        "mechanism": mechanism,
        "dataset_size": count,
        "dimension": dimension,
        "sample_rate": q,
        "noise_multiplier": sigma,
        "tolerance": tolerance,
        "stride": stride,
        "alias": mpmath.nstr(oracles.alias(count, rate, stride), 2) if stride > 1 else "0",
        "points": points,
    }


def main() -> None:
    with ProcessPoolExecutor(2) as pool:
        cases = list(pool.map(computed, CASES))
    FILE.write_text(json.dumps({"provenance": __doc__.strip().splitlines()[0], "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
