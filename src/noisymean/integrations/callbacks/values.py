"""What is written down of an inspection, by name: a number where one is known, and nothing where none is."""

from __future__ import annotations

import math

from noisymean.integrations.opacus import Inspection

_VERDICTS = ("violated", "holds", "undetermined")


def scalars(found: Inspection) -> dict[str, float]:
    """The numbers, and the verdict as three of which one is 1.

    `steps` are those that the accountant has counted: what the epsilons are for, whatever the loop calls its steps.
    """
    spent, said = found.spent, found.opacus_said
    epsilons = {
        "claimed_epsilon": spent.claimed,
        "leakage_epsilon": spent.leakage,
        "guarantee_epsilon": spent.guarantee,
        "opacus_epsilon": None if said is None else said.epsilon,
    }
    known = {name: value for name, value in epsilons.items() if value is not None and math.isfinite(value)}
    judged = {word: float(found.verdict == word) for word in _VERDICTS}
    return {**known, **judged, "delta": spent.delta, "steps": float(found.taken)}
