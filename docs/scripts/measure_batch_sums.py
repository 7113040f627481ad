"""Measure sums over batch sizes by Gauss nodes against full enumeration; prints the table of docs/numerics.md.

    python docs/scripts/measure_batch_sums.py

The error is that of the supporting line h(t) = beta(t) + e^t alpha(t), as a share of its largest possible value min(1, e^t),
at 2,000 thresholds that cover all tails from e^-60 up.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np

import noisymean as nm
from noisymean.numerics import binomial
from noisymean.numerics.inversion import solve_decreasing
from noisymean.tradeoff import TradeOff

ODDS = np.linspace(-60.0, 60.0, 41)


def main() -> None:
    """Print the table."""
    print(f"{'curve':<34} {'N':>8} {'n':>9} {'q':>6} {'sigma':>5} {'nodes':>5} {'sizes':>5} {'error':>7}")
    for title, make, (count, dimension, rate, sigma) in rows():
        used: list[int] = []
        gauss = built(make, lambda c, r, roughness, used=used: noted(used, binomial_nodes(c, r, roughness)))
        full = built(make, lambda c, r, roughness: binomial.enumerated(c, r))
        sizes = binomial.enumerated(count, rate).sizes.size
        nodes = "all" if max(used) == sizes else str(max(used))
        print(
            f"{title:<34} {count:>8} {dimension:>9} {rate:>6g} {sigma:>5g} {nodes:>5} {sizes:>5} {difference(gauss, full):>7.0e}"
        )


binomial_nodes = binomial.nodes


def rows() -> list[tuple[str, Callable[[], TradeOff], tuple[int, int, float, float]]]:
    """What to compare."""
    cases = [
        (nm.EASGM, 59_999, 26_010, 0.005, 10.0),
        (nm.EASGM, 59_999, 1_485_217, 0.005, 10.0),
        (nm.EASGM, 999_999, 10**9, 0.001, 0.8),
        (nm.FEASGM, 140_199, 26_010, 0.005, 10.0),
        (nm.FEASGM, 49_999, 2_700_000, 0.08, 0.1),
        (nm.ASGM, 59_999, 26_010, 0.7, 10.0),
        (nm.ASGM, 999_999, 10**9, 0.001, 0.8),
        (nm.EASGM, 190, 7, 0.277, 11.5),
        (nm.FEASGM, 20_566, 2, 0.0053, 34.0),
    ]
    result: list[tuple[str, Callable[[], TradeOff], tuple[int, int, float, float]]] = []
    for kind, count, dimension, rate, sigma in cases:
        mechanism = kind(dataset_size=count, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
        result.append(
            (f"guarantee, {kind.__name__}", lambda m=mechanism: nm.guarantee(m), (count, dimension, rate, sigma))
        )
    return result


def built(make: Callable[[], TradeOff], nodes: Callable[..., binomial.Nodes]) -> TradeOff:
    """The curve with another rule for its sums."""
    with patch.object(binomial, "nodes", nodes):
        return make()


def noted(used: list[int], nodes: binomial.Nodes) -> binomial.Nodes:
    """The same nodes; their number is written down."""
    used.append(nodes.sizes.size)
    return nodes


def difference(one: TradeOff, other: TradeOff) -> float:
    """Largest difference of the two supporting lines over min(1, e^t)."""
    where = [solve_decreasing(lambda t, s=s: np.subtract(*other.tails(t)[s]), ODDS) for s in (slice(2), slice(2, 4))]
    known = np.unique(np.concatenate(where))
    # fill in between: equally many thresholds in every gap
    thresholds = np.interp(np.linspace(0.0, known.size - 1.0, 2000), np.arange(known.size), known)
    lines = []
    for curve in (one, other):
        tails = curve.tails(thresholds)
        lines.append(np.exp(np.logaddexp(tails.q_below, thresholds + tails.p_above) - np.minimum(thresholds, 0.0)))
    return float(np.max(np.abs(lines[0] - lines[1])))


if __name__ == "__main__":
    main()
