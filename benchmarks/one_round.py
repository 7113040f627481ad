"""One round, measured: seconds, accuracy against 50 digits, and what plain scipy takes for the same numbers.

Every figure of the table comes from one run of this file. Times are the best of several repetitions, with nothing cached
between them but what `import noisymean` leaves behind. Accuracy is the largest |difference| to golden points made with
mpmath, 50 digits, without the package (tests/golden/regenerate.py).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from mpmath import mpf
from scipy.optimize import brentq
from scipy.special import chndtr
from scipy.stats import binom

import noisymean as nm
from benchmarks.table import seconds

RESULTS = Path(__file__).with_name("results")
GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "curves.json"
KINDS: dict[str, Any] = {"easgm": nm.EASGM, "asgm": nm.ASGM, "feasgm": nm.FEASGM}
ALPHA = np.linspace(0.0, 1.0, 1001)
# alphas on which plain scipy is timed; its cost is the same for each, so the total is scaled up
SCIPY_ALPHA = (0.05, 0.3, 0.7)


def mechanism(
    kind: str, size: int = 59_999, dimension: int = 1_485_217, rate: str = "0.005", sigma: float = 10.0
) -> Any:
    return KINDS[kind](dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)


def guarantee_of(here: Any) -> object:
    return nm.guarantee(here).lower(ALPHA)


def golden_error(kind: str, size: int, dimension: int, rate: str) -> float | None:
    """Largest |guarantee - 50 digits| on the golden points of this setting; None if there are none."""
    for case in json.loads(GOLDEN.read_text())["cases"]:
        key = (case["mechanism"], case["dataset_size"], case["dimension"], case["sample_rate"])
        if key == (kind, size, dimension, rate):
            curve = nm.guarantee(mechanism(kind, size, dimension, rate, float(case["noise_multiplier"])))
            values = curve(np.array([float(point["alpha"]) for point in case["points"]]))
            differences = [mpf(v) - mpf(p["beta"]) for v, p in zip(values.tolist(), case["points"], strict=True)]
            return max(abs(float(d)) for d in differences)
    return None


class PlainScipy:
    """Theorem EASGM_HIGH / FEASGM as one would write it: batch sizes, scipy's noncentral chi-square, a root finder.

    Sizes of probability below 1e-18 are left out, or it would take an hour for each alpha.
    """

    def __init__(self, kind: str, size: int, dimension: int, rate: float, sigma: float) -> None:
        step = size if kind == "easgm" else int(size * rate + 1e-9)
        k = np.arange(size + 1)
        weights = binom.pmf(k, size, rate)
        k, weights = k[weights > 1e-18], weights[weights > 1e-18]
        self.weights = np.concatenate([(1.0 - rate) * weights, rate * weights])
        self.shift = np.concatenate([k, step + k]) / ((step + 1.0) * sigma)
        self.s = step / (step + 1.0)
        self.a = (2.0 * step + 1.0) / (step + 1.0) ** 2
        self.n = dimension

    def errors(self, t: float) -> tuple[float, float]:
        r = (self.shift**2 / (2.0 * self.a) - self.n * np.log(self.s) - t) * 2.0 * self.s**2 / self.a
        r = np.maximum(r, 0.0)
        alpha = chndtr(r, self.n, self.shift**2 / self.a**2)
        beta = 1.0 - chndtr(r / self.s**2, self.n, self.shift**2 * self.s**2 / self.a**2)
        return float(self.weights @ alpha), float(self.weights @ beta)

    def __call__(self, alpha: float) -> float:
        width = 40.0 * (1.0 / self.s**2 - 1.0) * np.sqrt(0.5 * self.n) + 40.0 * float(self.shift.max())
        t = brentq(lambda v: self.errors(v)[0] - alpha, -width - 1.0, width + 1.0, xtol=1e-13, rtol=1e-14)
        return self.errors(t)[1]


def import_seconds() -> dict[str, float]:
    """Import time of what the package stands on, and of the package on top of it, each in a fresh interpreter."""
    base = "import numpy, scipy.special, scipy.linalg, scipy.optimize, scipy.interpolate"
    times = {}
    for name, code in (("numpy + scipy", base), ("numpy + scipy + noisymean", f"{base}, noisymean")):
        timed = f"import time; s = time.perf_counter(); {code}; print(time.perf_counter() - s)"
        runs = [
            float(subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout)
            for _ in range(7)
        ]
        times[name] = min(runs)
    times["noisymean alone"] = times["numpy + scipy + noisymean"] - times["numpy + scipy"]
    return times


def measured() -> dict[str, Any]:
    results: dict[str, Any] = {
        "environment": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        }
    }
    curves = []
    for kind in KINDS:
        here = mechanism(kind)
        all_curves = seconds(partial(nm.curve, here, ALPHA))
        guarantee = seconds(partial(guarantee_of, here))
        larger = mechanism(kind, size=10**9 - 1 if kind == "feasgm" else 10**9)
        large_curves = seconds(partial(nm.curve, larger, ALPHA))
        row: dict[str, Any] = {
            "mechanism": kind,
            "all curves": all_curves,
            "guarantee": guarantee,
            "error": golden_error(kind, 59_999, 1_485_217, "0.005"),
            "all curves, N = 10^9": large_curves,
            "ratio to N = 59,999": large_curves / all_curves,
        }
        if kind != "asgm":
            plain = PlainScipy(kind, 59_999, 1_485_217, 0.005, 10.0)
            start = time.perf_counter()
            values = [plain(alpha) for alpha in SCIPY_ALPHA]
            scaled = (time.perf_counter() - start) / len(SCIPY_ALPHA) * ALPHA.size
            exact = nm.guarantee(here)(np.array(SCIPY_ALPHA))
            row["plain scipy, scaled"] = scaled
            row["times faster"] = scaled / guarantee
            row["plain scipy differs by"] = float(np.max(np.abs(np.array(values) - exact)))
        curves.append(row)
    results["1,001 alphas at N = 59,999, n = 1,485,217, q = 0.005, sigma = 10"] = curves
    dimensions = []
    for exponent in range(3, 13):
        here = mechanism("easgm", dimension=10**exponent)
        taken = seconds(partial(guarantee_of, here), 3)
        whole = seconds(partial(nm.curve, here, ALPHA), 2)
        dimensions.append({"dimension": 10**exponent, "guarantee": taken, "all curves": whole})
    results["EASGM at N = 59,999 in 10^3 to 10^12 dimensions"] = dimensions
    accuracy = []
    for case in json.loads(GOLDEN.read_text())["cases"]:
        setting = {key: case[key] for key in ("mechanism", "dataset_size", "dimension", "sample_rate")}
        error = golden_error(*(case[key] for key in ("mechanism", "dataset_size", "dimension", "sample_rate")))
        accuracy.append({**setting, "error": error, "allowed": case["tolerance"]})
    results["guarantee against 50 digits, five points each"] = accuracy
    results["import, seconds"] = [{"what": name, "seconds": value} for name, value in import_seconds().items()]
    return results


def shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1e}" if 0.0 < abs(value) < 1e-4 or abs(value) >= 1e4 else f"{value:.3g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def as_markdown(results: dict[str, Any]) -> str:
    environment = ", ".join(f"{name} {value}" for name, value in results["environment"].items())
    lines = ["# One round", "", f"`python -m benchmarks`; {environment}. Times in seconds, best of several runs.", ""]
    lines += ["Plain scipy is timed on three alphas and scaled to 1,001; errors are against mpmath, 50 digits.", ""]
    for title, rows in results.items():
        if title == "environment":
            continue
        columns = list(dict.fromkeys(key for row in rows for key in row))
        lines += [f"## {title}", "", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        lines += [f"| {' | '.join(shown(row.get(column)) for column in columns)} |" for row in rows] + [""]
    return "\n".join(lines)


def main() -> None:
    results = measured()
    text = as_markdown(results)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "one_round.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "one_round.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
