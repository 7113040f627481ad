"""Guarantee over leakage at random runs of each mechanism, and at few records: the tables in docs/accountant.md, "How far apart".

python docs/scripts/measure_sandwich.py
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

import noisymean as nm
from noisymean.errors import NoisymeanError

RUNS = 40
FEW_RECORDS, FEW_STEPS = (1, 3, 10, 30, 100, 300, 1_000), (1, 3, 10)


def run(draw: np.random.Generator, name: str) -> float | None:
    """The ratio of one random run; None where one of the two is not known or the leakage is nothing."""

    def spread(low: float, high: float) -> float:
        return float(np.exp(draw.uniform(np.log(low), np.log(high))))

    size, dimension = int(spread(100, 1e6)), int(spread(1, 1e6))
    rate, sigma = Fraction(f"{spread(1e-4, 0.5):.3g}"), float(f"{spread(0.5, 50.0):.3g}")
    steps, delta = int(spread(1, 1e4)), float(f"{spread(1e-8, 1e-2):.2g}")
    if name == "feasgm":
        # the largest N below which the floor moves
        size = math.ceil((math.floor(size * rate) + 1) / rate) - 1
    kind = {"easgm": nm.EASGM, "feasgm": nm.FEASGM, "asgm": nm.ASGM}[name]
    mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    try:
        account = nm.account(mechanism, steps=steps, delta=delta, pair="larger")
    except NoisymeanError:
        return None
    leaked, guaranteed = account.leakage.epsilon, account.guarantee.epsilon
    return guaranteed / leaked if guaranteed is not None and leaked > 1e-3 else None


def few(name: str, dimension: int, rate: Fraction, steps: int) -> str:
    """The ratio at each number of records, sigma = 1 and delta = 1e-5."""
    ratios = []
    for size in FEW_RECORDS:
        kind = {"easgm": nm.EASGM, "asgm": nm.ASGM}[name]
        mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=1.0)
        account = nm.account(mechanism, steps=steps, delta=1e-5)
        leaked, guaranteed = account.leakage.epsilon, account.guarantee.epsilon
        ratios.append("none" if guaranteed is None else f"{guaranteed / leaked:.3f}")
    return " | ".join(ratios)


def main() -> None:
    """Print a line for each mechanism, and a table of few records."""
    for name in ("easgm", "feasgm", "asgm"):
        draw = np.random.default_rng(11)
        ratios = np.array([ratio for ratio in (run(draw, name) for _ in range(RUNS)) if ratio is not None])
        quantiles = "  ".join(f"{label} {np.quantile(ratios, share):.3g}" for label, share in SHARES)
        print(f"{name:7}{ratios.size:4} runs: {quantiles}")
    print("\n| few records |", *(f"N = {size:,} |" for size in FEW_RECORDS))
    print("|---|" + "---|" * len(FEW_RECORDS))
    for name, dimension, rate in (
        ("easgm", 2, "0.3"),
        ("easgm", 100, "0.1"),
        ("easgm", 10_000, "0.1"),
        ("asgm", 100, "0.1"),
    ):
        for steps in FEW_STEPS:
            print(
                f"| {name}, n = {dimension:,}, q = {rate}, T = {steps} | {few(name, dimension, Fraction(rate), steps)} |"
            )


SHARES = (("median", 0.5), ("90 %", 0.9), ("worst", 1.0))

if __name__ == "__main__":
    main()
