"""One line in a training script: which mechanism runs, what it has cost so far, and what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from noisymean import accountant
from noisymean.accountant import Question
from noisymean.accounts import Account
from noisymean.errors import InvalidInput, Undefined, check_number
from noisymean.grounds import resting_on
from noisymean.integrations.opacus.facts import CalibratedTo, Case, Facts, Stretch, constants
from noisymean.integrations.opacus.grounds import grounds_of
from noisymean.integrations.opacus.inspected import Inspection, Spent, bound_text
from noisymean.integrations.opacus.neighbours import (
    allocation_code,
    as_written,
    cases,
    constant_code,
    loader_code,
    promised,
)
from noisymean.integrations.opacus.said import to_ask
from noisymean.integrations.opacus.sampler import TO_TELL, UNKNOWN, agreed, of_loader
from noisymean.integrations.opacus.sampler import told as sampling_told
from noisymean.integrations.opacus.seen import (
    Seen,
    clipper_of,
    earlier_of,
    history_of,
    made_poisson,
    noise_of,
    optimizer_of,
    optimizers_of,
    see,
    told,
)
from noisymean.mechanisms import SGM, Adjacency, Mechanism, Rate, Sampling, exact_rate
from noisymean.mechanisms.opacus_rate import steps_at_most
from noisymean.outward import at_least, at_most
from noisymean.pairs import Datasets
from noisymean.runs import Run
from noisymean.verdict import Claim, check_order, decide
from noisymean.words import TooLarge

_SHARED = "one accountant counts the steps of several optimizers: give each its own engine, or attach Accountant()"
_AMBIGUOUS = "several batch sizes fit, and leakage is the least of theirs; give batch_size= to be exact"


def inspect(
    engine_or_optimizer: Any,
    *,
    data_loader: Any = None,
    dataset_size: int | None = None,
    delta: float = 1e-5,
    batch_size: int | None = None,
    drop_last: bool | None = None,
    sample_rate: Rate | None = None,
    sampling: str | None = None,
    noise_multiplier: float | Sequence[float] | None = None,
    target_epsilon: float | None = None,
    target_delta: float | str | None = None,
    epochs: int | None = None,
) -> Inspection:
    """What the optimizer of a training script really releases, and what its steps so far have cost.

    `data_loader` is the one that make_private returned and that the batches come from: it shows how they are drawn, and of how
    many records (`dataset_size`, otherwise). If you draw them yourself, say how: `sampling="poisson"`, and `sample_rate` if the
    rate is public; or `sampling="shuffle"`, and `batch_size`. `batch_size` and `drop_last` are those of the loader that
    make_private was *given*; without them all that fit are considered. After make_private_with_epsilon repeat its
    `target_epsilon`, `target_delta` and `epochs`: the noise then comes from the number of records. Where a noise multiplier only
    looks as if, `noise_multiplier` says that it is yours, or that those of a schedule are. One record may be added or removed:
    the worse of the two counts. In a script::

        print(noisymean.integrations.opacus.inspect(optimizer, data_loader=loader))
    """
    if hasattr(engine_or_optimizer, "make_private"):
        engine, optimizer = engine_or_optimizer, optimizer_of(engine_or_optimizer.accountant)
        if dataset_size is None and engine.dataset is not None:
            dataset_size = len(engine.dataset)
    else:
        optimizer = engine_or_optimizer
    shown = UNKNOWN if data_loader is None else of_loader(data_loader)
    drawn = agreed(shown, sampling_told(sampling))
    now = see(optimizer, drawn=drawn, clips=clipper_of(optimizer))
    rate = None if sample_rate is None else float(exact_rate(sample_rate))
    hook = told(optimizer)
    if hook is None:
        raise InvalidInput(
            "engine_or_optimizer",
            type(optimizer).__name__,
            "an optimizer that make_private returned",
            "it counts the steps",
        )
    if rate not in (None, hook.sample_rate):
        raise InvalidInput("sample_rate", str(sample_rate), f"the rate of the data loader, {hook.sample_rate:.9g}")
    ours = hasattr(hook.accountant, "stretches")
    if not ours and shown.sampling not in (None, Sampling.POISSON) and made_poisson(optimizer):
        raise InvalidInput(
            "data_loader",
            shown.in_words,
            "the one that make_private returned: it made another of the one that it was given, which samples",
            f"if batches come from this one all the same, say sampling='{shown.in_words}' and batch_size in its place",
        )
    if ours:
        dataset_size = dataset_size or hook.accountant.dataset_size
        batch_size = batch_size or hook.accountant.batch_size
        drop_last = hook.accountant.drop_last if drop_last is None else drop_last
        noise_multiplier = noise_multiplier or hook.accountant.noise_multiplier
        # what the accountant has seen by itself, unless what is shown or said now speaks against it
        stretches = [
            replace(one, seen=replace(one.seen, drawn=agreed(one.seen.drawn, drawn)))
            for one in hook.accountant.stretches()
        ]
    else:
        if len(optimizers_of(hook.accountant)) > 1:
            now = replace(now, fault=_SHARED)
        stretches = _from_history(optimizer, history_of(hook.accountant), hook.sample_rate, now)
    taken = sum(one.steps for one in stretches)
    if not taken:
        seen = replace(now, drawn=agreed(hook.drawn, drawn), noise_from_records=hook.noise_from_records)
        one = Stretch(noise_of(optimizer), hook.sample_rate, 1, seen)
        stretches = [replace(one, steps=one.in_epoch) if one.by_epochs else one]
    stretches = [promised(one, rate) for one in stretches]
    seen_records = stretches[-1].seen.drawn.records
    facts = Facts(
        checked_size(dataset_size if dataset_size is not None else seen_records),
        batch_size,
        drop_last,
        constants(noise_multiplier),
        _target(target_epsilon, target_delta, epochs, hook.accountant),
    )
    found = cases(stretches, facts)
    spent = spent_by(stretches, found, facts, delta, taken=bool(taken))
    if batch_size is None and len({case.smaller for case in found}) < len(found):
        spent = replace(spent, notes=(*spent.notes, _AMBIGUOUS))
    mechanisms = tuple(dict.fromkeys(case.segments[-1][0] for case in found if case.segments is not None))
    known = all(case.segments is not None for case in found)
    name = " or ".join(dict.fromkeys(one.name.upper() for one in mechanisms)) if known else "unknown"
    return Inspection(
        name=name,
        mechanisms=mechanisms,
        dataset_size=facts.dataset_size,
        stretches=tuple(stretches),
        taken=taken,
        spent=spent,
        remedy=_remedy(stretches, mechanisms if known else (), spent, facts.dataset_size),
        watched=ours,
        asked=to_ask(
            hook.accountant, delta, ours=ours, same_claim=noise_of(optimizer) == float(optimizer.noise_multiplier)
        ),
    )


def _from_history(optimizer: Any, history: Any, told_rate: float, now: Seen) -> list[Stretch]:
    """Steps that Opacus' own accountant has counted: as they are now, but for those before a fix."""
    # what speaks against the steps now may have spoken against those before
    phases = [
        (steps, replace(seen, drawn=now.drawn, fault=seen.fault or now.fault)) for steps, seen in earlier_of(optimizer)
    ]
    stretches = []
    for sigma, rate, steps in history:
        left = steps
        while left:
            if not phases:
                phases = [(left, now)]
            count, seen = min(phases[0][0], left), phases[0][1]
            phases = [(phases[0][0] - count, seen), *phases[1:]] if phases[0][0] > count else phases[1:]
            batches = round(rate / told_rate)
            # batches that are put together have the rate of each of them, together
            seen = replace(seen, accumulated=batches if rate == told_rate * batches else 0)
            stretches.append(Stretch(noise_of(optimizer, sigma), rate, count, seen))
            left -= count
    return stretches


