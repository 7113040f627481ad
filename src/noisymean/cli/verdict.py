"""What the curves of one round prove about the claim, in one word and one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.mechanisms import FEASGM, Mechanism, denominator_step, nearest_step
from noisymean.one_round import Curves, leakage
from noisymean.outward import at_least, at_most
from noisymean.pairs import Datasets
from noisymean.verdict import Word


@final
@dataclass(frozen=True)
class Gap:
    """Where an attacker beats the claim by most, and on which pair of datasets."""

    alpha: float
    claimed: float
    leakage: float
    pair: Datasets

    @property
    def size(self) -> float:
        """By how much the false negative rate is below the claimed one."""
        return self.claimed - self.leakage


@final
@dataclass(frozen=True)
class Verdict:
    """violated: an attacker proves it; holds: a theorem proves it; undetermined: neither does."""

    word: Word
    sentence: str
    gap: Gap | None = None


def judge(curves: Curves) -> Verdict:
    """The verdict at the alpha of `curves`; 0 and 1, where every curve is 1 and 0, are no evidence."""
    inner = (curves.alpha > 0.0) & (curves.alpha < 1.0)
    violated = curves.violated & inner
    word = curves.verdict
    if word == "violated":
        gap = _largest_gap(curves, violated)
        return Verdict(
            "violated",
            f"The claim is violated: at alpha = {gap.alpha:g} an attacker has false negative rate {at_most(gap.leakage)} where"
            f" at least {at_least(gap.claimed)} is claimed ({gap.size:.3g} less), on this pair: {gap.pair}.",
            gap,
        )
    count = int(inner.sum())
    where = f"at every alpha looked at ({count} in (0, 1))"
    if word == "holds":
        return Verdict(
            "holds",
            "The claim holds, for batches drawn by Poisson sampling and one record added: the guarantee is at least as good"
            f" {where}.",
        )
    if not count:
        return Verdict("undetermined", "The claim is undetermined: no alpha between 0 and 1 was looked at.")
    return Verdict(
        "undetermined",
        f"The claim is undetermined: no pair we know violates it and no guarantee we know proves it {where}.",
    )


def _largest_gap(curves: Curves, violated: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Gap:
    at = int(np.argmax(np.where(violated, curves.claimed - curves.leakage, -np.inf)))
    leak = leakage(curves.mechanism)
    _, winner = leak.best(curves.alpha[[at]])
    return Gap(
        alpha=float(curves.alpha[at]),
        claimed=float(curves.claimed[at]),
        leakage=float(curves.leakage[at]),
        pair=leak.pairs[int(winner[0])].datasets,
    )


def remark(mechanism: Mechanism) -> str | None:
    """What a user of FEASGM must know where the floor stays: the good news is about this N only."""
    if not isinstance(mechanism, FEASGM) or denominator_step(mechanism) is not None:
        return None
    size, denominator = mechanism.dataset_size, max(mechanism.floors[0], 1)
    nearest = nearest_step(mechanism)
    elsewhere = "" if nearest is None else f"; the floor does step at other N, the nearest being N = {nearest}"
    return f"At N = {size} FEASGM is SGM: N and N + 1 records are both divided by {denominator}{elsewhere}."
