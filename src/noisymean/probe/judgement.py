"""From a finding to the verdict on a user's run: what the accountant says of the mechanism, as far as it was established."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from noisymean.accountant import account
from noisymean.accounts import Account
from noisymean.errors import Undefined
from noisymean.mechanisms import Mechanism
from noisymean.probe.finding import Finding, RunNumbers, RunVerdict, Sampling
from noisymean.probe.laws import Kind
from noisymean.words import Said


def judged(found: Finding, numbers: RunNumbers, *, steps: int | Callable[[Mechanism], int], delta: float) -> Finding:
    """The finding with the verdict on so many rounds at these numbers, or with the reason why there are none.

    `steps` may be a function of the mechanism that was found. A batch size is b/N where the code is told a rate.
    """
    size, batch = numbers["dataset_size"], numbers.get("batch_size")
    if numbers.get("sample_rate") is None and batch is not None and size:
        numbers = {**numbers, "sample_rate": Fraction(batch, size)}
    try:
        # its leakage is there whatever else is; whether its guarantee is, is decided below
        mechanism = found.at_least(**numbers)
        count = steps if isinstance(steps, int) else steps(mechanism)
        return replace(found, run=verdict_on(found, account(mechanism, steps=count, delta=delta)))
    except Undefined as fault:
        return replace(found, run=RunVerdict("undetermined", str(fault)))


def verdict_on(found: Finding, answer: Account) -> RunVerdict:
    """What the accountant says of the mechanism stands only as far as the mechanism was established."""
    if not found.doubts:
        return RunVerdict(answer.verdict, found.limits, answer)
    kept = replace(
        answer,
        guarantee=replace(answer.guarantee, epsilon=None),
        neighbours=tuple(replace(one, guarantee=replace(one.guarantee, epsilon=None)) for one in answer.neighbours),
        verdict="undetermined" if answer.verdict == "holds" else answer.verdict,
        unproved=(*answer.unproved, Said(found.reasons)),
    )
    return RunVerdict(kept.verdict, found.reasons, kept)


def obstacle(found: Finding) -> str | None:
    """What the probe could not establish."""
    if found.kind is Kind.UNKNOWN:
        return f"its denominator is not known ({found.denominator})"
    if found.rates.sampling in (Sampling.UNKNOWN, Sampling.SHUFFLED, Sampling.PARTS):
        return f"its sampling is {found.rates.sampling.value}, which no accounting here covers"
    if not found.noise.shares_denominator:
        return "its noise was not seen to be divided by what the gradients are divided by"
    if not found.clipping.sound:
        return "that it clips was not seen"
    return None
