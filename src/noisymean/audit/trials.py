r"""The trials of an audit, in blocks, each a pure function of (plan, block): any number of workers gives the same bits.

Block b of seed S draws from SeedSequence(S, spawn_key=(b, k)): k = 0 runs on D, k = 1 on D', k = 2 and 3 are the distinguisher's
own coins. Half of the runs are on D and half on D' (the odd one on D). What is kept of a run is its row of features.

A pilot (`stages`) draws from SeedSequence(S, spawn_key=(PILOT, b, 0)) for both datasets: nothing of it comes again in a trial.
Where the pair of datasets is still to be chosen among K, block b runs on pair b mod K; what fails there is out of the choice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np

from noisymean.audit import distinguishers
from noisymean.audit.distinguishers import Distinguisher, Labelled
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.numerics.logs import Array
from noisymean.targets import registry, underway
from noisymean.targets.protocol import Besides, Neighbour, Target, TrialFault, Undecided

MOST_TRIALS = 10**9
# What a seed means. Changes when the same plan would give other numbers.
STREAM = 1
# Of the seed's streams, that of pilots; blocks use the small numbers.
PILOT = 2**31 + 1
# Numbers released in a block, and how many of them are held at once.
_BLOCK_NUMBERS, _HELD_NUMBERS = 1 << 24, 1 << 23
_MOST_PER_BLOCK = 500
# Targets that are not ours may be slow: finished work is kept more often.
_MOST_PER_FOREIGN_BLOCK = 40
# A trial of a real training takes a fraction of a second for each of its steps.
_MOST_PER_TRAINING_BLOCK = 4
_LEAST_BLOCKS_TO_LEARN = 20
_ONE_BY_ONE = ("callable", "runnable", "opacus-training")


class FaultyTrial(NoisymeanError):
    """The target misbehaved; says in which trial, and how to run that trial again."""


@final
@dataclass(frozen=True)
class Plan:
    """All that decides the features of every trial."""

    target: str
    distinguisher: str
    seed: int
    trials: int
    per_block: int

    def __post_init__(self) -> None:
        if isinstance(self.trials, bool) or not isinstance(self.trials, int) or not 2 <= self.trials <= MOST_TRIALS:
            raise InvalidInput(
                "trials", self.trials, f"a whole number from 2 to {MOST_TRIALS:.0e}", "half run on each dataset"
            )
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**128:
            raise InvalidInput("seed", self.seed, "a whole number from 0 to 2^128 - 1")

    @property
    def blocks(self) -> int:
        return -(-self.trials // self.per_block)

    def runs(self, block: int) -> tuple[int, int]:
        """Runs of a block on D and on D'."""
        trials = min(self.per_block, self.trials - block * self.per_block)
        return trials - trials // 2, trials // 2

    @cached_property
    def piloted(self) -> int:
        """Trials of the pilot that chose what is looked at, besides those of this plan."""
        return int(json.loads(self.distinguisher).get("piloted", 0))

    def configuration(self) -> dict[str, Any]:
        """All that decides the trials, as JSON: the digest is its hash. An aim of thousands of numbers is named by its own."""
        how = json.loads(self.distinguisher)
        if "aim" in how:
            how["aim"] = hashlib.sha256(canonical(how["aim"]).encode()).hexdigest()
        return {"stream": STREAM, **asdict(self), "target": json.loads(self.target), "distinguisher": how}

    def digest(self) -> str:
        """The name under which a store files the blocks."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(canonical(self.configuration()).encode()).hexdigest()


def canonical(value: Mapping[str, Any]) -> str:
    """One text for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plan(target: Target, distinguisher: Distinguisher, *, seed: int, trials: int) -> Plan:
    """Blocks so small that finished work is saved often, so large that saving costs nothing."""
    description = target.configuration()
    most = {"synthetic": _MOST_PER_BLOCK, "opacus-training": _MOST_PER_TRAINING_BLOCK}.get(
        description["target"], _MOST_PER_FOREIGN_BLOCK
    )
    numbers = max(1, target.dimension * target.steps)
    if distinguisher.training_share > 0.0:
        # enough blocks to set a share of them aside
        most = min(most, max(2, trials // _LEAST_BLOCKS_TO_LEARN))
    per_block = int(np.clip(_BLOCK_NUMBERS // numbers, 2, most)) // 2 * 2
    return Plan(canonical(description), canonical(distinguisher.configuration()), seed, trials, per_block)


@final
@dataclass(frozen=True, eq=False)
class Block:
    """Features of the runs of one block."""

    index: int
    smaller: Array
    larger: Array

    @property
    def trials(self) -> int:
        """Runs on both datasets together."""
        return len(self.smaller) + len(self.larger)


def joined(blocks: Sequence[Block]) -> Labelled:
    """The features of several blocks, in the order of their numbers."""
    ordered = sorted(blocks, key=lambda block: block.index)
    return Labelled(_stacked([block.smaller for block in ordered]), _stacked([block.larger for block in ordered]))


def _stacked(parts: list[Array]) -> Array:
    filled = [part for part in parts if part.size]
    return np.vstack(filled) if filled else np.empty((0, 1))


def run_block(what: Plan, index: int) -> Block:
    """All trials of one block, a few at a time."""
    return Block(index, *(_side(what, index, number, neighbour) for number, neighbour in enumerate(Neighbour)))


def generator(seed: int, *key: int) -> np.random.Generator:
    """The randomness of a part of an audit. SFC64: the fastest of numpy's generators at normal numbers, and a good one."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


@lru_cache(maxsize=2)
def _built(target: str, distinguisher: str) -> tuple[Target, Distinguisher]:
    """The target and the distinguisher of a description, built once in each process."""
    what = registry.rebuilt(json.loads(target))
    return what, distinguishers.rebuilt(json.loads(distinguisher), what)


@lru_cache(maxsize=16)
def _on_one_of(target: str, distinguisher: str, which: int) -> tuple[Target, Distinguisher]:
    """The same on one of the pairs that it leaves open."""
    undecided, _ = _built(target, distinguisher)
    assert isinstance(undecided, Undecided)
    pair = undecided.pairs()[which]
    return pair, distinguishers.rebuilt(json.loads(distinguisher), pair)


def _side(what: Plan, index: int, number: int, neighbour: Neighbour) -> Array:
    """The features of a block's runs on D (number 0) or on D' (number 1)."""
    target, distinguisher = _built(what.target, what.distinguisher)
    pairs = target.pairs() if isinstance(target, Undecided) else ()
    if pairs:
        target, distinguisher = _on_one_of(what.target, what.distinguisher, index % len(pairs))
    source, coins = generator(what.seed, index, number), generator(what.seed, index, 2 + number)
    if distinguisher.paired:
        source = generator(what.seed, PILOT, index, 0)
    runs = what.runs(index)[number]
    at_once = max(1, _HELD_NUMBERS // max(1, target.dimension * target.steps))
    found = []
    for first in range(0, runs, at_once):
        try:
            with underway.runs(index, number, first, source):
                outputs = _released(target, neighbour, source, min(at_once, runs - first))
            found.append(_finite(distinguisher.features(outputs, coins)))
        except TrialFault as fault:
            if pairs:
                # there are others
                return np.full((runs, 1), np.nan)
            raise FaultyTrial(
                f"{target.name}, {named(what, index, number, first + fault.index)}: {fault.reason}"
            ) from None
    return _stacked(found)


def named(what: Plan, block: int, side: int, run: int) -> str:
    """A trial by its number and by where it is in the plan; side 0 is D."""
    # runs on D come first
    trial = block * what.per_block + side * what.runs(block)[0] + run
    return f"trial {trial} (seed {what.seed}, block {block}, run {run} on {list(Neighbour)[side].value})"


def runs_one_by_one(what: Plan) -> bool:
    """Whether its trials follow one another, and each can be named while it runs; else many are drawn together."""
    return json.loads(what.target)["target"] in _ONE_BY_ONE


def _released(target: Target, neighbour: Neighbour, source: np.random.Generator, count: int) -> Array:
    outputs = target.release(neighbour, source, count)
    wanted = (count, target.steps, target.dimension + (target.beside() if isinstance(target, Besides) else 0))
    if outputs.shape != wanted:
        raise TrialFault(0, f"released (rounds, numbers) {outputs.shape[1:]}, but {wanted[1:]} was promised")
    return outputs


def _finite(features: Array) -> Array:
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        raise TrialFault(int(np.argmin(finite)), "released a number that is not finite")
    return features
