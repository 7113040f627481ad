"""How batches are drawn: read off the data loader, off the sizes of the batches that came, or told; else nobody knows.

Every number of ours is for Poisson sampling, each record in a batch or not by itself. `make_private` sees to that unless it is
told not to, and neither the optimizer nor the accountant is told which it was.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, final

from opacus.utils.batch_memory_manager import BatchSplittingSampler
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
from scipy.stats import binom
from torch.utils.data import DataLoader

from noisymean.errors import InvalidInput
from noisymean.grounds import Known

# Batches whose sizes Poisson sampling would show once in so many runs are not taken for its own.
_NEVER = math.log(1e-9)
_AGAIN, _MOST_IN_A_ROW = -math.log(1e-30), 64
TO_TELL = "pass data_loader= the one that make_private returned, or sampling='poisson' if you draw batches so yourself"


@final
@dataclass(frozen=True)
class Drawn:
    """`poisson` is None where nobody knows; `rate` and `records` are the sampler's own, None where it was not seen."""

    poisson: bool | None
    known: Known
    how: str
    rate: float | None = None
    records: int | None = None
    public_rate: bool = False

    def plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {**asdict(self), "known": self.known.value}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Drawn:
        return cls(**{**plain, "known": Known(plain["known"])})


UNKNOWN = Drawn(None, Known.ASSUMED, f"nobody has seen the data loader: {TO_TELL}")
# For a calibration, which asks what a run would cost before there is one.
PLANNED = Drawn(True, Known.ASSUMED, "no batch has been drawn yet")


def not_poisson(how: str, records: int | None, rate: float | None = None) -> Drawn:
    """Batches that were seen to be drawn in another way."""
    return Drawn(False, Known.SEEN, how, rate, records)


@final
@dataclass(frozen=True)
class RateMark:
    """The mark of a loader whose rate was given: it rides where make_private carries it along."""

    rate: float
    inner: Callable[[int], None] | None = None
    # of which records, and put together how: another loader that took over this function alone is not the one that was marked
    dataset: Any = field(default=None, compare=False, repr=False)
    collate: Any = field(default=None, compare=False, repr=False)

    def __call__(self, worker: int) -> None:
        if self.inner is not None:
            self.inner(worker)

    def is_of(self, loader: Any, rate: float) -> bool:
        """Whether `loader` is the marked one, or the one that make_private made of it."""
        collate = loader.collate_fn
        while collate is not None and collate is not self.collate:
            collate = _wrapped(collate)
        return self.rate == rate and loader.dataset is self.dataset and collate is not None

    def __getstate__(self) -> dict[str, Any]:
        # a worker in another process has no use for the records a second time
        return {"rate": self.rate, "inner": self.inner}


def told(sampling: str | None) -> Drawn:
    """What the user says, in the words of `sampling`."""
    words = ("poisson", "shuffle", "fixed-size", "balls-in-bins", "cyclic")
    if sampling is None:
        return UNKNOWN
    if sampling not in words:
        raise InvalidInput("sampling", sampling, f"one of {', '.join(words)}")
    return Drawn(sampling == "poisson", Known.TOLD, f"sampling='{sampling}'")


def agreed(first: Drawn, second: Drawn) -> Drawn:
    """One of two accounts of the same batches: whoever says that they were not drawn so is believed."""
    if second == UNKNOWN or first == second:
        return first
    if first == UNKNOWN:
        return second
    for one, other in ((first, second), (second, first)):
        if not one.poisson:
            return one if one.records is not None else replace(one, records=other.records)
    if first.rate is None or second.rate is None:
        return first if second.rate is None else second
    if (first.rate, first.records) == (second.rate, second.records):
        return first if second.public_rate else second
    return Drawn(
        None,
        Known.ASSUMED,
        f"make_private made a data loader of {first.records:,} records at the rate {first.rate:.6g}, the one that is shown has"
        f" {second.records:,} at {second.rate:.6g}",
    )


def of_loader(loader: Any) -> Drawn:
    """What the loader does: it is Poisson sampling only if its batch sampler is one of Opacus' own."""
    if not isinstance(loader, DataLoader):
        raise InvalidInput("data_loader", type(loader).__name__, "a DataLoader", "pass what make_private returned")
    sampler, records = poisson_sampler(loader), _length(loader.dataset)
    if sampler is None:
        drawn_by = type(getattr(loader, "sampler", None)).__name__
        return not_poisson(f"batches of a {type(loader).__name__} drawn by its {drawn_by}", records)
    if type(loader).__iter__ is not DataLoader.__iter__:
        return not_poisson(f"a {type(loader).__name__}, which hands out batches in a way of its own", records)
    distributed = isinstance(sampler, DistributedUniformWithReplacementSampler)
    rate, drawn_from = float(sampler.sample_rate), int(sampler.total_size if distributed else sampler.num_samples)
    if drawn_from != records:
        return not_poisson(f"a sampler of {drawn_from:,} records, and a dataset of {records or 0:,}", records)
    if _makes_up_records(loader.collate_fn):
        return not_poisson("rand_on_empty: an empty batch is replaced by a record that is made up", records, rate)
    mark = loader.worker_init_fn
    public = isinstance(mark, RateMark) and mark.is_of(loader, rate)
    kind = DistributedUniformWithReplacementSampler if distributed else UniformWithReplacementSampler
    return Drawn(True, Known.SEEN, f"{kind.__name__} of the data loader", rate, records, public)


