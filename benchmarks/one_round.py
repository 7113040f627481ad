"""One round: all curves at 1,001 alpha, against the plain evaluation with scipy, and how the cost grows.

The plain evaluation does what one would write first: for each batch size and each threshold two calls of scipy's noncentral
chi-square distribution function, and a root search for each alpha. It is run for a few alpha and scaled to 1,001.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
from scipy.optimize import brentq
from scipy.special import chndtr

import noisymean as nm
from benchmarks.table import publish, seconds
from noisymean.numerics import binomial

ALPHA = np.linspace(0.0, 1.0, 1001)
SETTING = {"dataset_size": 59_999, "dimension": 1_485_217, "sample_rate": 0.005, "noise_multiplier": 10.0}


def plain_guarantee(mechanism: nm.EASGM, alpha: float) -> float:
    """Theorem EASGM_HIGH with scipy alone, every batch size in its own term."""
    count, n, q, sigma = mechanism.dataset_size, mechanism.dimension, mechanism.q, mechanism.noise_multiplier
    nodes = binomial.enumerated(count, q)
    s = count / (count + 1.0)
    a = 1.0 - s * s
    shifts = np.concatenate([nodes.sizes, count + nodes.sizes]) / ((count + 1.0) * sigma)
    weights = np.concatenate([(1.0 - q) * nodes.weights, q * nodes.weights])

    def errors(t: float) -> tuple[float, float]:
        r = (2.0 * s * s / a) * (shifts**2 / (2.0 * a) - n * np.log(s) - t)
        p = chndtr(r, n, (shifts / a) ** 2)
        beta = 1.0 - chndtr(r / s**2, n, (shifts * s / a) ** 2)
        return float(weights @ p), float(weights @ beta)

    root = brentq(lambda t: errors(t)[0] - alpha, -1.0, 1.0, xtol=1e-12)
    return errors(root)[1]


def import_seconds() -> tuple[float, float]:
    """Seconds to import what we stand on, and noisymean on top of it."""
    base = "import numpy, scipy.special, scipy.linalg, scipy.optimize, scipy.interpolate, scipy.fft"
    code = f"import time; {base}; t = time.perf_counter(); import noisymean; print(time.perf_counter() - t)"
    times = []
    for _ in range(3):
        start = time.perf_counter()
        extra = float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        times.append((time.perf_counter() - start - extra, extra))
    return min(times, key=lambda pair: pair[1])


def main() -> None:
    """Measure and publish."""
    rows = []
    reference = 0.0
    for kind in (nm.EASGM, nm.ASGM, nm.FEASGM):
        mechanism = kind(**{**SETTING, "dataset_size": 140_199 if kind is nm.FEASGM else 59_999})
        taken = seconds(lambda m=mechanism: nm.curve(m, ALPHA))
        reference = reference or taken
        rows.append(
            [f"all curves, {kind.__name__}, N={mechanism.dataset_size}", f"{taken:.3f} s", "limit 0.5 s, aim 0.1 s"]
        )
    easgm = nm.EASGM(**SETTING)
    few = np.array([0.05, 0.5])
    start = time.perf_counter()
    plain = np.array([plain_guarantee(easgm, float(a)) for a in few])
    scaled = (time.perf_counter() - start) / few.size * ALPHA.size
    ours = seconds(lambda: nm.guarantee(easgm).lower(ALPHA))
    gap = float(np.max(np.abs(plain - nm.guarantee(easgm)(few))))
    rows.append(
        [
            "guarantee alone, ours",
            f"{ours:.3f} s",
            f"plain scipy {scaled:.1f} s (2 alpha, scaled): {scaled / ours:.0f} times",
        ]
    )
    rows.append(["largest difference to plain scipy", f"{gap:.1e}", "its noncentral tails are good to about 1e-8"])
    for size in (10**6, 10**9):
        taken = seconds(lambda s=size: nm.curve(nm.EASGM(**{**SETTING, "dataset_size": s}), ALPHA))
        rows.append(
            [f"all curves, EASGM, N={size:.0e}", f"{taken:.3f} s", f"{taken / reference:.2f} times N=59,999 (limit 3)"]
        )
    for dimension in (10**3, 10**6, 10**9, 10**12):
        taken = seconds(lambda n=dimension: nm.curve(nm.EASGM(**{**SETTING, "dimension": n}), ALPHA))
        rows.append(
            [f"all curves, EASGM, n={dimension:.0e}", f"{taken:.3f} s", f"{taken / reference:.2f} times n=1,485,217"]
        )
    base, extra = import_seconds()
    rows.append(
        ["import noisymean beyond numpy and scipy", f"{extra:.3f} s", f"limit 0.3 s; numpy and scipy {base:.2f} s"]
    )
    publish("one_round", "One round, 1,001 values of alpha", ["what", "measured", "against"], rows)


if __name__ == "__main__":
    main()
