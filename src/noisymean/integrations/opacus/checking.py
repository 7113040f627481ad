"""The scorecard of an engine, or of the optimizer that make_private returned: what `inspect` sees, pitfall by pitfall.

What was seen may pass. What somebody only says may not, nor what nobody looks at as long as Opacus' own accountant counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from noisymean.grounds import About, Known
from noisymean.integrations.opacus import seen as opacus
from noisymean.integrations.opacus.facts import Stretch
from noisymean.integrations.opacus.inspected import Inspection
from noisymean.integrations.opacus.inspection import inspect
from noisymean.integrations.opacus.sampler import Drawn, makes_up_records
from noisymean.integrations.opacus.watch import Watch
from noisymean.scorecard import pitfalls
from noisymean.scorecard.pitfalls import Pitfall
from noisymean.scorecard.value import Fact, Outcome, Scorecard, Subject

# Whoever tries all seeds of so many bits is done in hours.
_FEWEST_SEEDS = 2**40
# What torch.Generator() begins with, everywhere.
_UNSEEDED = torch.Generator().initial_seed()
_LOOKS = "Accountant() looks at each step"
_LOSS = "whether the loss is a mean over the batch, as make_private takes it, a run does not show: check the script"
_NOW = "as the optimizer is now"


@final
@dataclass(frozen=True)
class _Engine:
    """What is looked at, and what `inspect` made of it."""

    optimizer: Any
    loader: Any
    found: Inspection
    # of each step, by our own accountant; None where another one counts
    watch: Watch | None

    @property
    def fault(self) -> str:
        """Why some step was not the one that is analysed; empty if nothing speaks against any."""
        return next((one.seen.fault for one in self.found.stretches if one.seen.fault), "")

    @property
    def several(self) -> str:
        """That a step was taken on more than one batch; empty if none was."""
        number = next((one.seen.accumulated for one in self.found.stretches if one.seen.accumulated != 1), None)
        if number is None:
            return ""
        return f"a step was taken on {number} batches" if number else "a step was taken on batches of another rate"

    @property
    def _own(self) -> list[Stretch]:
        """As our own accountant saw them: a loader that is shown afterwards need not be the one that the steps came from."""
        hook = opacus.told(self.optimizer)
        return [] if hook is None or self.watch is None else list(hook.accountant.stretches())

    @property
    def drawn(self) -> list[Drawn]:
        """How the batches of each stretch were drawn, by who looked at them; else by the loader that is shown."""
        own = self._own
        seen = own if len(own) == len(self.found.stretches) else self.found.stretches
        return [one.seen.drawn for one in seen]

    @property
    def looked(self) -> bool:
        """Whether steps were taken, and each of them was looked at when it was, with the batches of a loader that is known."""
        if self.watch is None or not self.found.taken:
            return False
        own = self._own
        return all(
            not one.seen.announced and one.seen.drawn.known is Known.SEEN and one.seen.drawn.sampling for one in own
        )


def check(engine_or_optimizer: Any, *, data_loader: Any = None, delta: float | None = None, **told: Any) -> Scorecard:
    """One line for each known pitfall of training with DP, of a run with Opacus: passed, found, or not checkable here.

    Everything that `inspect` takes may be told; `data_loader` is the one that make_private returned. A line is passed where the
    run shows it, and not where somebody only says so. Nothing is trained to see it. In a script::

        print(noisymean.integrations.opacus.check(optimizer, data_loader=loader))
    """
    found = inspect(
        engine_or_optimizer, data_loader=data_loader, **(told if delta is None else {**told, "delta": delta})
    )
    is_engine = hasattr(engine_or_optimizer, "make_private")
    optimizer = opacus.optimizer_of(engine_or_optimizer.accountant) if is_engine else engine_or_optimizer
    watch = getattr(optimizer.step_hook, "watch", None)
    looked = _Engine(optimizer, data_loader, found, watch if isinstance(watch, Watch) else None)
    facts = [
        _denominator(looked),
        *_of_the_optimizer(looked),
        _sampling(looked),
        _rate(looked),
        _sigma(looked, told),
        _delta(looked, delta, told),
        _accumulation(looked),
        _empty(looked),
        *_randomness(looked),
        Fact(
            pitfalls.NEIGHBOURS,
            Outcome.NOT_CHECKABLE,
            "accountants of Opacus count a record added or removed; whether a report says so is not in view",
        ),
        _crossing(looked),
        Fact(
            pitfalls.NOT_FINITE,
            Outcome.NOT_CHECKABLE,
            "Opacus lets a gradient of NaN pass; whether one can be is not in view",
        ),
    ]
    return Scorecard.of(Subject.ENGINE, type(engine_or_optimizer).__name__, facts, trains=True)


def _fact(pitfall: Pitfall, outcome: Outcome, says: str) -> Fact:
    return Fact(pitfall, outcome, says)


# --- the optimizer ----------------------------------------------------------------------------------------------------------


def _denominator(looked: _Engine) -> Fact:
    pitfall = pitfalls.DENOMINATOR
    if changed := opacus.changed(looked.optimizer):
        return _fact(pitfall, Outcome.NOT_CHECKABLE, changed)
    for one in looked.found.stretches:
        seen = one.seen
        if seen.divides_count:
            return _fact(pitfall, Outcome.FOUND, "the count of unclipped gradients is divided by the size of the batch")
        if seen.denominator is None or seen.public.denominator is not None:
            continue
        if seen.denominator == float(int(looked.found.dataset_size * one.sample_rate)):
            return _fact(
                pitfall, Outcome.FOUND, f"divides by {seen.denominator:g}, which make_private computes from the records"
            )
        says = f"divides by {seen.denominator:g}, and nobody sees where it comes from: fix(optimizer, denominator=...)"
        return _fact(pitfall, Outcome.NOT_CHECKABLE, says)
    if looked.fault:
        return _fact(pitfall, Outcome.NOT_CHECKABLE, looked.fault)
    last = looked.found.stretches[-1].seen
    if last.denominator is None:
        return _fact(pitfall, Outcome.PASSED, "nothing is divided (loss_reduction='sum')")
    return _fact(pitfall, Outcome.PASSED, f"divides by {last.denominator:g}, a constant that fix was given")


def _of_the_optimizer(looked: _Engine) -> Iterator[Fact]:
    """What the class of the optimizer sees to, as long as it is Opacus' own and nobody changed it."""
    optimizer, clips = looked.optimizer, opacus.clipper_of(looked.optimizer)
    steps = (pitfalls.NOISE_APART, pitfalls.OTHER_BOUND, pitfalls.CLIPPING, pitfalls.NO_NOISE)
    if looked.watch is not None and looked.watch.noise_missing:
        yield _fact(
            pitfalls.NO_NOISE, Outcome.FOUND, "a step was taken without noise, whatever the noise multiplier is"
        )
    if changed := opacus.changed(optimizer):
        yield from (_fact(one, Outcome.NOT_CHECKABLE, changed) for one in steps)
        return
    name = type(optimizer).__name__
    otherwise = opacus.clipped_otherwise(optimizer, clips)
    nothing_clips = opacus.is_ghost(optimizer) and clips is None
    fault = "" if otherwise else looked.fault
    if fault:
        yield _fact(pitfalls.NOISE_APART, Outcome.NOT_CHECKABLE, fault)
    else:
        yield _fact(
            pitfalls.NOISE_APART, Outcome.PASSED, f"{name} adds the noise to the sum, before any division, {_NOW}"
        )
    for pitfall, is_it, outcome, says in (
        (pitfalls.OTHER_BOUND, bool(otherwise) and not nothing_clips, Outcome.PASSED, f"one bound for both, {_NOW}"),
        # of a loss that is a sum each gradient grows with the batch before it is clipped, and nothing in a run tells
        (pitfalls.CLIPPING, nothing_clips, Outcome.NOT_CHECKABLE, f"{name} clips each record; {_LOSS}"),
    ):
        if is_it:
            yield _fact(pitfall, Outcome.FOUND, otherwise)
        elif otherwise or fault:
            yield _fact(pitfall, Outcome.NOT_CHECKABLE, otherwise or fault)
        else:
            yield _fact(pitfall, outcome, says)
    least = min(one.noise_multiplier for one in looked.found.stretches)
    if not all(one.noisy for one in looked.found.stretches):
        yield _fact(pitfalls.NO_NOISE, Outcome.FOUND, f"the noise multiplier is {least:g}")
    elif fault:
        yield _fact(pitfalls.NO_NOISE, Outcome.NOT_CHECKABLE, fault)
    else:
        yield _fact(pitfalls.NO_NOISE, Outcome.PASSED, f"{name} adds noise in each step, multiplier {least:g}")


