"""How batches are drawn: read off the data loader, off the sizes of the batches that came, or told; else nobody knows.

The numbers of accountants are for Poisson sampling, each record in a batch or not by itself. `make_private` sees to that unless
it is told not to, and neither the optimizer nor the accountant is told which it was. Of the other ways those are known that a
DataLoader usually has, and random allocation; of any other nothing is.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, final

from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
from scipy.stats import binom
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from noisymean.errors import InvalidInput
from noisymean.grounds import Known
from noisymean.integrations.opacus.allocation import RandomAllocationSampler
from noisymean.integrations.opacus.counting import drawn_by
from noisymean.mechanisms.sampling import Cut, Sampling

# Batches whose sizes Poisson sampling would show once in so many runs are not taken for its own.
_NEVER = math.log(1e-9)
TO_TELL = "pass data_loader= the one that make_private returned, or sampling='poisson' if you draw batches so yourself"


@final
@dataclass(frozen=True)
class Drawn:
    """`sampling` is None where nobody knows, and where it is `other`: known, and none of those that are analysed.

    `rate` and `records` are the sampler's own, None where it was not seen; so are `batch_size` and `drop_last` of batches that
    are cut, because such a loader stays the user's own.
    """

    sampling: Sampling | None
    known: Known
    how: str
    rate: float | None = None
    records: int | None = None
    public_rate: bool = False
    other: bool = False
    batch_size: int | None = None
    drop_last: bool | None = None

    @property
    def poisson(self) -> bool | None:
        """Whether it is Poisson sampling; None where nobody knows."""
        if self.sampling is None:
            return False if self.other else None
        return self.sampling is Sampling.POISSON

    @property
    def is_cut(self) -> bool:
        """Whether an epoch is the dataset cut into batches."""
        return self.sampling is not None and self.sampling.is_cut

    @property
    def in_words(self) -> str:
        """A word for it; of what nobody knows, the one that accountants assume."""
        if self.other:
            return "not Poisson"
        return "Poisson" if self.sampling in (None, Sampling.POISSON) else self.sampling.value

    def plain(self) -> dict[str, Any]:
        """The state as plain data, to be stored in a checkpoint."""
        sampling = None if self.sampling is None else self.sampling.value
        return {**asdict(self), "sampling": sampling, "known": self.known.value}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Drawn:
        """The inverse; before other ways were known there was a word for Poisson sampling only."""
        given = dict(plain)
        if "poisson" in given:
            poisson = given.pop("poisson")
            given |= {"sampling": Sampling.POISSON.value if poisson else None, "other": poisson is False}
        if unknown := ", ".join(sorted(set(given) - {one.name for one in fields(cls)})):
            raise InvalidInput("state_dict", unknown, "written by this release of noisymean")
        sampling = None if given["sampling"] is None else Sampling(given["sampling"])
        return cls(**{**given, "sampling": sampling, "known": Known(given["known"])})


UNKNOWN = Drawn(None, Known.ASSUMED, f"nobody has seen the data loader: {TO_TELL}")
# For a calibration, which asks what a run would cost before there is one.
PLANNED = Drawn(Sampling.POISSON, Known.ASSUMED, "no batch has been drawn yet")


def otherwise(how: str, records: int | None, rate: float | None = None) -> Drawn:
    """Batches that were seen to be drawn in a way that is not analysed."""
    return Drawn(None, Known.SEEN, how, rate, records, other=True)


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
    if sampling is None:
        return UNKNOWN
    words = [one.value for one in Sampling]
    if sampling not in words:
        raise InvalidInput("sampling", sampling, f"one of {', '.join(words)}")
    return Drawn(Sampling(sampling), Known.TOLD, f"sampling='{sampling}'")


def agreed(first: Drawn, second: Drawn) -> Drawn:
    """One of two accounts of the same batches: whoever says that they were drawn in a way that is not analysed is believed."""
    if second == UNKNOWN or first == second:
        return first
    if first == UNKNOWN:
        return second
    for one, other in ((first, second), (second, first)):
        if one.sampling is None:
            return one if one.records is not None else replace(one, records=other.records)
    if first.sampling is not second.sampling:
        return Drawn(
            None,
            Known.ASSUMED,
            f"{first.how} is {first.in_words}, and {second.how} is {second.in_words}: one of them is wrong",
            records=first.records if second.records is None else second.records,
            other=True,
        )
    if first.rate is None or second.rate is None:
        return first if second.rate is None else second
    if replace(first, how="", public_rate=False) == replace(second, how="", public_rate=False):
        return first if second.public_rate else second
    return Drawn(
        None,
        Known.ASSUMED,
        f"make_private made a data loader of {first.records:,} records at the rate {first.rate:.6g}, the one that is shown has"
        f" {second.records:,} at {second.rate:.6g}",
    )


def of_loader(loader: Any) -> Drawn:
    """What the loader does. Its samplers have to be the very ones that are known: a subclass may do anything."""
    if not isinstance(loader, DataLoader):
        raise InvalidInput("data_loader", type(loader).__name__, "a DataLoader", "pass what make_private returned")
    (sampler, kind), records = drawn_by(loader), _length(loader.dataset)
    if any(getattr(type(loader), name) is not getattr(DataLoader, name) for name in _HANDING_OUT):
        return otherwise(f"a {type(loader).__name__}, which hands out batches in a way of its own", records)
    if loader.num_workers and not getattr(loader, "in_order", True):
        return otherwise("in_order=False: which batch comes first depends on what is in it", records)
    if kind is BatchSampler:
        return _cut(loader, sampler, records)
    if kind is RandomAllocationSampler:
        found = Drawn(
            Sampling.BALLS_IN_BINS,
            Known.SEEN,
            f"{kind.__name__} of the data loader, {sampler.batches} batches",
            1 / sampler.batches,
            records,
            public_rate=True,
        )
        drawn_from = int(sampler.num_samples)
    elif kind in (UniformWithReplacementSampler, DistributedUniformWithReplacementSampler):
        distributed = kind is DistributedUniformWithReplacementSampler
        rate, drawn_from = float(sampler.sample_rate), int(sampler.total_size if distributed else sampler.num_samples)
        mark = loader.worker_init_fn
        public = isinstance(mark, RateMark) and mark.is_of(loader, rate)
        found = Drawn(Sampling.POISSON, Known.SEEN, f"{kind.__name__} of the data loader", rate, records, public)
    else:
        return otherwise(_by(loader), records)
    if drawn_from != records:
        return otherwise(f"a sampler of {drawn_from:,} records, and a dataset of {records or 0:,}", records)
    if makes_up_records(loader.collate_fn):
        return otherwise("rand_on_empty: an empty batch is replaced by a record that is made up", records, found.rate)
    return found


# What a DataLoader does with the batches that its sampler draws.
_HANDING_OUT = ("__iter__", "_get_iterator", "_index_sampler", "_auto_collation")


def _by(loader: Any) -> str:
    # one that is a sampler of batches itself comes beside another that nobody asks
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    return f"batches of a {type(loader).__name__} drawn by its {type(sampler).__name__}"


def _cut(loader: Any, batches: Any, records: int | None) -> Drawn:
    """Batches of a BatchSampler: cut from the dataset if what is below hands out each record once, shuffled or in order."""
    below = batches.sampler
    if type(below) not in (RandomSampler, SequentialSampler):
        return otherwise(f"batches of a {type(loader).__name__} drawn by its {type(below).__name__}", records)
    if records is None or len(below.data_source) != records:
        return otherwise(f"a sampler of {len(below.data_source):,} records, and a dataset of {records or 0:,}", records)
    shuffled, name = type(below) is RandomSampler, type(below).__name__
    if shuffled and below.replacement:
        return otherwise(f"{name} of the data loader, with replacement", records)
    if shuffled and getattr(below, "_num_samples", None) is not None:
        # where the number comes from nobody knows, also if it is that of the records
        return otherwise(
            f"{name} of the data loader, told to draw {below.num_samples:,} of {records:,} records", records
        )
    size, drop_last = int(batches.batch_size), bool(batches.drop_last)
    length = Cut.of(records, size, drop_last=drop_last).batches
    if not length:
        return otherwise(f"no batch of {size} in {records:,} records, and others are dropped", records)
    last = ", the last one dropped if it has less" if drop_last else ""
    return Drawn(
        Sampling.SHUFFLE if shuffled else Sampling.CYCLIC,
        Known.SEEN,
        f"{name} of the data loader, batches of {size}{last}",
        1 / length,
        records,
        batch_size=size,
        drop_last=drop_last,
    )


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:
        return None


def _wrapped(collate: Any) -> Any:
    """What Opacus has wrapped so that empty batches can be put together."""
    return getattr(collate, "wrapped_collator_fn", None) or _captured(collate).get("collate_fn")


def makes_up_records(collate: Any) -> bool:
    """Whether an empty batch is replaced by a record, as Opacus' rand_on_empty does."""
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


def not_cut(sizes: Counter[int], records: int, batch_size: int, *, drop_last: bool) -> str | None:
    """Why batches of these sizes were not cut from `records` records; None where they may have been."""
    cut = Cut.of(records, batch_size, drop_last=drop_last)
    usual = {size for size, any_of_it in ((cut.size, cut.full), (cut.last, cut.last)) if any_of_it}
    strange = sorted(set(sizes) - usual)
    return (
        f"a batch had {strange[0]} records: {records:,} are not cut so into batches of {batch_size}"
        if strange
        else None
    )
