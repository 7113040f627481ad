"""The guarantee of a denominator that moves rises with T, falls with delta and sigma, and says which proof it is.

Shares of delta, blocks and proofs are chosen anew for every question; none of it may be seen.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import noisymean as nm
from noisymean.words import ProofName

# What a search for epsilon may leave.
ROUNDING = 1e-9

RUNS: list[Any] = [
    nm.EASGM(dataset_size=60_000, dimension=26_010, sample_rate="256/60000", noise_multiplier=1.0),
    nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0),
    nm.OpacusLoader(dataset_size=60_000, batch_size=600, dimension=26_010, noise_multiplier=1.0),
    nm.EASGM(dataset_size=1000, dimension=1000, sample_rate="0.05", noise_multiplier=1.0),
]
NAMES = ["easgm", "feasgm", "loader", "small"]
SEVERAL_ROUNDS = (1, 2, 3, 4, 5, 6, 8, 16, 50, 200, 1000, 1001, 1010, 3000, 10_000)
DELTAS = (1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 9e-6, 1e-5, 1.1e-5, 3e-5, 1e-4, 1e-3, 1e-2)


def guarantee(run: Any, steps: int, delta: float) -> float:
    told = nm.account(run, steps=steps, delta=delta, pair="larger").guarantee
    assert told.proofs
    assert told.epsilon is not None
    return float(told.epsilon)


def assert_rises(values: list[float]) -> None:
    for before, after in pairwise(values):
        assert after >= before * (1.0 - ROUNDING), values


@pytest.mark.parametrize("run", RUNS, ids=NAMES)
def test_the_answer_says_that_it_is_the_lift(run: Any) -> None:
    told = nm.account(run, steps=3000, delta=1e-5, pair="larger")
    assert told.guarantee.proofs == (ProofName.LIFT,)
    assert told.leakage.epsilon <= told.guarantee.epsilon


def test_the_answer_says_that_it_is_another_proof() -> None:
    """q = 1: one batch and one component, so that revealing it costs nothing."""
    every = nm.EASGM(dataset_size=100, dimension=10, sample_rate=1, noise_multiplier=5.0)
    assert nm.account(every, steps=10, delta=1e-5, pair="larger").guarantee.proofs == (ProofName.TRANSPARENT,)


@pytest.mark.parametrize("run", RUNS, ids=NAMES)
def test_more_rounds_leak_no_less(run: Any) -> None:
    assert_rises([guarantee(run, steps, 1e-5) for steps in (1000, 1010, 3000)])


@pytest.mark.parametrize("run", RUNS, ids=NAMES)
def test_a_larger_delta_asks_for_no_more(run: Any) -> None:
    assert_rises([guarantee(run, 3000, delta) for delta in (1e-4, 1.1e-5, 1e-5, 1e-8)])


@pytest.mark.parametrize("run", RUNS[:3], ids=NAMES[:3])
def test_more_noise_leaks_no_more(run: Any) -> None:
    sigma = run.noise_multiplier
    assert_rises([guarantee(replace(run, noise_multiplier=sigma * factor), 3000, 1e-5) for factor in (2.0, 1.01, 1.0)])


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=NAMES)
def test_from_one_round_to_many(run: Any) -> None:
    assert_rises([guarantee(run, steps, 1e-5) for steps in SEVERAL_ROUNDS])


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 4, 5, 100])
@pytest.mark.parametrize("run", RUNS, ids=NAMES)
def test_deltas_of_all_sizes(run: Any, steps: int) -> None:
    assert_rises([guarantee(run, steps, delta) for delta in reversed(DELTAS)])


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 5, 100])
@pytest.mark.parametrize("run", RUNS, ids=NAMES)
def test_noises_of_all_sizes(run: Any, steps: int) -> None:
    values = [
        guarantee(replace(run, noise_multiplier=sigma), steps, 1e-5) for sigma in (30.0, 10.0, 3.0, 1.5, 1.0, 0.8, 0.6)
    ]
    assert_rises(values)
