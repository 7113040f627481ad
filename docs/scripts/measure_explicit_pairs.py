"""Measure the spline and the trapezoidal rule of noisymean.laws.on_a_line; prints the two tables of docs/numerics.md.

    python docs/scripts/measure_explicit_pairs.py

Errors are those of the supporting line h(t) = beta(t) + e^t alpha(t), as a share of min(1, e^t).
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

import noisymean as nm
from noisymean.laws import on_a_line
from noisymean.laws.across import TabulatedPair
from noisymean.laws.gaussian import gaussian_pair
from noisymean.leakage import explicit_pairs
from noisymean.numerics.inversion import solve_decreasing
from noisymean.tradeoff import TradeOff

ODDS = np.linspace(-36.0, 36.0, 73)
DIMENSIONS = (1, 2, 6, 20, 63, 64, 99, 300, 26_009, 10**6)
STEPS = (1, 4, 100, 700, 60_000)


def main() -> None:
    """Print both tables."""
    print("spline:", *(f"K={step:<7}" for step in STEPS))
    for dimension in DIMENSIONS:
        errors = []
        for step in STEPS:
            log_scale = -float(np.log1p(1.0 / step))
            exact = gaussian_pair(dimension, 0.0, log_scale=log_scale)
            errors.append(difference(TabulatedPair(dimension, log_scale), exact))
        print(f"{dimension:7d}", *(f"{error:9.0e}" for error in errors))
    print("trapezoidal rule, step against step/3:")
    for count, dimension, rate, sigma in ((205, 415_048, 0.0155, 0.106), (13, 71, 0.151, 4.5), (700, 26_010, 0.3, 1.0)):
        mechanism = nm.EASGM(dataset_size=count, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
        finer = patch.object(on_a_line, "_smooth_step", lambda *a, own=on_a_line._smooth_step: own(*a) / 3.0)
        most = on_a_line._MOST_NODES
        with patch.object(on_a_line, "_MOST_NODES", 1 << 13):
            coarse = [pair.curve for pair in explicit_pairs(mechanism)]
            with finer:
                fine = [pair.curve for pair in explicit_pairs(mechanism)]
        # with more nodes than `most` the library would use cells
        errors = [difference(one, other) for one, other in zip(coarse, fine, strict=True) if one.losses.size <= most]
        print(f"N={count} n={dimension} q={rate} sigma={sigma}: {max(errors):.0e}")


def difference(one: TradeOff, other: TradeOff) -> float:
    """Largest difference of the two supporting lines over min(1, e^t)."""
    where = [solve_decreasing(lambda t, s=s: np.subtract(*other.tails(t)[s]), ODDS) for s in (slice(2), slice(2, 4))]
    known = np.unique(np.concatenate(where))
    thresholds = np.interp(np.linspace(0.0, known.size - 1.0, 3000), np.arange(known.size), known)
    thresholds = thresholds[np.abs(thresholds) < 600.0]
    lines = []
    for curve in (one, other):
        tails = curve.tails(thresholds)
        lines.append(np.exp(np.logaddexp(tails.q_below, thresholds + tails.p_above) - np.minimum(thresholds, 0.0)))
    return float(np.max(np.abs(lines[0] - lines[1]), initial=0.0))


if __name__ == "__main__":
    main()