def _target(
    epsilon: float | None, delta: float | str | None, epochs: int | None, accountant: Any
) -> CalibratedTo | None:
    told = {"target_epsilon": epsilon, "target_delta": delta, "epochs": epochs}
    missing = [name for name, value in told.items() if value is None]
    if len(missing) == len(told):
        return None
    if epsilon is None or delta is None or epochs is None:
        raise InvalidInput(missing[0], None, "given with the others", "repeat what make_private_with_epsilon was told")
    return CalibratedTo(epsilon, delta, epochs, accountant.mechanism())


def checked_size(dataset_size: int | None) -> int:
    """The number of training records, which nothing can be said without."""
    if dataset_size is None:
        raise InvalidInput("dataset_size", None, "the number of training records", "e.g. dataset_size=len(train_set)")
    check_number("dataset_size", dataset_size, least=1, most=1e15)
    return int(dataset_size)


def spent_by(
    stretches: Sequence[Stretch], found: Sequence[Case], facts: Facts, delta: float, *, taken: bool = True
) -> Spent:
    """The three epsilons: over both pairs the worse, over batch sizes that cannot be told apart the safe side of each."""
    sound, notes = guaranteed(found, delta)
    leaks = dict[int, _Leak]()
    for case in found:
        leak = _case_leak(case, delta)
        leaks[case.smaller] = min(leak, leaks.get(case.smaller, leak), key=_size)
    leaked, pair = max(leaks.values(), key=_size)
    claim = Claim(math.inf, math.inf)
    if all(one.noisy for one in stretches):
        claimed = Run.of((one.claim, one.steps) for one in stretches).merged()
        is_the_run = all(
            case.is_poisson and case.run.is_sum and case.run.sums() == claimed.told_sums() for case in found
        )
        claim = Claim(*_claimed(claimed, Question(delta)), is_the_run)
    if pair:
        check_order(leaked, sound, f"{len(stretches)} stretches of a run")
    grounds = grounds_of(stretches, facts, taken=taken)
    return Spent(
        delta=delta,
        claimed=float(claim.high),  # type: ignore[arg-type]
        leakage=leaked if pair else None,
        guarantee=sound,
        pair=pair,
        notes=(*notes, *_of_one_size(stretches, found, delta)),
        verdict=resting_on(decide(claim, leaked if pair else None, sound), grounds),
        grounds=grounds,
    )


