"""The batches that a loader has drawn and no step has used so far: noted when they are drawn, nothing is left to see later.

They come in the order in which they were drawn, so a step is matched with the next one. Those before it that it leaves out are of
no matter if it does not depend on the data which they are; nobody sees that, but that an empty one is left out tells what was in
it, and which of batches cut to different sizes were used is another run.

In an epoch that is cut into batches, or to whose batches records are allocated, a record is in one batch only. That says
something of a run if its epochs come one after the other, each gone through to its end.
"""

from __future__ import annotations

import inspect
import math
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from opacus.utils.batch_memory_manager import BatchSplittingSampler
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
from torch.utils.data import BatchSampler, RandomSampler

from noisymean.integrations.opacus.allocation import RandomAllocationSampler

# Of a million rows, two are the same by chance in one run of a million; an epoch is one of those before it once in a million.
_AGAIN, _SURPRISE, _MOST_IN_A_ROW = -math.log(1e-18), -math.log(1e-6), 64

_AGAIN_SAID = "the data loader drew the same batches again: its random numbers were started again"
_MERGED = "several batches were put together for one step, by signal_skip_step"
_EMPTY = "an empty batch was left out: that no step was taken on it tells what was in it"


@final
@dataclass(eq=False)
class Batch:
    """One that was drawn: its records, the parts that BatchMemoryManager cuts it into, and whether a step has used it."""

    size: int
    parts: int = 1
    used: bool = False


@final
@dataclass(eq=False)
class Iteration:
    """One pass over a loader: what has been drawn and not been used, the steps on it, and whether all of it has been drawn."""

    waiting: deque[Batch] = field(default_factory=deque)
    steps: int = 0
    ended: bool = False


@final
@dataclass
class Epoch:
    """The steps that are left in the epoch that was begun last, of whatever loader of an accountant."""

    left: int = 0


