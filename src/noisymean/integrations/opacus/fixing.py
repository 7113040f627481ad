r"""The remedy: divide by a number that does not depend on the data, and sample at a rate that does not either.

Opacus 1.x computes both from the data loader: with L = ceil(N/b) batches the rate is 1/L and the denominator int(N/L). One
record more may change either: the scale of the noise in *every* coordinate (the denominator), or the law of every batch (the
rate), and no accountant of the noisy sum covers that. A constant denominator is post-processing; a constant rate is what
accountants assume. Choose both before looking at the data, e.g. from a published estimate of N:

    loader = poisson_loader(train_set, sample_rate="1/100")            # instead of DataLoader(train_set, batch_size=600)
    model, optimizer, loader = engine.make_private(data_loader=loader, ...)
    fix(optimizer, denominator=600, data_loader=loader)

Whoever wants each record once an epoch, as with a shuffled loader, has that too, and at a small delta less is lost than with
Poisson sampling:

    loader = allocation_loader(train_set, batches=100)                  # instead of DataLoader(train_set, 600, shuffle=True)
    model, optimizer, loader = engine.make_private(data_loader=loader, poisson_sampling=False, ...)
"""

from __future__ import annotations

from types import MethodType
from typing import Any

from opacus.data_loader import DPDataLoader
from torch.utils.data import DataLoader

from noisymean.errors import InvalidInput, check_number
from noisymean.integrations.opacus import seen
from noisymean.integrations.opacus.allocation import RandomAllocationSampler
from noisymean.integrations.opacus.neighbours import as_written, loader_code
from noisymean.integrations.opacus.sampler import UNKNOWN, Drawn, RateMark, agreed, of_loader
from noisymean.integrations.opacus.seen import Public, Told
from noisymean.mechanisms import Rate, Sampling, exact_rate
from noisymean.mechanisms.opacus_rate import steps_at_most


def fix(optimizer: Any, *, denominator: float, data_loader: Any = None, sample_rate: Rate | None = None) -> Any:
    """Make `optimizer` divide by `denominator`, a constant of yours; returns the optimizer.

    Call it after make_private. Any positive number will do: what matters is that it is not computed from the data. It only
    rescales the gradients, so take the batch size that your learning rate was tuned for.

    The sampling rate must be public too, and an optimizer has no say in it: an ordinary data loader has the rate 1/ceil(N/b),
    which one record more can change. Sample with `poisson_loader`, or with `allocation_loader` and poisson_sampling=False, and
    pass what make_private returned as `data_loader`: it shows that its rate was given. A loader that shuffles is let pass as
    well: its denominator then leaks no more, and `inspect` says what the rest costs. `sample_rate` is for a sampler of your own,
    and is checked against what was seen. Steps that were taken before the fix stay what they were.

    Works on every DPOptimizer of Opacus 1.x: flat, per layer, ghost, distributed (`denominator` is that of all workers
    together), and adaptive. There the noisy count of unclipped gradients is divided by the constant as well, and each record of
    the batch counts as +1/2 or -1/2, as in Andrew et al. 2021: Theorem 1, which sets the noise, holds for that count.
    """
    seen.need_optimizer(optimizer)
    check_number("denominator", denominator, above=0.0, most=1e15, remedy="e.g. the expected batch size, as a constant")
    rate = None if sample_rate is None else float(exact_rate(sample_rate))
    hook = seen.told(optimizer)
    shown = UNKNOWN if data_loader is None else of_loader(data_loader)
    if shown.sampling not in (None, Sampling.POISSON) and seen.made_poisson(optimizer):
        raise InvalidInput(
            "data_loader",
            shown.in_words,
            "the one that make_private returned",
            "it made another of the one that it was given",
        )
    drawn = agreed(UNKNOWN if hook is None else hook.drawn, shown)
    rate = _public_rate(drawn, hook, rate, sample_rate)
    if hook is not None:
        earlier = seen.earlier_of(optimizer)
        if since := seen.steps_of(hook.accountant) - sum(steps for steps, _ in earlier):
            earlier.append((since, seen.see(optimizer, clips=seen.clipper_of(optimizer))))
        setattr(optimizer, seen.EARLIER, earlier)
    # a float of a whole number divides like the number itself
    optimizer.expected_batch_size = float(denominator) / seen.workers(optimizer)
    if seen.is_adaptive(optimizer):
        _count_halves(optimizer, float(denominator))
    setattr(optimizer, seen.PROMISE, Public(float(denominator), rate))
    return optimizer


