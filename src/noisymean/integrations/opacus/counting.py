"""The batches that a loader has drawn and no step has used so far: noted when they are drawn, nothing is left to see later.

In an epoch that is cut into batches, or to whose batches records are allocated, a record is in one batch only. That says
something of a run if its epochs come one after the other, each gone through to its end.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

from opacus.utils.batch_memory_manager import BatchSplittingSampler
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
from torch.utils.data import BatchSampler, RandomSampler

from noisymean.integrations.opacus.allocation import RandomAllocationSampler

_AGAIN, _MOST_IN_A_ROW = -math.log(1e-30), 64


@final
@dataclass
class Epoch:
    """The steps that are left in the epoch that was begun last, of whatever loader of an accountant."""

    left: int = 0


@final
class Batches:
    """The batches that a loader has drawn and no step has used so far. `before` are those of the accountant, of any loader.

    `differs` is minus the log probability that two rows are the same by chance. A row is a batch; or an epoch of so many batches
    (`in_epoch`), in which each record is at most once: then `epoch` is where the accountant is in it.
    """

    def __init__(
        self,
        before: dict[int, None],
        differs: float,
        *,
        in_order: bool,
        epoch: Epoch | None = None,
        in_epoch: int = 0,
    ) -> None:
        self.left = 0
        self.cut = 0
        self.sizes = Counter[int]()
        self._in_order = in_order
        self._before = before
        self._why_not = ""
        self._epochs, self._in_epoch = [epoch] if epoch is not None else [], in_epoch
        self._row: list[int] = []
        # so many rows in a row are the same, once in 10^30 pairs
        needed = _AGAIN / differs if differs > 0.0 else math.inf
        self._last = deque[int](maxlen=math.ceil(needed) if needed <= _MOST_IN_A_ROW else 0)

    def begin(self) -> None:
        """Another epoch. One that is left before its end, or looked at without a step, is not what is analysed."""
        for epoch in self._epochs:
            if epoch.left:
                self._why_not = (
                    f"an epoch was begun while {epoch.left} batches of another one were left, so that a record may be in"
                    " more batches than there are epochs: go through each to its end, and look at records with another loader"
                )
            epoch.left = self._in_epoch
        if self._epochs:
            self._row.clear()

    def follow(self, epoch: Epoch) -> None:
        """Another accountant counts here as well, in the middle of what has been begun."""
        if self._epochs and all(epoch is not one for one in self._epochs):
            epoch.left = max(epoch.left, self._epochs[0].left)
            self._epochs.append(epoch)

    def add(self, batch: Sequence[int], *, cut: bool) -> None:
        """One more; `cut` into parts for one step."""
        self.left += 1
        self.cut += cut
        self.sizes[len(batch)] += 1
        self._row.append(hash(tuple(int(one) for one in batch)))
        if len(self._row) < self._in_epoch:
            return
        self._last.append(self._row[0] if len(self._row) == 1 else hash(tuple(self._row)))
        self._row.clear()
        if self._last.maxlen and len(self._last) == self._last.maxlen:
            key = hash(tuple(self._last))
            if key in self._before:
                self._why_not = "the data loader drew the same batches again: its random numbers were started again"
            self._before[key] = None

    def take(self, size: int | None, *, cut: bool) -> str:
        """One less, for a step on `size` records; why it cannot be one of these, or nothing."""
        if self._why_not:
            return self._why_not
        if not self.left:
            return "a step was taken on a batch that the data loader of make_private did not draw, or on one for the second time"
        self.left -= 1
        for epoch in self._epochs:
            epoch.left -= 1
        if cut:
            self.cut -= 1
            return "" if self.cut >= 0 else "several batches were put together for one step, by signal_skip_step"
        if size is None:
            self._in_order = False
            return ""
        self.sizes[size] -= 1
        if self.sizes[size] < 0:
            return f"a step was taken on {size} records, and the data loader of make_private drew no such batch"
        if self._in_order and self.sizes[0]:
            return "an empty batch was left out: that no step was taken on it tells what was in it"
        return ""


class _Counted(UniformWithReplacementSampler):  # type: ignore[misc]
    batches_drawn: Batches

    def __iter__(self) -> Any:
        return _noted(self.batches_drawn, super().__iter__())


class _CountedDistributed(DistributedUniformWithReplacementSampler):  # type: ignore[misc]
    batches_drawn: Batches

    def __iter__(self) -> Any:
        return _noted(self.batches_drawn, super().__iter__())


class _CountedCut(BatchSampler):
    batches_drawn: Batches

    def __iter__(self) -> Any:
        return _noted(self.batches_drawn, super().__iter__())


class _CountedAllocation(RandomAllocationSampler):
    batches_drawn: Batches

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


def _noted(batches: Batches, drawn: Iterable[Sequence[int]]) -> Any:
    """What is drawn, noted when it is asked for, and by whom: whoever cuts batches asks for them himself."""
    batches.begin()
    for batch in drawn:
        frame: Any = inspect.currentframe()
        batches.add(batch, cut=frame is not None and frame.f_back.f_code is BatchSplittingSampler.__iter__.__code__)
        yield batch


def drawn_by(loader: Any) -> tuple[Any, type]:
    """The sampler that draws the batches of a loader, and its class, be it counted or not. A subclass may do anything."""
    sampler: Any = loader.batch_sampler
    # BatchMemoryManager cuts batches that are drawn as before
    while type(sampler) is BatchSplittingSampler:
        sampler = sampler.sampler
    return sampler, _PLAIN.get(type(sampler), type(sampler))


def counted(loader: Any, before: dict[int, None], epoch: Epoch) -> Batches | None:
    """The batches that `loader` draws from now on; None where it is none of the samplers that are known."""
    sampler, kind = drawn_by(loader)
    if kind not in _COUNTED:
        return None
    is_plain = type(sampler) is kind
    if is_plain:
        # workers draw ahead of the steps
        in_order = not loader.num_workers
        if kind in (BatchSampler, RandomAllocationSampler):
            found = Batches(before, _differs(sampler), in_order=in_order, epoch=epoch, in_epoch=len(sampler))
        else:
            rate = float(sampler.sample_rate)
            same = rate * rate + (1.0 - rate) * (1.0 - rate)
            found = Batches(before, -int(sampler.num_samples) * math.log(same), in_order=in_order)
        sampler.__class__, sampler.batches_drawn = _COUNTED[kind], found
    counts: Batches = sampler.batches_drawn
    counts.follow(epoch)
    return counts


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
