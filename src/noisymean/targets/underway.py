"""What a process is at with foreign code, as numbers in memory that another process can read.

One that hangs or crashes says nothing any more. Whoever watches it sees how often something has begun or ended, what it is at,
and which run of which block that is: enough to name the trial, and to notice one that takes too long.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Of an array for a `Place`: what it is made of; and how long the key of a stream of random numbers may be.
_KEY = 4
SIZE, KIND = 6 + _KEY, "<i8"


class Stage(IntEnum):
    """What it is at."""

    STARTING = 0
    OURS = 1
    IMPORT = 2
    ATTRIBUTE = 3
    FIRST_RUN = 4
    TRIAL = 5


class Place(NamedTuple):
    """What has begun or ended so far; the stage; of a trial its block, side (0: on D, 1: on D'), run and stream."""

    begun: int
    stage: Stage
    block: int
    side: int
    run: int
    key: tuple[int, ...]


# of this process; by itself nobody reads it
_numbers: NDArray[Any] = np.zeros(SIZE, KIND)
_first = 0


def show_in(numbers: NDArray[Any]) -> None:
    """From now on all of it is written there."""
    global _numbers
    _numbers = numbers
    _at(Stage.OURS)


def place_in(numbers: NDArray[Any]) -> Place:
    """What a process has written."""
    begun, stage, block, side, run, length, *key = numbers.tolist()
    return Place(begun, Stage(stage), block, side, run, (*key[:length], run))


@contextlib.contextmanager
def doing(stage: Stage) -> Iterator[None]:
    """It is at that, and then at what it was at before."""
    before = Stage(int(_numbers[1]))
    _at(stage)
    try:
        yield
    finally:
        _at(before)


@contextlib.contextmanager
def runs(block: int, side: int, first: int, source: np.random.Generator) -> Iterator[None]:
    """Runs of a block on one dataset, from that one on; each has a child of that generator."""
    global _first
    _first = first
    sequence = source.bit_generator.seed_seq
    key = sequence.spawn_key if isinstance(sequence, np.random.SeedSequence) else ()
    _numbers[2:6] = block, side, first, len(key)
    _numbers[6 : 6 + len(key)] = key
    try:
        yield
    finally:
        _at(Stage.OURS)


def run(index: int) -> None:
    """The run with this index begins, counted from the first of `runs`."""
    _numbers[4] = _first + index
    _at(Stage.TRIAL)


def _at(stage: Stage) -> None:
    _numbers[1] = stage
    # last: whoever sees another count sees what it counts
    _numbers[0] += 1
