"""What an account costs, in numbers worked on and not in seconds: over all of the range that the command takes.

Two seconds of a core are what an account may take. A few settings take more and are listed in docs/numerics.md, "What is slow":
some rounds of next to no noise, whose losses are nearly atoms and go on the grid. So the limit for any one of them is what the
worst of those takes, and the number that is above two seconds is limited, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import pytest

import noisymean as nm
from any_run import any_run
from noisymean.compose.grid.spectrum import transform
from work import counted

# Microseconds of a core for each number of a kind, measured over 150 runs with `time.process_time`.
_COST = {"transformed": 0.06, "read off": 0.11, "closed": 0.8}
# Two seconds; the most that any run may take, a quarter above the worst of those 150; and the share that may be above two seconds.
_TWO_SECONDS, _MOST, _SHARE_ABOVE = 2e6, 1e7, 0.04


def work(number: int) -> float:
    # what is refused has its price, too
    with counted() as done, contextlib.suppress(nm.NoisymeanError):
        any_run(number).account()
    return sum(_COST[kind] * count for kind, count in done.items())


def assert_quick(numbers: Sequence[int]) -> None:
    each = {number: work(number) for number in numbers}
    assert {number: any_run(number) for number, one in each.items() if one > _MOST} == {}
    above = [number for number, one in each.items() if one > _TWO_SECONDS]
    assert len(above) <= max(_SHARE_ABOVE * len(each), 1.0), above


def test_any_account() -> None:
    assert_quick(range(12))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(3))
def test_any_of_many_accounts(block: int) -> None:
    assert_quick(range(50 * block, 50 * block + 50))


# Each of these once took 30 to 150 seconds.
ONCE_SLOW = {
    "few records": nm.EASGM(dataset_size=6, dimension=3, sample_rate="0.05", noise_multiplier=1.0),
    "nearly all of three": nm.EASGM(dataset_size=3, dimension=2, sample_rate="0.99", noise_multiplier=5.0),
    "two numbers": nm.EASGM(dataset_size=20, dimension=2, sample_rate="0.3", noise_multiplier=1.0),
    "a floor": nm.FEASGM(dataset_size=2499, dimension=4, sample_rate="0.0016", noise_multiplier=0.8),
    "no noise": nm.EASGM(dataset_size=9, dimension=10**12, sample_rate="0.005", noise_multiplier=0.001),
}
ROUNDS = {"few records": 3, "nearly all of three": 5, "two numbers": 3, "a floor": 2, "no noise": 100}


@pytest.mark.parametrize("name", ONCE_SLOW)
def test_what_once_was_slow(name: str) -> None:
    with counted() as done:
        nm.account(ONCE_SLOW[name], steps=ROUNDS[name], delta=1e-5)
    assert sum(_COST[kind] * count for kind, count in done.items()) < _TWO_SECONDS


def test_atoms_are_transformed_once() -> None:
    """One transform of twice the width, however many atoms there are and wherever they lie; it was one for each of 23 powers."""
    place = np.random.default_rng(3).uniform(-4e4, 4e4, 900)
    with counted() as done:
        transform(place, np.full(900, 1.0 / 900), 81_000, less_total=True)
    assert done["transformed"] == 2 * 81_000
