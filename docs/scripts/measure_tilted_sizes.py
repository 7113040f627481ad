"""How far the Gauss rules over batch sizes are off under a tilt: K of ASGM with its size revealed, against enumeration."""

from __future__ import annotations

import warnings

import numpy as np

from noisymean.numerics import binomial
from noisymean.size_revealed import SizeRevealed, size_revealed

TILTS = np.array([-24.0, -8.0, 0.5, 2.0, 4.0, 8.0, 16.0, 24.0, 30.0])
SETTINGS = [
    (60_000, 256 / 60_000, 1.0),
    (60_000, 256 / 60_000, 0.5),
    (1_000, 0.5, 0.5),
    (1_000, 0.9, 0.5),
    (1_600, 0.9, 0.5),
    (16_000, 0.01, 0.4),
    (7_000, 0.975, 1.0),
    (10**6, 0.9, 0.3),
]


def cumulants(nodes: binomial.Nodes, count: int, rate: float, sigma: float) -> np.ndarray:
    """K at the tilts."""
    odds = nodes.sizes / (count + 1.0 - nodes.sizes)
    joined = (1.0 - rate) * odds * nodes.weights
    curve = SizeRevealed(rate, 2.0 / sigma, nodes.sizes, odds, nodes.weights, joined, rate ** (count + 1), 0.0)
    return np.asarray(curve.cumulants().moments(TILTS).value)


def main() -> None:
    """One line for each setting and rule."""
    print("tilts", *(f"{tilt:g}" for tilt in TILTS))
    for count, rate, sigma in SETTINGS:
        exact = cumulants(binomial.enumerated(count, rate), count, rate, sigma)
        once = size_revealed(count, rate, sigma)
        rules = {
            "one round": binomial.Nodes(once.sizes, once.weights, 0.0),
            "many": binomial.tiltable(count, rate),
        }
        for name, rule in rules.items():
            off = cumulants(rule, count, rate, sigma) - exact
            print(f"N={count} q={rate:.4g} sigma={sigma} {name}, {rule.sizes.size} nodes:", *(f"{x:.0e}" for x in off))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