# --- batches ----------------------------------------------------------------------------------------------------------------


def _sampling(looked: _Engine) -> Fact:
    pitfall = pitfalls.SAMPLING
    drawn = looked.drawn
    strange = next((one for one in drawn if one.poisson is False), None)
    if strange is not None and not (looked.found.watched and not strange.other):
        return _fact(pitfall, Outcome.FOUND, f"{strange.in_words} ({strange.how}), accounted for as Poisson")
    if looked.fault or looked.several:
        return _fact(pitfall, Outcome.NOT_CHECKABLE, looked.fault or looked.several)
    unknown = next((one for one in drawn if one.sampling is None or one.known is not Known.SEEN), None)
    if unknown is not None:
        return _fact(pitfall, Outcome.NOT_CHECKABLE, unknown.how)
    if strange is not None and looked.looked:
        # our own accountant knows the ways that are analysed
        if looked.found.spent.guarantee is None:
            return _fact(pitfall, Outcome.NOT_CHECKABLE, f"{strange.in_words}, and no guarantee is known")
        return _fact(pitfall, Outcome.PASSED, f"{strange.in_words}, and Accountant() counts it as that")
    if not looked.looked:
        says = f"{drawn[-1].in_words} ({drawn[-1].how}); whether steps are on its batches is not seen: {_LOOKS}"
        return _fact(pitfall, Outcome.NOT_CHECKABLE, says)
    return _fact(pitfall, Outcome.PASSED, f"Poisson: {drawn[-1].how}")