def guaranteed(found: Sequence[Case], delta: float) -> tuple[float | None, tuple[str, ...]]:
    """The epsilon that holds in every case; None, with the reasons, if one of them has no proof."""
    check_number("delta", delta, above=0.0, most=1.0)
    reasons = ((case.smaller, _unproved(case)) for case in found)
    notes = dict.fromkeys(f"{size:,} records against {size + 1:,}: {why}" for size, why in reasons if why)
    if notes:
        return None, tuple(notes)
    sound = max(_guaranteed(case.run, Question(delta)).value for case in found)
    return (sound, ()) if math.isfinite(sound) else (None, (str(TooLarge()),))


def _of_one_size(stretches: Sequence[Stretch], found: Sequence[Case], delta: float) -> Iterator[str]:
    """What batches that are not drawn by Poisson sampling lose to neighbours of the same size, where that is another number."""
    known = [case.segments for case in found if case.segments is not None]
    if len(known) < len(found) or any(not one.by_epochs or one.seen.counts for one in stretches):
        return
    if stretches[0].seen.drawn.sampling is Sampling.BALLS_IN_BINS and all(
        isinstance(one, SGM) for segments in known for one, _ in segments
    ):
        # allocation to batches that are divided by a constant: one record added is one that was zero
        return
    # the training set is the smaller one of a pair; of several loaders that it may have had nobody knows which
    *others, segments = (case.segments or () for case in sorted(found, key=lambda case: case.smaller))
    if len(others) > 1:
        return
    alike = tuple(
        (_of_size(one, mechanism), one.steps) for one, (mechanism, _) in zip(stretches, segments, strict=True)
    )
    try:
        answer = _accounted(alike, delta, Adjacency.ZERO_OUT)
    except Undefined:
        return
    yield (
        "for neighbours of the same size, one record's gradient set to zero (zero-out):"
        f" leakage {bound_text(answer.leakage.epsilon, at_least)}, guarantee {bound_text(answer.guarantee.epsilon, at_most)}"
    )


def _of_size(stretch: Stretch, mechanism: Mechanism) -> SGM:
    """The same with a denominator that neighbours of one size share. `mechanism` has the training set for its smaller dataset."""
    cut = stretch.seen.drawn.is_cut
    return SGM(
        sample_rate=as_written(stretch.sample_rate),
        noise_multiplier=stretch.noise_multiplier,
        sampling=mechanism.sampling,
        dataset_size=mechanism.dataset_size if cut else None,
        batch_size=mechanism.size_of_batches if cut else None,
        drop_last=mechanism.drops_last if cut else False,
    )


