"""One line in a training script: which mechanism runs, what it has cost so far, and what to change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, final

from noisymean.errors import InvalidInput, Undefined, check_number
from noisymean.integrations import segments as run
from noisymean.integrations.opacus.neighbours import Case, Stretch, as_written, cases, promised
from noisymean.integrations.opacus.seen import history_of, noise_of, optimizer_of, see, told
from noisymean.mechanisms import SGM, Mechanism, Rate, exact_rate
from noisymean.outward import at_least, at_most
from noisymean.verdict import Claim, Word, check_order, decide

_AMBIGUOUS = "several batch sizes fit, and leakage is the least of theirs; give batch_size= to be exact"


@final
@dataclass(frozen=True)
class Spent:
    """Three epsilons at `delta`; None where nothing is known, with the reason in `notes`."""

    delta: float
    claimed: float
    leakage: float | None
    guarantee: float | None
    pair: str | None
    notes: tuple[str, ...]
    verdict: Word


@final
@dataclass(frozen=True)
class Inspection:
    """What runs, what it has cost so far, and the remedy. `print` it."""

    name: str
    mechanisms: tuple[Mechanism, ...]
    dataset_size: int
    stretches: tuple[Stretch, ...]
    taken: int
    spent: Spent
    remedy: str

    @property
    def steps(self) -> int:
        """Steps that were accounted for; 1 if none was taken so far."""
        return sum(one.steps for one in self.stretches)

    @property
    def verdict(self) -> str:
        """violated, holds or undetermined."""
        return self.spent.verdict

    def __str__(self) -> str:
        last, spent = self.stretches[-1], self.spent
        seen = last.seen
        divided = "nothing (loss_reduction='sum')" if seen.denominator is None else f"{seen.denominator:g}"
        if seen.denominator is not None:
            divided += ", a public constant" if seen.public.denominator is not None else " (expected_batch_size)"
        rate = f"{as_written(last.sample_rate)}"
        rate += ", public" if seen.public.sample_rate is not None else ", from the length of the data loader"
        noise = ", ".join(f"{value:g}" for value in dict.fromkeys(one.noise_multiplier for one in self.stretches))
        counted = f"{self.taken:,} so far" if self.taken else "none so far: what one costs is shown"
        rows = [
            f"mechanism   {self.name}",
            f"  records   {self.dataset_size:,}    parameters {seen.dimension or 0:,}    noise multiplier {noise}",
            f"  the sum is divided by {divided}; sampling rate {rate}",
            f"  steps     {counted}",
            f"epsilon at delta = {spent.delta:g}",
            f"  claimed   {at_most(spent.claimed)}",
            f"  leakage   {_known(spent.leakage, at_least)}"
            + (f"    on this pair: {spent.pair}" if spent.pair else ""),
            f"  guarantee {_known(spent.guarantee, at_most)}",
            f"verdict     {self.verdict}",
            f"remedy      {self.remedy}",
        ]
        return "\n".join(rows + [f"- {note}" for note in spent.notes])


def inspect(
    engine_or_optimizer: Any,
    *,
    dataset_size: int | None = None,
    delta: float = 1e-5,
    batch_size: int | None = None,
    sample_rate: Rate | None = None,
) -> Inspection:
    """What the optimizer of a training script really releases, and what its steps so far have cost.

    `dataset_size` is the number of training records; add one, remove one: the worse of the two counts. `batch_size` is that of
    the data loader that make_private was given; without it every size that fits is considered. `sample_rate` says that the
    loader was given a rate that is public (`poisson_loader`); `fix` says so once and for all. Poisson sampling is taken for
    granted: with `poisson_sampling=False` no accountant's number means anything. In a script::

        print(noisymean.integrations.opacus.inspect(optimizer, dataset_size=len(train_set)))
    """
    if hasattr(engine_or_optimizer, "make_private"):
        engine, optimizer = engine_or_optimizer, optimizer_of(engine_or_optimizer.accountant)
        if dataset_size is None and engine.dataset is not None:
            dataset_size = len(engine.dataset)
    else:
        optimizer = engine_or_optimizer
    now, rate = see(optimizer), None if sample_rate is None else float(exact_rate(sample_rate))
    hook = told(optimizer)
    if hook is None:
        raise InvalidInput(
            "engine_or_optimizer",
            type(optimizer).__name__,
            "an optimizer that make_private returned",
            "it counts the steps",
        )
    stretches: list[Stretch]
    if hasattr(hook.accountant, "stretches"):
        dataset_size = dataset_size or hook.accountant.dataset_size
        batch_size = batch_size or hook.accountant.batch_size
        stretches = hook.accountant.stretches()
    else:
        stretches = [
            Stretch(noise_of(optimizer, sigma), at, steps, replace(now, accumulated=round(at / hook.sample_rate)))
            for sigma, at, steps in history_of(hook.accountant)
        ]
    taken = sum(one.steps for one in stretches)
    if not taken:
        stretches = [Stretch(noise_of(optimizer), hook.sample_rate, 1, now)]
    stretches = [promised(one, rate) for one in stretches]
    size = checked_size(dataset_size)
    found = cases(stretches, size, batch_size)
    spent = spent_by(stretches, found, delta)
    if batch_size is None and len({case.smaller for case in found}) < len(found):
        spent = replace(spent, notes=(*spent.notes, _AMBIGUOUS))
    mechanisms = tuple(dict.fromkeys(case.segments[-1][0] for case in found if case.segments is not None))
    known = all(case.segments is not None for case in found)
    name = " or ".join(dict.fromkeys(one.name.upper() for one in mechanisms)) if known else "unknown"
    return Inspection(
        name=name,
        mechanisms=mechanisms,
        dataset_size=size,
        stretches=tuple(stretches),
        taken=taken,
        spent=spent,
        remedy=_remedy(stretches[-1], mechanisms if known else (), spent.verdict, size),
    )


def checked_size(dataset_size: int | None) -> int:
    """The number of training records, which nothing can be said without."""
    if dataset_size is None:
        raise InvalidInput("dataset_size", None, "the number of training records", "e.g. dataset_size=len(train_set)")
    check_number("dataset_size", dataset_size, least=1, most=1e15)
    return int(dataset_size)


def spent_by(stretches: Sequence[Stretch], found: Sequence[Case], delta: float) -> Spent:
    """The three epsilons: over both pairs the worse, over batch sizes that cannot be told apart the safe side of each."""
    sound, notes = guaranteed(found, delta)
    leaks = dict[int, tuple[float, str]]()
    for case in found:
        leak = _case_leak(case, delta)
        leaks[case.smaller] = min(leak, leaks.get(case.smaller, leak))
    leaked, pair = max(leaks.values())
    claim = Claim(math.inf, math.inf)
    if all(one.noisy for one in stretches):
        claimed = run.merged([(one.claim, one.steps) for one in stretches])
        is_the_run = all(case.segments is not None and run.is_claimed(case.segments, claimed) for case in found)
        claim = Claim(*_claimed(claimed, delta), is_the_run)
    if pair:
        check_order(leaked, sound, f"{len(stretches)} stretches of a run")
    return Spent(
        delta=delta,
        claimed=float(claim.high),  # type: ignore[arg-type]
        leakage=leaked if pair else None,
        guarantee=sound,
        pair=pair or None,
        notes=notes,
        verdict=decide(claim, leaked if pair else None, sound),
    )


def guaranteed(found: Sequence[Case], delta: float) -> tuple[float | None, tuple[str, ...]]:
    """The epsilon that holds in every case; None, with the reasons, if one of them has no proof."""
    check_number("delta", delta, above=0.0, most=1.0)
    reasons = {case: _unproved(case) for case in found}
    notes = tuple(
        f"{case.smaller:,} records against {case.smaller + 1:,}: {why}" for case, why in reasons.items() if why
    )
    if notes:
        return None, tuple(dict.fromkeys(notes))
    sound = max(_guaranteed(run.merged(case.segments or ()), delta) for case in found)
    return (sound, ()) if math.isfinite(sound) else (None, ("the bound exceeds what double precision can hold",))


def _unproved(case: Case) -> str:
    """Why nothing is guaranteed; empty if something is."""
    if case.segments is None:
        return case.why_not
    try:
        run.guarantees(run.merged(case.segments))
    except Undefined as fault:
        return f"no guarantee is known: {fault}"
    return ""


def _case_leak(case: Case, delta: float) -> tuple[float, str]:
    """The most that is certainly lost, and on which pair; nothing where the mechanism is unknown or divides by zero."""
    if case.segments is None:
        return 0.0, ""
    try:
        return _leaked(run.merged(case.segments), delta)
    except Undefined:
        return 0.0, ""


_claimed = lru_cache(maxsize=64)(run.claimed_ends)
_leaked = lru_cache(maxsize=64)(run.leaked_epsilon)
_guaranteed = lru_cache(maxsize=64)(run.guaranteed_epsilon)


def _remedy(last: Stretch, mechanisms: Sequence[Mechanism], verdict: str, size: int) -> str:
    public, rate = last.seen.public, as_written(last.sample_rate)
    constant = bool(mechanisms) and all(isinstance(one, SGM) for one in mechanisms)
    if constant and public.sample_rate is not None:
        return "none needed: neither the denominator nor the rate depends on the data"
    steps = []
    if public.sample_rate is None:
        steps.append(f"make_private on poisson_loader(dataset, sample_rate='{rate}')")
    denominator = last.seen.denominator or max(round(size * last.sample_rate), 1)
    steps.append(f"fix(optimizer, denominator={denominator:g}, sample_rate='{rate}')")
    at_this_size = "none at this number of records; for every other: " if verdict == "holds" else ""
    return at_this_size + ", then ".join(steps)


def _known(value: float | None, rounded: Callable[[float], str]) -> str:
    return "none known" if value is None else rounded(value)
