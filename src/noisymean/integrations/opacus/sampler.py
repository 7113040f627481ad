"""How batches are drawn: read off the data loader, off the sizes of the batches that came, or told; else nobody knows.

Every number of ours is for Poisson sampling, each record in a batch or not by itself. `make_private` sees to that unless it is
told not to, and neither the optimizer nor the accountant is told which it was.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
from scipy.stats import binom
from torch.utils.data import DataLoader

from noisymean.errors import InvalidInput
from noisymean.grounds import Known

# Batches whose sizes Poisson sampling would show once in so many runs are not taken for its own.
_NEVER = math.log(1e-9)
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
        """The inverse of `plain`."""
        return cls(**{**plain, "known": Known(plain["known"])})


UNKNOWN = Drawn(None, Known.ASSUMED, f"nobody has seen the data loader: {TO_TELL}")


@final
@dataclass(frozen=True)
class PublicRate:
    """The mark of a loader whose rate was given: it rides where make_private carries it along."""

    rate: float
    inner: Callable[[int], None] | None = None

    def __call__(self, worker: int) -> None:
        """What a worker of the loader runs first."""
        if self.inner is not None:
            self.inner(worker)


def told(sampling: str | None) -> Drawn:
    """What the user says, in the words of `sampling`."""
    words = ("poisson", "shuffle", "fixed-size", "balls-in-bins", "cyclic")
    if sampling is None:
        return UNKNOWN
    if sampling not in words:
        raise InvalidInput("sampling", sampling, f"one of {', '.join(words)}")
    return Drawn(sampling == "poisson", Known.TOLD, f"sampling='{sampling}'")


def of_loader(loader: Any) -> Drawn:
    """What the loader does: it is Poisson sampling only if its batch sampler is one of Opacus' own."""
    if not isinstance(loader, DataLoader):
        raise InvalidInput("data_loader", type(loader).__name__, "a DataLoader", "pass what make_private returned")
    sampler: Any = loader.batch_sampler
    # BatchMemoryManager cuts batches that are drawn as before
    while type(sampler).__name__ == "BatchSplittingSampler":
        sampler = sampler.sampler
    # a subclass may do anything
    if type(sampler) is UniformWithReplacementSampler:
        rate, records = float(sampler.sample_rate), int(sampler.num_samples)
    elif type(sampler) is DistributedUniformWithReplacementSampler:
        rate, records = float(sampler.sample_rate), int(sampler.total_size)
    else:
        drawn_by = type(getattr(loader, "sampler", None)).__name__
        how = f"batches of a {type(loader).__name__} drawn by its {drawn_by}"
        return Drawn(False, Known.SEEN, how, None, _length(loader.dataset))
    if _makes_up_records(loader.collate_fn):
        return Drawn(
            False, Known.SEEN, "rand_on_empty: an empty batch is replaced by a record that is made up", rate, records
        )
    mark = loader.worker_init_fn
    public = isinstance(mark, PublicRate) and mark.rate == rate
    return Drawn(True, Known.SEEN, f"{type(sampler).__name__} of the data loader", rate, records, public)


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except TypeError:
        return None


def _makes_up_records(collate: Any) -> bool:
    if hasattr(collate, "rand_on_empty"):
        return bool(collate.rand_on_empty)
    # before it was a class it was a function in a function, or a partial
    if hasattr(collate, "keywords"):
        return bool(collate.keywords.get("rand_on_empty", False))
    return inspect.isfunction(collate) and bool(inspect.getclosurevars(collate).nonlocals.get("rand_on_empty", False))


def contradiction(sizes: Counter[int], records: int, rate: float) -> str | None:
    """Why batches of these sizes were not drawn by Poisson sampling; None where they may have been.

    Any size comes with probability p at most, so that some size comes m times in k batches with less than (N+1) C(k, m) p^m.
    An empty batch may show no size: p is that of a batch with something in it.
    """
    count = sum(sizes.values())
    if not count or rate >= 1.0:
        return None
    size, most = sizes.most_common(1)[0]
    likely = float(binom.logpmf(math.floor((records + 1) * rate), records, rate) - binom.logsf(0, records, rate))
    ways = math.lgamma(count + 1) - math.lgamma(most + 1) - math.lgamma(count - most + 1)
    if math.log(records + 1) + ways + most * likely > _NEVER:
        return None
    return f"{most} of {count} batches had {size} records each: not Poisson sampling, whatever the data loader was"
