"""What is written down of an inspection, by name: every number at every account, None where none is known.

A name is never left out: a chart, or a summary, would go on showing the number of an earlier step, which the run has outgrown.
"""

from __future__ import annotations

from collections.abc import Mapping

from noisymean.integrations.opacus import Inspection
from noisymean.results import finite

_VERDICTS = ("violated", "holds", "undetermined")


def scalars(found: Inspection) -> dict[str, float | None]:
    """The numbers, and the verdict as three of which one is 1; None where a number is not known, or beyond double precision.

    `steps` are those that the accountant has counted: what the epsilons are for, whatever the loop calls its steps. `watched`
    is 1 if each of them was looked at when it was taken, and 0 if the numbers are for a run that was as it is now throughout.
    """
    spent, said = found.spent, found.opacus_said
    epsilons = {
        "claimed_epsilon": spent.claimed,
        "leakage_epsilon": spent.leakage,
        "guarantee_epsilon": spent.guarantee,
        "opacus_epsilon": None if said is None else said.epsilon,
    }
    known = {name: None if value is None else finite(value) for name, value in epsilons.items()}
    seen = {"watched": float(found.watched), "delta": spent.delta, "steps": float(found.taken)}
    return {**known, **_judged(found.verdict), **seen}


def nothing_known(before: Mapping[str, float | None]) -> dict[str, float | None]:
    """The same names, of a run that cannot be accounted for any more."""
    return {**dict.fromkeys(before), **_judged("undetermined")}


def _judged(verdict: str) -> dict[str, float | None]:
    return {word: float(verdict == word) for word in _VERDICTS}