def _unproved(case: Case) -> str:
    """Why nothing is guaranteed; empty if something is."""
    if case.segments is None:
        return case.why_not
    try:
        case.run.guarantees()
    except Undefined as fault:
        return f"no guarantee is known: {fault}"
    return ""


# The most that is certainly lost, and on which pair; no pair where nothing is known to be lost.
_Leak: TypeAlias = tuple[float, Datasets | None]


def _size(leak: _Leak) -> tuple[float, bool]:
    """What leaks are compared by: something that is known is more than nothing, be it 0."""
    epsilon, pair = leak
    return epsilon, pair is not None


def _case_leak(case: Case, delta: float) -> _Leak:
    """The most that is certainly lost, and on which pair; nothing where the mechanism is unknown or divides by zero."""
    if case.segments is None:
        return 0.0, None
    try:
        found = _leaked(case.run, Question(delta))
    except Undefined:
        return 0.0, None
    return found.value, found.pair


_claimed = lru_cache(maxsize=64)(accountant.claimed_interval)
_leaked = lru_cache(maxsize=64)(accountant.leaked)
_guaranteed = lru_cache(maxsize=64)(accountant.guaranteed)


@lru_cache(maxsize=64)
def _accounted(run: tuple[tuple[Mechanism, int], ...], delta: float, adjacency: Adjacency) -> Account:
    return accountant.account(run, delta=delta, adjacency=adjacency)


def _remedy(stretches: Sequence[Stretch], mechanisms: Sequence[Mechanism], spent: Spent, size: int) -> str:
    last = stretches[-1]
    public, batches = last.seen.public, max(last.seen.accumulated, 1)
    # of several batches for a step, each has its share of the rate
    rate = as_written(last.sample_rate) if batches == 1 else Fraction(1, max(round(batches / last.sample_rate), 1))
    constant = bool(mechanisms) and all(isinstance(one, SGM) for one in mechanisms)
    if constant and public.sample_rate is not None:
        if last.by_epochs and spent.verdict != "holds" and spent.guarantee is not None:
            return "report the guarantee: it is for random allocation, and the claim for Poisson sampling"
        return "none needed: neither the denominator nor the rate depends on the data"
    if public.denominator is not None and last.seen.drawn.public_rate and last.seen.drawn.rate == last.sample_rate:
        return "none for the loader or the denominator, which depend on no data; what is missing is said below"
    if last.seen.drawn.poisson is None:
        # what is to be changed is seen after that
        return f"{TO_TELL}, and look again"
    denominator = constant_code(last.seen.denominator or float(max(round(size * last.sample_rate), 1)))
    told = f"sample_rate='{rate}'"
    steps = []
    if public.sample_rate is None or last.seen.drawn.public_rate or last.seen.drawn.is_cut:
        # a loader shows its rate, which need not be said then
        told = "data_loader=loader"
    if last.seen.drawn.other or last.seen.drawn.is_cut:
        poisson, allocated = _costs(stretches, mechanisms, rate, spent.delta)
        steps.append(
            f"give make_private {loader_code(rate)}{poisson}, or {allocation_code(rate)} with"
            f" poisson_sampling=False{allocated}, and take the loader that it returns"
        )
    elif public.sample_rate is None or last.seen.drawn.rate not in (None, last.sample_rate):
        steps.append(f"give make_private {loader_code(rate)} and take the loader that it returns")
    steps.append(f"fix(optimizer, denominator={denominator}, {told})")
    at_this_size = "none at this number of records; for every other: " if spent.verdict == "holds" else ""
    return at_this_size + ", then ".join(steps)


def _costs(
    stretches: Sequence[Stretch], mechanisms: Sequence[Mechanism], rate: Fraction, delta: float
) -> tuple[str, str]:
    """In brackets, what as many steps cost under Poisson sampling and under random allocation; nothing of an unknown run."""
    if not mechanisms:
        return "", ""
    found = []
    for sampling, at in ((Sampling.POISSON, Fraction(1, steps_at_most(rate))), (Sampling.BALLS_IN_BINS, rate)):
        run = [
            (SGM(sample_rate=at, noise_multiplier=one.noise_multiplier, sampling=sampling), one.steps)
            for one in stretches
        ]
        epsilon = _accounted(tuple(run), delta, Adjacency.ADD_REMOVE).guarantee.epsilon
        found.append("" if epsilon is None else f" (epsilon {at_most(epsilon, '.4g')})")
    return found[0], found[1]