def _rate(looked: _Engine) -> Fact:
    pitfall = pitfalls.RATE
    for one, drawn in zip(looked.found.stretches, looked.drawn, strict=True):
        written = f"{one.sample_rate:.6g}"
        if drawn.public_rate and drawn.known is Known.SEEN and drawn.rate == one.sample_rate:
            continue
        if one.seen.public.sample_rate is not None:
            return _fact(pitfall, Outcome.NOT_CHECKABLE, f"{written}, which is said to be a constant")
        if drawn.known is Known.SEEN:
            return _fact(
                pitfall, Outcome.FOUND, f"{written}, from the length of the loader, which comes from the records"
            )
        return _fact(pitfall, Outcome.NOT_CHECKABLE, drawn.how)
    if looked.fault or looked.several:
        return _fact(pitfall, Outcome.NOT_CHECKABLE, looked.fault or looked.several)
    return _fact(
        pitfall, Outcome.PASSED, f"{looked.found.stretches[-1].sample_rate:.6g}, a constant that the loader was given"
    )


def _accumulation(looked: _Engine) -> Fact:
    pitfall = pitfalls.ACCUMULATION
    if looked.watch is not None and looked.watch.why_not and not looked.watch.skipped_empty:
        return _fact(pitfall, Outcome.FOUND, looked.watch.why_not)
    if looked.several:
        return _fact(pitfall, Outcome.FOUND, looked.several)
    if looked.fault:
        return _fact(pitfall, Outcome.NOT_CHECKABLE, looked.fault)
    if not looked.looked:
        return _fact(pitfall, Outcome.NOT_CHECKABLE, f"nobody has looked at the steps: {_LOOKS}")
    return _fact(pitfall, Outcome.PASSED, f"each of {looked.found.taken:,} steps was on one new batch of the loader")


def _empty(looked: _Engine) -> Fact:
    pitfall = pitfalls.EMPTY
    if looked.loader is not None and makes_up_records(looked.loader.collate_fn):
        return _fact(pitfall, Outcome.FOUND, "rand_on_empty: an empty batch is replaced by a record that is made up")
    if looked.watch is not None and looked.watch.skipped_empty:
        return _fact(pitfall, Outcome.FOUND, looked.watch.why_not)
    if looked.fault or looked.several:
        return _fact(pitfall, Outcome.NOT_CHECKABLE, looked.fault or looked.several)
    if not looked.looked:
        return _fact(pitfall, Outcome.NOT_CHECKABLE, f"nobody has looked whether each batch had its step: {_LOOKS}")
    return _fact(pitfall, Outcome.PASSED, f"no empty batch was left out before one of {looked.found.taken:,} steps")


# --- numbers ----------------------------------------------------------------------------------------------------------------


