"""What the trials prove about a claim. The claim is a curve f; nothing here knows how it was computed.

f is refuted by a corner (alpha_r, beta_r) below it, or by more right guesses than its delta(0) allows. All of these hold
together, so a true claim is called violated with probability at most 1 - confidence. `not-violated` proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from noisymean.audit.estimate import Estimate
from noisymean.outward import at_least, at_most
from noisymean.tradeoff import Side, TradeOff

Word = Literal["violated", "not-violated"]


@final
@dataclass(frozen=True)
class TrialVerdict:
    """The word, and the statement that decides it."""

    word: Word
    reason: str


def judge(found: Estimate, claim: TradeOff) -> TrialVerdict:
    """Compare every statement of the audit with the claim, rounded in the claim's favour."""
    claimed_delta = float(claim.delta(0.0, Side.ABOVE))
    below = claim.lower(found.corner_alpha) - found.corner_beta
    deepest = int(np.argmax(below))
    by_guesses = found.delta_lower - claimed_delta
    if max(by_guesses, float(below[deepest])) <= 0.0:
        return TrialVerdict("not-violated", "no statement of this audit contradicts the claim, which does not prove it")
    if by_guesses >= below[deepest]:
        return TrialVerdict(
            "violated",
            f"delta(0) is at least {at_least(found.delta_lower, '.4g')} where at most"
            f" {at_most(claimed_delta, '.4g')} is claimed",
        )
    alpha, beta = float(found.corner_alpha[deepest]), float(found.corner_beta[deepest])
    claimed = beta + float(below[deepest])
    return TrialVerdict(
        "violated",
        f"at a false positive rate of at most {at_most(alpha, '.4g')} the false negative rate is at most"
        f" {at_most(beta, '.4g')} where at least"
        f" {at_least(claimed, '.4g')} is claimed",
    )