def poisson_sampler(loader: Any) -> Any:
    """The sampler of a loader that draws by Poisson sampling; None if it does not."""
    sampler: Any = loader.batch_sampler
    # BatchMemoryManager cuts batches that are drawn as before
    while type(sampler) is BatchSplittingSampler:
        sampler = sampler.sampler
    # a subclass may do anything
    return sampler if type(sampler) in (*COUNTED, *COUNTED.values()) else None


@final
class Batches:
    """The batches that a loader has drawn and no step has used so far. `before` are those of the accountant, of any loader."""

    def __init__(self, before: dict[int, None], records: int, rate: float, *, in_order: bool) -> None:
        self.left = 0
        self.cut = 0
        self.sizes = Counter[int]()
        self._in_order = in_order
        self._before = before
        self._again = False
        # two batches are the same with probability (q^2 + (1-q)^2)^N: so many in a row are, once in 10^30 pairs
        same = -records * math.log(rate * rate + (1.0 - rate) * (1.0 - rate))
        needed = _AGAIN / same if same > 0.0 else math.inf
        self._last = deque[int](maxlen=math.ceil(needed) if needed <= _MOST_IN_A_ROW else 0)

    def add(self, batch: Sequence[int], *, cut: bool) -> None:
        """One more; `cut` into parts for one step."""
        self.left += 1
        self.cut += cut
        self.sizes[len(batch)] += 1
        self._last.append(hash(tuple(int(one) for one in batch)))
        if self._last.maxlen and len(self._last) == self._last.maxlen:
            key = hash(tuple(self._last))
            self._again |= key in self._before
            self._before[key] = None

    def take(self, size: int | None, *, cut: bool) -> str:
        """One less, for a step on `size` records; why it cannot be one of these, or nothing."""
        if self._again:
            return "the data loader drew the same batches again: its random numbers were started again"
        if not self.left:
            return "a step was taken on a batch that the data loader of make_private did not draw, or on one for the second time"
        self.left -= 1
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
    batches: Batches

    def __iter__(self) -> Any:
        return _noted(self.batches, super().__iter__())


class _CountedDistributed(DistributedUniformWithReplacementSampler):  # type: ignore[misc]
    batches: Batches

    def __iter__(self) -> Any:
        return _noted(self.batches, super().__iter__())


COUNTED: dict[type, type] = {
    UniformWithReplacementSampler: _Counted,
    DistributedUniformWithReplacementSampler: _CountedDistributed,
}


def _noted(batches: Batches, drawn: Iterable[Sequence[int]]) -> Any:
    """What is drawn, noted when it is asked for, and by whom: whoever cuts batches asks for them himself."""
    for batch in drawn:
        frame: Any = inspect.currentframe()
        batches.add(batch, cut=frame is not None and frame.f_back.f_code is BatchSplittingSampler.__iter__.__code__)
        yield batch


def counted(loader: Any, before: dict[int, None]) -> Batches | None:
    """The batches that `loader` draws from now on; None where it does not draw by Poisson sampling."""
    sampler = poisson_sampler(loader)
    if sampler is None:
        return None
    if type(sampler) in COUNTED:
        # a loader's sampler cannot be replaced once it is made, and its law is not touched
        sampler.__class__ = COUNTED[type(sampler)]
        # workers draw ahead of the steps
        sampler.batches = Batches(
            before, int(sampler.num_samples), float(sampler.sample_rate), in_order=not loader.num_workers
        )
    found: Batches = sampler.batches
    return found


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:
        return None


def _wrapped(collate: Any) -> Any:
    """What Opacus has wrapped so that empty batches can be put together."""
    return getattr(collate, "wrapped_collator_fn", None) or _captured(collate).get("collate_fn")


def _makes_up_records(collate: Any) -> bool:
    return bool(getattr(collate, "rand_on_empty", False) or _captured(collate).get("rand_on_empty", False))


def _captured(collate: Any) -> Mapping[str, Any]:
    """The variables of Opacus' collate function before it was a class: a function in a function, or a partial."""
    if inspect.isfunction(collate):
        return inspect.getclosurevars(collate).nonlocals
    return getattr(collate, "keywords", {})


def contradiction(sizes: Counter[int], records: int, rate: float) -> str | None:
    """Why batches of these sizes were not drawn by Poisson sampling; None where they may have been.

    Any size comes with probability p at most, so that some size comes m times in k batches with less than (N+1) C(k, m) p^m.
    An empty batch may show no size: p is that of a batch with something in it. All records of k batches together are a draw
    from kN; with the empty ones left out there may have been more batches, so that only too many of them are told.
    """
    count = sum(sizes.values())
    if not count or rate >= 1.0:
        return None
    size, most = sizes.most_common(1)[0]
    likely = float(binom.logpmf(math.floor((records + 1) * rate), records, rate) - binom.logsf(0, records, rate))
    ways = math.lgamma(count + 1) - math.lgamma(most + 1) - math.lgamma(count - most + 1)
    if math.log(records + 1) + ways + most * likely <= _NEVER:
        return f"{most} of {count} batches had {size} records each: not Poisson sampling, whatever the data loader was"
    together = sum(size * times for size, times in sizes.items())
    if float(binom.logsf(together - 1, count * records, rate)) - count * float(binom.logsf(0, records, rate)) <= _NEVER:
        return (
            f"{count} batches had {together} records together: more than Poisson sampling at the rate {rate:.6g} draws"
        )
    return None