@final
class Batches:
    """The batches that a loader has drawn for one accountant and no step has used so far.

    `before` are those of the accountant, of any loader, and `epoch` is where it is in one. `differs` is minus the log
    probability that two rows are the same by chance. A row is a batch; or an epoch of so many batches (`in_epoch`), in which
    each record is at most once. `cut`: sizes follow from N and b. `ahead`: workers draw before anyone asks.
    """

    def __init__(
        self,
        before: dict[int, None],
        epoch: Epoch,
        differs: float,
        *,
        in_epoch: int = 0,
        cut: bool = False,
        ahead: bool,
    ) -> None:
        self.epoch = epoch
        self._before, self._in_epoch, self._cut, self._ahead = before, in_epoch, cut, ahead
        self._iterations: list[Iteration] = []
        self._why_not = ""
        self._row: list[int] = []
        # so many rows in a row are never the same by chance
        needed = _AGAIN / differs if differs > 0.0 else math.inf
        self._differs, self._last = differs, deque[int](maxlen=math.ceil(needed) if needed <= _MOST_IN_A_ROW else 0)

    # --- what the sampler says -----------------------------------------------------------------------------------------

    def begin(self) -> Iteration:
        """Another pass over the data. One in which steps were taken and that is left before its end is not what is analysed."""
        # what was only looked at is no part of the run
        begun = [one for one in self._iterations if one.steps or not self._in_epoch]
        if any(self._in_epoch > one.steps for one in begun):
            left = self.epoch.left
            self._why_not = self._why_not or (
                f"an epoch was begun while {_batches(left)} of another one {'was' if left == 1 else 'were'} left, so that a"
                " record may be in more batches than there are epochs: go through each to its end, and look at records with"
                " another loader"
            )
        self._why_not = self._why_not or self.left_out()
        self._iterations = [one for one in begun if one.waiting and not self._in_epoch]
        self._row.clear()
        found = Iteration()
        self._iterations.append(found)
        return found

    def add(self, iteration: Iteration, batch: Batch, key: int) -> None:
        """One more, with the hash of its records."""
        if self._why_not:
            return
        iteration.waiting.append(batch)
        self._row.append(key)
        if len(self._row) < self._in_epoch:
            return
        row = self._row[0] if len(self._row) == 1 else hash(tuple(self._row))
        self._row.clear()
        self._last.append(row)
        rows = [hash(tuple(self._last))] if self._last.maxlen and len(self._last) == self._last.maxlen else []
        if self._in_epoch and self._differs > _SURPRISE + math.log1p(len(self._before)):
            rows.append(hash((row,)))
        if any(one in self._before for one in rows):
            self._why_not = _AGAIN_SAID
        self._before.update(dict.fromkeys(rows))

    # --- what the optimizer says ---------------------------------------------------------------------------------------

    def take(self, size: int | None, *, cut: bool, signals: int = 0) -> str:
        """One less, for a step on `size` records; why it cannot be one of these, or nothing.

        `cut`: the step adds up what several calls of it have clipped; `signals` are calls that it has been told of already.
        """
        if self._why_not:
            return self._why_not
        self._why_not = self._taken(size, cut) or self._counted(signals)
        return self._why_not

    def _taken(self, size: int | None, cut: bool) -> str:
        if not any(one.waiting for one in self._iterations):
            return "a step was taken on a batch that the data loader of make_private did not draw, or on one for the second time"
        for one in reversed(self._iterations):
            place = _place(one, None if cut else size)
            if place is None or (self._cut and _differ(one, place)):
                continue
            for _ in range(place):
                one.waiting.popleft()
            return self._used(one, one.waiting.popleft(), cut)
        if any(one.waiting and not one.waiting[0].size for one in self._iterations):
            return _EMPTY
        return (
            f"a step was taken on {_records(size or 0)}, and the data loader of make_private drew another batch for it"
        )

    def _used(self, iteration: Iteration, batch: Batch, cut: bool) -> str:
        if batch.used:
            return "two accountants count steps on one batch: what they tell cannot be added up"
        if cut != (batch.parts > 1) or (cut and not self._ahead and iteration.waiting):
            return _MERGED
        batch.used = True
        if self._in_epoch:
            if not iteration.steps:
                if self.epoch.left:
                    return (
                        f"an epoch was begun while {_batches(self.epoch.left)} of that of another data loader, or of a run that"
                        " was broken off, were left: a record may be in more batches than there are epochs"
                    )
                self.epoch.left = self._in_epoch
            self.epoch.left -= 1
        iteration.steps += 1
        return ""

    def _counted(self, signals: int) -> str:
        """BatchMemoryManager tells of a call of `step` for each part that has been drawn; of more somebody else does."""
        parts = sum(batch.parts for one in self._iterations for batch in one.waiting)
        return _MERGED if signals > parts else ""

    @property
    def why_not(self) -> str:
        """Why the steps so far are not one for each new batch; empty if nothing speaks against it."""
        return self._why_not or self.left_out()

    @property
    def skipped_empty(self) -> bool:
        """Whether that is because an empty batch had no step."""
        return self.why_not == _EMPTY

    def left_out(self) -> str:
        """Why what has not been used is more than a run that is not at its end: an empty batch is next, and nobody uses it."""
        for one in self._iterations:
            following = one.waiting[0] if one.waiting else None
            if following is not None and not following.size and not following.used and (one.ended or not self._ahead):
                return _EMPTY
        return ""


_Told: TypeAlias = tuple[weakref.ref[Batches], ...]


def _place(iteration: Iteration, size: int | None) -> int | None:
    """Which of those that wait has so many records, the first if that is not known; never one behind an empty one."""
    for place, batch in enumerate(iteration.waiting):
        if size is None or batch.size == size:
            return place
        if not batch.size:
            return None
    return None


def _differ(iteration: Iteration, place: int) -> bool:
    """Whether batches of another size than the one at this place would be left out."""
    return any(iteration.waiting[i].size != iteration.waiting[place].size for i in range(place))


def _batches(count: int) -> str:
    return f"{count} {'batch' if count == 1 else 'batches'}"


def _records(count: int) -> str:
    return f"{count} {'record' if count == 1 else 'records'}"


# A sampler of each kind that tells of what it draws. Those whom it tells are held by others; a copy tells nobody. One class each,
# without another base: an object changes its class only for one of the same layout.


def _not_told(sampler: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(sampler).items() if name != "batches_drawn"}


class _Counted(UniformWithReplacementSampler):  # type: ignore[misc]
    batches_drawn: _Told = ()
    __getstate__ = _not_told

    def __iter__(self) -> Any:
        return _noted(self.batches_drawn, super().__iter__())