def _public_rate(drawn: Drawn, hook: Told | None, rate: float | None, written: Rate | None) -> float | None:
    """The rate that is public: what the loader shows, else what is said of it."""
    known = exact_rate(written) if written is not None else as_written(hook.sample_rate) if hook is not None else None
    offered = "give make_private a poisson_loader" if known is None else f"give make_private {loader_code(known)}"
    if drawn.other:
        raise InvalidInput("data_loader", drawn.how, "one that draws in a way that is known", offered)
    if rate is not None and hook is not None and hook.sample_rate != rate:
        raise InvalidInput("sample_rate", str(written), f"the rate of the data loader, {hook.sample_rate:.9g}", offered)
    if drawn.rate is None:
        return rate
    if rate is not None and not drawn.public_rate:
        raise InvalidInput(
            "sample_rate", str(written), "left out: this loader's rate comes from the number of records", offered
        )
    return drawn.rate if drawn.public_rate else None


def _count_halves(optimizer: Any, denominator: float) -> None:
    """The share of unclipped gradients as 1/2 + (sum over the batch of +-1/2, and noise) / denominator."""
    update = type(optimizer).update_max_grad_norm

    def update_max_grad_norm(self: Any) -> None:
        self.unclipped_num = self.unclipped_num + (denominator - self.sample_size) / 2
        self.sample_size = denominator
        update(self)

    optimizer.update_max_grad_norm = MethodType(update_max_grad_norm, optimizer)


def poisson_loader(dataset: Any, *, sample_rate: Rate, **options: Any) -> Any:
    """A data loader that samples each record with probability `sample_rate`, whatever their number; for make_private.

    The rate is 1/L for a whole L, the steps of an epoch, because make_private reads the rate off the loader's length.
    `options` go to DPDataLoader.
    """
    rate = exact_rate(sample_rate)
    if steps_at_most(rate) * rate != 1:
        raise InvalidInput(
            "sample_rate",
            str(sample_rate),
            "1/L for a whole L that Opacus recovers in floating point",
            f"the nearest below is sample_rate='1/{steps_at_most(rate)}'",
        )
    if not options.get("num_workers"):
        # releases up to 1.3 would ask for 2, which torch refuses without workers
        options.setdefault("prefetch_factor", None)
    loader = DPDataLoader(dataset, sample_rate=float(rate), **options)
    # make_private makes a loader of its own out of it, and takes this along
    loader.worker_init_fn = RateMark(float(rate), loader.worker_init_fn, dataset, loader.collate_fn)
    return loader


def allocation_loader(dataset: Any, *, batches: int, generator: Any = None, **options: Any) -> Any:
    """A data loader that puts each record into one of `batches` batches, chosen at random, anew in every epoch.

    For make_private with poisson_sampling=False, which leaves a loader as it is; or for plain PyTorch. There are as many batches,
    whatever the number of records. Some may be empty, and are put together as Opacus does: a step on one is noise alone, and has
    to be taken. `options` go to DPDataLoader, which makes that function, and to DataLoader.
    """
    if options.get("distributed"):
        raise InvalidInput("distributed", True, "left out", "each worker would allocate the records by itself")
    sampler = RandomAllocationSampler(num_samples=len(dataset), batches=batches, generator=generator)
    if not options.get("num_workers"):
        # releases up to 1.3 would ask for 2, which torch refuses without workers
        options.setdefault("prefetch_factor", None)
    collate = DPDataLoader(dataset, sample_rate=1 / batches, **options).collate_fn
    kept = {name: value for name, value in options.items() if name not in _OF_OPACUS}
    loader: Any = DataLoader(dataset, batch_sampler=sampler, generator=generator, **{**kept, "collate_fn": collate})
    # with poisson_sampling=True make_private makes a loader of its own out of it, whose rate was given too
    loader.worker_init_fn = RateMark(1 / batches, loader.worker_init_fn, dataset, collate)
    return loader


# Options of a DPDataLoader that are no DataLoader's, or that say how batches are drawn.
_OF_OPACUS = ("batch_first", "rand_on_empty", "distributed", "drop_last")
