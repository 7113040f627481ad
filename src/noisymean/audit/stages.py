r"""What is run before the trials of a learned test: which pair of datasets, and where to look.

    scouting   a seventh of the trials, if the pair is left open: as many on each. One whose runs are told apart clearly better
               than those of the usual pair is taken, else that
    pilot      an eighth of the others: where to look on that pair (`distinguishers.aim`)
    trials     the rest: a quarter is learned from, the others are judged

Each is a plan of its own, run by the same workers and kept in the same store, so that a stage goes on where it was broken off.
Seeds of the first two are others than those of trials (`trials.PILOT`): what is chosen is fixed before a trial is run, so
choosing among many pairs and features costs no level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.audit import runner
from noisymean.audit.distinguishers import Distinguisher, Labelled, Learned, LearnedFirst, Pilot
from noisymean.audit.distinguishers.aim import MOST_KEPT
from noisymean.audit.runner import Workers
from noisymean.audit.store import Store
from noisymean.audit.trials import Block, Plan, canonical, joined, plan
from noisymean.errors import InvalidInput, Undefined
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Target, Undecided

_SCOUTING, _PILOT = 0.14, 0.125
# Runs on a pair in one block, both datasets together; runs without which a pilot says nothing; numbers that it may keep in all.
_SCOUTS, _LEAST_PILOT = 20, 40
_MOST_NUMBERS = 1 << 22
_MOST_PER_BLOCK = 40
# In errors of a difference: what the best of a hundred features shows by chance on one pair and not on the other.
_CLEARLY = 1.5
# Runs on each dataset without which nothing can be learned.
_LEAST_TO_LEARN = 6


@final
@dataclass(frozen=True, eq=False)
class Chosen:
    """What was chosen, the plan of the trials, and how many were spent on the choice among how many pairs."""

    target: Target
    distinguisher: Distinguisher
    plan: Plan
    pairs: int = 0


@final
@dataclass(frozen=True, eq=False)
class Ran:
    """What was chosen, and the trials: to learn from, and to judge."""

    chosen: Chosen
    learned: Labelled
    judged: Labelled
    finished: int
    interrupted: bool


@final
@dataclass(frozen=True, eq=False)
class Stages:
    """An audit of so many trials in all."""

    target: Target
    distinguisher: Distinguisher
    seed: int
    trials: int

    def __post_init__(self) -> None:
        """What is wrong is said before anything is run."""
        training_blocks(self._last(self.target, self.distinguisher, 0), self.distinguisher)

    @property
    def _test(self) -> Learned | None:
        """The test that is to be aimed; None where it is fixed by theory, or was aimed by the caller."""
        unaimed = isinstance(self.distinguisher, Learned) and self.distinguisher.aim is None
        return self.distinguisher if unaimed and isinstance(self.distinguisher, Learned) else None

    def scouting(self) -> Plan | None:
        """The runs that choose a pair; None where there is nothing to choose, or too few trials to do it."""
        pairs = self.target.pairs() if isinstance(self.target, Undecided) else ()
        each = int(_SCOUTING * self.trials / max(len(pairs), 1)) // _SCOUTS * _SCOUTS
        if self._test is None or len(pairs) < 2 or each == 0:
            return None
        return self._pilot_plan(self.target, each * len(pairs), _SCOUTS, whole=False)

    def pilot(self, target: Target, spent: int) -> Plan | None:
        """The runs that show where to look on that pair."""
        numbers = 2 * target.steps * min(target.dimension, MOST_KEPT)
        count = min(int(_PILOT * (self.trials - spent)), _MOST_NUMBERS // numbers) // 2 * 2
        if self._test is None or count < _LEAST_PILOT:
            return None
        return self._pilot_plan(target, count, _MOST_PER_BLOCK, whole=True)

    def _pilot_plan(self, target: Target, count: int, per_block: int, *, whole: bool) -> Plan:
        assert self._test is not None
        what = Pilot(self._test, self.trials, whole).configuration()
        return Plan(canonical(target.configuration()), canonical(what), self.seed, count, per_block)

    def _last(self, target: Target, distinguisher: Distinguisher, spent: int) -> Plan:
        return plan(target, distinguisher, seed=self.seed, trials=self.trials - spent)

    def first(self) -> Plan:
        """What is run first. It follows from the settings alone, so a store knows the audit by it."""
        target = self._usual()
        return self.scouting() or self.pilot(target, 0) or self._last(target, self.distinguisher, 0)

    def _usual(self) -> Target:
        """The pair that is run where none is chosen."""
        return self.target.unchosen() if isinstance(self.target, Undecided) else self.target

    def choose(
        self,
        workers: Workers,
        *,
        store: Store | None = None,
        resume: bool = False,
        progress: Callable[[int], None] = lambda trials: None,
    ) -> Chosen:
        """Run what comes before the trials; KeyboardInterrupt where that was stopped."""
        target, spent, pairs = self._usual(), 0, 0
        if store is not None and resume:
            self.check_store(store)

        def kept(what: Plan) -> list[Block]:
            done = runner.run(
                what, workers, store=store, resume=resume, progress=lambda finished: progress(spent + finished)
            )
            if done.interrupted:
                raise KeyboardInterrupt
            return done.blocks

        if (scouting := self.scouting()) is not None and isinstance(self.target, Undecided):
            open_to = self.target.pairs()
            which = best_pair(kept(scouting), len(open_to))
            target, pairs = target if which is None else open_to[which], len(open_to)
            spent += scouting.trials
        if self._test is None:
            return Chosen(target, self.distinguisher, self._last(target, self.distinguisher, 0))
        test = Learned.on(target)
        aim = None
        if (pilot := self.pilot(target, spent)) is not None:
            aim = Pilot.aim(joined(kept(pilot)))
            spent += pilot.trials
        test = test.aimed(aim, spent)
        return Chosen(target, test, self._last(target, test, spent), pairs)

    def run(
        self,
        workers: Workers,
        *,
        store: Store | None = None,
        resume: bool = False,
        progress: Callable[[int], None] = lambda trials: None,
    ) -> Ran:
        """All of it; KeyboardInterrupt where it was stopped before there was anything to judge."""
        chosen = self.choose(workers, store=store, resume=resume, progress=progress)
        what = chosen.plan
        done = runner.run(
            what, workers, store=store, resume=resume, progress=lambda finished: progress(what.piloted + finished)
        )
        training = training_blocks(what, chosen.distinguisher)
        learned = joined([block for block in done.blocks if block.index < training])
        judged = joined([block for block in done.blocks if block.index >= training])
        if not _enough(_runs(learned), _runs(judged), chosen.distinguisher):
            raise KeyboardInterrupt
        finished = what.piloted + sum(block.trials for block in done.blocks)
        return Ran(chosen, learned, judged, finished, done.interrupted)

    def check_store(self, store: Store) -> None:
        """Refuse a store with this audit by the learned test of before: none of its trials would count."""
        target = self._usual()
        before = self._last(target, LearnedFirst(target.known()), 0).digest() if self._test is not None else None
        seeds = store.seeds()
        if before in seeds and self.first().digest() not in seeds:
            raise InvalidInput(
                "store", str(store.path), "one in which this audit was begun with the learned test of this version",
                "its trials were for that of noisymean 0.1: go on with that version, or choose another file",
            )  # fmt: skip

    def kept_in(self, store: Store) -> int:
        """Trials of this audit that a store has; those of a last stage only where the others are complete."""
        try:
            chosen = self.choose(_Nobody(), store=store, resume=True)
        except KeyboardInterrupt:
            stages = [self.scouting(), self.pilot(self._usual(), 0)]
            return sum(block.trials for stage in stages if stage is not None for block in store.blocks(stage))
        return chosen.plan.piloted + sum(block.trials for block in store.blocks(chosen.plan))


class _Nobody:
    """Workers that compute nothing: what a store has is all there is."""

    def run(self, plan: Plan, indices: Sequence[int]) -> Iterator[Block]:
        raise KeyboardInterrupt


def best_pair(blocks: list[Block], pairs: int) -> int | None:
    """The pair whose runs differ most, by the features that show it best; the first, unless another is clearly better.

    A pair on which a run failed is left out; None if that is all of them.
    """
    found: dict[int, float] = {}
    for which in range(pairs):
        mine = [block for block in blocks if block.index % pairs == which]
        if all(np.isfinite(side).all() for block in mine for side in (block.smaller, block.larger)):
            found[which] = round(told_apart(joined(mine)), 6)
    if not found:
        return None
    best, first = max(found, key=lambda which: found[which]), min(found)
    return best if found[best] > found[first] + _CLEARLY else first


def told_apart(runs: Labelled) -> float:
    """How far the best two features differ, in units of their error."""
    return float(np.sort(_apart(runs.smaller, runs.larger))[-2:].mean())


def _apart(smaller: Array, larger: Array) -> Array:
    """Of each column the difference of ranks: of any scale, and moved by no single run."""
    both = np.vstack([smaller, larger])
    ranks = np.apply_along_axis(_ranks, 0, both) / len(both)
    apart = ranks[len(smaller) :] - ranks[: len(smaller)]
    return np.asarray(np.abs(apart.mean(axis=0)) / np.sqrt(1.0 / 6.0 / len(apart)))


def _ranks(column: Array) -> Array:
    """From 1; those that are equal share theirs."""
    _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - 0.5 * (counts - 1))[inverse])


def training_blocks(what: Plan, distinguisher: Distinguisher) -> int:
    """How many of the first blocks are learned from; an error where that leaves too few runs to learn from or to judge."""
    training = round(distinguisher.training_share * what.blocks)
    learned = min(training * what.per_block, what.trials)
    # half of the trials are runs on the larger dataset
    if not _enough(learned // 2, (what.trials - learned) // 2, distinguisher):
        raise Undefined("trials", what.trials, "enough to learn from and to judge", "e.g. 10000")
    return training


def _enough(learned: int, judged: int, distinguisher: Distinguisher) -> bool:
    """Whether so many runs on each dataset say anything."""
    return judged >= 1 and (distinguisher.training_share == 0.0 or learned >= _LEAST_TO_LEARN)


def _runs(trials: Labelled) -> int:
    """On the dataset that has fewer."""
    return int(min(trials.smaller.shape[0], trials.larger.shape[0]))