class _CountedDistributed(DistributedUniformWithReplacementSampler):  # type: ignore[misc]
    batches_drawn: _Told = ()
    __getstate__ = _not_told

    def __iter__(self) -> Any:
        return _noted(self.batches_drawn, super().__iter__())


class _CountedCut(BatchSampler):
    batches_drawn: _Told = ()
    __getstate__ = _not_told

    def __iter__(self) -> Any:
        return _noted(self.batches_drawn, super().__iter__())


class _CountedAllocation(RandomAllocationSampler):
    batches_drawn: _Told = ()
    __getstate__ = _not_told

    def __iter__(self) -> Any:
        return _noted(self.batches_drawn, super().__iter__())


# A loader's sampler cannot be replaced once it is made: its class is, and its law is not touched.
_COUNTED: dict[type, type] = {
    UniformWithReplacementSampler: _Counted,
    DistributedUniformWithReplacementSampler: _CountedDistributed,
    BatchSampler: _CountedCut,
    RandomAllocationSampler: _CountedAllocation,
}
_PLAIN = {counts: plain for plain, counts in _COUNTED.items()}


def _noted(told: _Told, drawn: Iterable[Sequence[int]]) -> Iterator[Sequence[int]]:
    """What is drawn, noted when it is asked for, and by whom: whoever cuts batches asks for them himself."""
    begun = [(one, one.begin()) for one in (reference() for reference in told) if one is not None]
    for records in drawn:
        frame: Any = inspect.currentframe()
        batch = Batch(len(records), _parts(len(records), frame and frame.f_back))
        key = hash(tuple(int(one) for one in records))
        for one, iteration in begun:
            one.add(iteration, batch, key)
        yield records
    for _, iteration in begun:
        iteration.ended = True


def _parts(size: int, asking: Any) -> int:
    """How many BatchMemoryManager cuts the batch into, if it is what asks for it."""
    if asking is None or asking.f_code is not BatchSplittingSampler.__iter__.__code__:
        return 1
    most = int(asking.f_locals["self"].max_batch_size)
    return max(math.ceil(size / most), 1)


def drawn_by(loader: Any) -> tuple[Any, type]:
    """The sampler that draws the batches of a loader, and its class, be it counted or not. A subclass may do anything."""
    sampler: Any = loader.batch_sampler
    # BatchMemoryManager cuts batches that are drawn as before
    while type(sampler) is BatchSplittingSampler:
        sampler = sampler.sampler
    return sampler, _PLAIN.get(type(sampler), type(sampler))


def counted(loader: Any, before: dict[int, None], epoch: Epoch) -> Batches | None:
    """The batches that `loader` draws from now on for the accountant of `epoch`; None where it is no sampler that is known."""
    sampler, kind = drawn_by(loader)
    if kind not in _COUNTED:
        return None
    if type(sampler) is kind:
        sampler.__class__ = _COUNTED[kind]
    told: list[Batches] = [one for one in (reference() for reference in sampler.batches_drawn) if one is not None]
    for one in told:
        if one.epoch is epoch:
            return one
    ahead = bool(loader.num_workers)
    if kind in (BatchSampler, RandomAllocationSampler):
        cut = kind is BatchSampler
        found = Batches(before, epoch, _differs(sampler), in_epoch=len(sampler), cut=cut, ahead=ahead)
    else:
        rate = float(sampler.sample_rate)
        same = rate * rate + (1.0 - rate) * (1.0 - rate)
        found = Batches(before, epoch, -int(sampler.num_samples) * math.log(same), ahead=ahead)
    sampler.batches_drawn = tuple(weakref.ref(one) for one in (*told, found))
    return found


def _differs(sampler: Any) -> float:
    """Minus the log probability that two epochs are the same; 0 where they are so by right."""
    if isinstance(sampler, RandomAllocationSampler):
        return sampler.num_samples * math.log(sampler.batches)
    if type(sampler.sampler) is not RandomSampler:
        return 0.0
    # those that are dropped may be in any order
    records = len(sampler.sampler)
    dropped = records % sampler.batch_size if sampler.drop_last else 0
    return math.lgamma(records + 1) - math.lgamma(dropped + 1)
