"""Auditors on the same scores: N(0, 1) against N(1, 1), 10,000 of each, 95 % confidence, delta = 1e-5.

The truth is epsilon = 4.377. Every limit is a lower one: closer is better, above is wrong. Over repeated draws, how often a limit
exceeds the truth is counted as well; at 95 % it may in one of twenty.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable

import numpy as np

from benchmarks.table import publish
from noisymean.audit.distinguishers.base import Judge, Labelled, first_column, spread
from noisymean.audit.estimate import Estimate, estimate
from noisymean.laws.closed import Gaussian
from noisymean.numerics.logs import Array

SCORES, CONFIDENCE, DELTA, DRAWS = 10_000, 0.95, 1e-5, 20
TRUTH = Gaussian(1.0).epsilon(DELTA)


def scores(seed: int) -> tuple[Array, Array]:
    """The log-likelihood ratio under each: x - 1/2."""
    x = np.random.default_rng(seed).standard_normal((2, SCORES))
    return x[0] - 0.5, x[1] + 0.5


# Thresholds as the likelihood-ratio distinguisher fixes them: by theory, here by a simulation of its own.
_JUDGE = Judge(first_column, 0.0, spread(*scores(1 << 20), main=0.0))


def ours(smaller: Array, larger: Array) -> Estimate:
    """All limits together."""
    trials = Labelled(smaller[:, None], larger[:, None])
    return estimate(trials, _JUDGE, confidence=CONFIDENCE, delta=DELTA)


def rules() -> dict[str, Callable[[Array, Array], float] | None]:
    """What each auditor calls its lower limit; None where it is not installed."""
    found: dict[str, Callable[[Array, Array], float] | None] = {
        "noisymean": lambda a, b: ours(a, b).epsilon_lower,
        "noisymean, if Gaussian": lambda a, b: ours(a, b).parametric.epsilon_lower,
    }
    names = ("Clopper-Pearson, Bonferroni", "Clopper-Pearson, split", "if Gaussian", "one run", "one run, f-DP")
    try:
        peer = importlib.import_module("jax_privacy.auditing")
    except ImportError:
        return {**found, **{f"jax-privacy, {name}": None for name in names}}
    error = 1.0 - CONFIDENCE

    def auditor(a: Array, b: Array) -> object:
        return peer.CanaryScoreAuditor(in_canary_scores=b, out_canary_scores=a)

    split = peer.Split(seed=0)
    asked: tuple[Callable[[Array, Array], float], ...] = (
        lambda a, b: auditor(a, b).epsilon_clopper_pearson(error, DELTA),  # type: ignore[attr-defined]
        lambda a, b: auditor(a, b).epsilon_clopper_pearson(error, DELTA, threshold_strategy=split),  # type: ignore[attr-defined]
        lambda a, b: auditor(a, b).epsilon_from_gdp(error, DELTA),  # type: ignore[attr-defined]
        lambda a, b: auditor(a, b).epsilon_one_run(error, DELTA),  # type: ignore[attr-defined]
        lambda a, b: auditor(a, b).epsilon_one_run_fdp(error, DELTA),  # type: ignore[attr-defined]
    )
    return {**found, **{f"jax-privacy, {name}": ask for name, ask in zip(names, asked, strict=True)}}


def compared() -> list[list[str]]:
    """Mean limit, how often it is above the truth, time as a multiple of ours."""
    draws = [scores(seed) for seed in range(DRAWS)]
    rows, first = [], 0.0
    for name, ask in rules().items():
        if ask is None:
            rows.append([name, "not installed", "", ""])
            continue
        ask(*draws[0])
        start = time.perf_counter()
        limits = [float(ask(*draw)) for draw in draws]
        taken = (time.perf_counter() - start) / DRAWS
        first = first or taken
        above = sum(limit > TRUTH for limit in limits)
        rows.append(
            [name, f"{np.mean(limits):.2f}", f"{above} of {DRAWS}", f"{taken / first:.3g} ({1e3 * taken:.2f} ms)"]
        )
    return rows


def main() -> None:
    """Measure and publish."""
    publish(
        "auditors",
        f"Auditors on the same scores, N(0, 1) against N(1, 1), truth epsilon = {TRUTH:.3f}",
        ["auditor", "epsilon, lower limit", "above the truth", "time / ours"],
        compared(),
    )


if __name__ == "__main__":
    main()
