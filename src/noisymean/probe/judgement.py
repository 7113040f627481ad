"""From a finding to the verdict on a user's run: what the accountant says of the mechanism, as far as it was established."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from noisymean.accountant import account
from noisymean.accounts import Account
from noisymean.errors import Undefined
from noisymean.mechanisms import Mechanism, Rate
from noisymean.probe.finding import Finding, RunVerdict
from noisymean.words import Said


def mechanism_of(
    found: Finding,
    *,
    dataset_size: int,
    dimension: int,
    noise_multiplier: float,
    sample_rate: Rate | None = None,
    batch_size: int | None = None,
) -> Mechanism:
    """The mechanism whose leakage is there whatever else is; a batch size is b/N where the code is told a rate."""
    if sample_rate is None and batch_size is not None and dataset_size:
        sample_rate = Fraction(batch_size, dataset_size)
    return found.at_least(
        dataset_size=dataset_size,
        dimension=dimension,
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        batch_size=batch_size,
    )


def judged(found: Finding, mechanism: Mechanism, *, steps: int, delta: float) -> Finding:
    """The finding with the verdict on so many rounds of the mechanism."""
    try:
        return replace(found, run=_verdict(found, account(mechanism, steps=steps, delta=delta)))
    except Undefined as fault:
        return refused(found, fault)


def refused(found: Finding, fault: Undefined) -> Finding:
    """The finding with the reason why there are no numbers."""
    return replace(found, run=RunVerdict("undetermined", str(fault)))


def _verdict(found: Finding, answer: Account) -> RunVerdict:
    """What the accountant says of the mechanism stands only as far as the mechanism was established."""
    if not found.doubts:
        return RunVerdict(answer.verdict, found.limits, answer)
    reason = "; ".join(remark.words for remark in found.doubts)
    kept = replace(
        answer,
        guarantee=replace(answer.guarantee, epsilon=None),
        neighbours=tuple(replace(one, guarantee=replace(one.guarantee, epsilon=None)) for one in answer.neighbours),
        verdict="undetermined" if answer.verdict == "holds" else answer.verdict,
        unproved=(*answer.unproved, Said(reason)),
    )
    return RunVerdict(kept.verdict, reason, kept)
