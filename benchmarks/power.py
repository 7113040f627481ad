"""What a learned test shows of a shift, by the number of numbers that are released, beside the optimal test in the same run.

    python -m benchmarks.power

N(0, I) on D, N(0.88 u, I) on D' in n numbers: delta(0) = 0.340 whatever n and u are. u is one coordinate, all of them, or a
random direction; the test knows none of this. Where a function draws its noise alike on D and on D', from the same seed, a pilot
sees u itself; where it does not, u has to be found in the noise, which in n numbers is n times as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

import noisymean as nm
from benchmarks.table import publish
from noisymean.audit import audit
from noisymean.laws.closed import Gaussian
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Known

SHIFT, TRIALS = 0.88, 4_000
SIZES = (1, 5, 20, 24, 25, 30, 100, 1_000, 10_000)
KINDS = ("one coordinate", "all coordinates", "random direction", "random, the same noise")


def direction(kind: str, n: int) -> Array:
    if kind == "one coordinate":
        return np.eye(n)[-1]
    if kind == "all coordinates":
        return np.full(n, 1.0 / math.sqrt(n))
    found = np.random.default_rng(5).standard_normal(n)
    return np.asarray(found / np.linalg.norm(found))


def function(kind: str, n: int) -> Callable[[bool, np.random.Generator], Array]:
    """On D' it draws one number more, unless its noise is to be the same."""
    shift = SHIFT * direction(kind, n)

    def release(extra_record: bool, generator: np.random.Generator) -> Array:
        if not kind.endswith("the same noise"):
            generator.random(3 + extra_record)
        noise = generator.standard_normal(n)
        return noise + shift if extra_record else noise

    return release


def named(kind: str, n: int) -> str:
    return f"{kind.replace(' ', '_').replace(',', '')}_{n}"


# `audit` runs functions of a file by their names
for _n in SIZES:
    for _kind in KINDS:
        globals()[named(_kind, _n)] = function(_kind, _n)
    _known = function(KINDS[0], _n)
    _mechanism = nm.SGM(dataset_size=1, dimension=_n, sample_rate=1, noise_multiplier=1.0 / SHIFT)
    _rows = SHIFT * np.stack([np.zeros(_n), direction(KINDS[0], _n)])
    _known.known = Known(_mechanism, SHIFT, gradients=_rows)  # type: ignore[attr-defined]
    globals()[f"optimal_{_n}"] = _known


def shown(name: str, seeds: int) -> str:
    """delta(0), the audit's lower limit and what it saw, on average over a few seeds."""
    limits, seen = [], []
    for seed in range(1, seeds + 1):
        found = audit(f"{Path(__file__)}:{name}", seed=seed, trials=TRIALS).found
        limits.append(found.delta_lower)
        seen.append(1.0 - found.alpha.estimate - found.beta.estimate)
    return f"{np.mean(limits):.3f} ({np.mean(seen):.3f})"


def curve() -> list[list[str]]:
    rows = []
    for n in SIZES:
        seeds = 2 if n <= 30 else 1
        rows.append([f"{n:,}", *(shown(name, seeds) for name in (f"optimal_{n}", *(named(kind, n) for kind in KINDS)))])
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and publish."""
    publish(
        "power",
        f"A learned test by n: delta(0) of a shift, at least (and seen), of {Gaussian(SHIFT).advantage():.3f}, {TRIALS:,} trials",
        ["n", "likelihood ratio, told u", *(f"learned: {kind}" for kind in KINDS)],
        curve(),
    )


if __name__ == "__main__":
    main()