def _sigma(looked: _Engine, told: dict[str, Any]) -> Fact:
    pitfall, stretches = pitfalls.SIGMA, looked.found.stretches
    if any(one.seen.noise_from_records for one in stretches):
        return _fact(pitfall, Outcome.FOUND, "make_private_with_epsilon computed it from the rate of the loader")
    if told.get("target_epsilon") is not None and not all(one.seen.noise_from_records is False for one in stretches):
        return _fact(
            pitfall, Outcome.FOUND, f"calibrated to epsilon = {told['target_epsilon']:g} at the rate of the loader"
        )
    ground = next(one for one in looked.found.spent.grounds if one.about is About.NOISE)
    outcome = Outcome.PASSED if ground.known is Known.SEEN else Outcome.NOT_CHECKABLE
    return _fact(pitfall, outcome, f"{ground.value}: {ground.how}")


def _delta(looked: _Engine, delta: float | None, told: dict[str, Any]) -> Fact:
    pitfall, size = pitfalls.DELTA, looked.found.dataset_size
    target = told.get("target_delta")
    for one in (delta, target):
        if one == "1/N" or (one is not None and float(one) in (1.0 / size, 1.0 / (size + 1))):
            return _fact(pitfall, Outcome.FOUND, f"one over the number of records, {size:,}")
    return _fact(pitfall, Outcome.NOT_CHECKABLE, "an engine has no delta, and nobody sees where a number comes from")


def _randomness(looked: _Engine) -> Iterator[Fact]:
    optimizer = looked.optimizer
    if bool(getattr(optimizer, "secure_mode", False)):
        says = "secure_mode: random numbers of the operating system"
        for pitfall in (pitfalls.SEED, pitfalls.REUSED):
            fault = looked.fault
            yield _fact(pitfall, Outcome.NOT_CHECKABLE if fault else Outcome.PASSED, fault or says)
        yield _fact(pitfalls.FLOATING, Outcome.PASSED, "secure_mode: each noise is a sum of several")
        return
    yield _fact(pitfalls.FLOATING, Outcome.NOT_CHECKABLE, f"secure_mode is off: {pitfalls.FLOATING.instead}")
    generator = optimizer.generator
    on_cpu = all(one.device.type == "cpu" for one in optimizer.params)
    seed = generator.initial_seed() if generator is not None else torch.initial_seed() if on_cpu else None
    if generator is not None and seed == _UNSEEDED:
        yield _fact(pitfalls.SEED, Outcome.FOUND, "torch.Generator() begins with the same number everywhere: seed it")
    elif seed is not None and 0 <= seed < _FEWEST_SEEDS:
        yield _fact(
            pitfalls.SEED, Outcome.FOUND, f"the seed of the generator is {seed} now, which can be found by trying"
        )
    else:
        yield _fact(pitfalls.SEED, Outcome.NOT_CHECKABLE, "nobody sees where the seed of the generator comes from")
    if looked.watch is not None and looked.watch.noise_again:
        yield _fact(pitfalls.REUSED, Outcome.FOUND, "the noise of one step is that of another")
    elif looked.fault:
        yield _fact(pitfalls.REUSED, Outcome.NOT_CHECKABLE, looked.fault)
    elif looked.looked and noises_seen(optimizer) >= looked.found.taken:
        yield _fact(
            pitfalls.REUSED, Outcome.PASSED, f"the noise of {looked.found.taken:,} steps was looked at, each is another"
        )
    else:
        yield _fact(pitfalls.REUSED, Outcome.NOT_CHECKABLE, f"nobody has looked at the noise of each step: {_LOOKS}")


def noises_seen(optimizer: Any) -> int:
    """How many different noises the accountant of an optimizer has seen."""
    hook = opacus.told(optimizer)
    used = None if hook is None else getattr(hook.accountant, "noises_seen", None)
    return 0 if used is None else int(used)


def _crossing(looked: _Engine) -> Fact:
    """Layers in which records meet; what a forward of one's own does is not in view."""
    norm = nn.modules.batchnorm._BatchNorm
    named = {
        type(one).__name__
        for model in opacus.models_of(looked.optimizer)
        for one in model.modules()
        if isinstance(one, norm)
    }
    if named:
        says = f"{', '.join(sorted(named))}: statistics of the batch"
        return _fact(pitfalls.CROSSING, Outcome.FOUND, says)
    return _fact(
        pitfalls.CROSSING,
        Outcome.NOT_CHECKABLE,
        "no batch normalization; what else layers compute together is not in view",
    )
