"""Widths of the claimed interval of the noisy sum at random runs: the table in docs/accountant.md, "How narrow it is"."""

from __future__ import annotations

import math

import numpy as np

from noisymean.compose.engine import Rounds
from noisymean.laws.closed import Gaussian
from noisymean.laws.subsampled import Subsampled
from noisymean.tradeoff import Side

RUNS = 400


def widths(seed: int, least_sigma: float, largest_sigma: float, least_delta: float) -> tuple[np.ndarray, int]:
    """Width over max(epsilon, 0.01) for both directions of each run, and how many were on the grid."""
    draw = np.random.default_rng(seed)
    found, on_grid = [], 0
    for _ in range(RUNS):
        rate = float(np.exp(draw.uniform(np.log(1e-8), 0.0)))
        sigma = float(np.exp(draw.uniform(np.log(least_sigma), np.log(largest_sigma))))
        steps, delta = (
            int(np.exp(draw.uniform(0.0, np.log(1e6)))),
            float(10.0 ** draw.uniform(np.log10(least_delta), -1.5)),
        )
        forward = Rounds(((steps, Subsampled(Gaussian(1.0 / sigma), rate)),))
        for direction in (forward, forward.inverse()):
            low, high = (direction.epsilon(delta, side) for side in (Side.BELOW, Side.ABOVE))
            found.append((high - low) / max(high, 0.01) if math.isfinite(high) else math.inf)
            on_grid += bool(direction._slow)
    return np.array(found), on_grid


def main() -> None:
    """Print one line."""
    found, on_grid = widths(1, 0.3, 50.0, 1e-12)
    shares = (("median", 0.5), ("99 %", 0.99), ("worst", 1.0))
    quantiles = "  ".join(f"{name} {np.quantile(found, share):.0e}" for name, share in shares)
    print(f"{found.size} intervals, {on_grid} on the grid: {quantiles}; {np.sum(found > 1e-3)} wider than 1e-3")


if __name__ == "__main__":
    main()
