"""What Opacus' own accountant says of the same steps, to stand beside the exact value of the same claim.

A user has just read a number off `engine.get_epsilon`, and the claim here is another: both are of the noisy sum at the rate
and the noise that Opacus was told, and Opacus rounds. Its `prv` reports the upper end of an estimate ± 0.01, its `rdp` is an
upper bound, its `gdp` a limit.

The accountant is copied when a run is looked at, because it goes on counting, and asked when somebody wants to know: it takes a
tenth of a second or so, and on a fine grid minutes and gigabytes. Such a grid is not begun. One that fails says nothing.
"""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from noisymean.integrations.opacus.seen import history_of
from noisymean.outward import at_most
from noisymean.written import short

# PRVAccountant.get_epsilon, unless it is told another.
_PRV_ERROR = 0.01
# Points of the grid of all stretches together: about a gigabyte, and a few seconds.
_MOST_POINTS = 5e6
_KINDS = {
    "prv": f"prv, ±{_PRV_ERROR:g}",
    "rdp": "rdp, an upper bound",
    "gdp": "gdp, a limit for many steps, which may be too low",
}
# As it calls itself before 1.1.
_CALLED = {"gpd": "gdp"}


@final
@dataclass(frozen=True)
class OpacusSaid:
    """One answer. `epsilon` is None where there is none, and `fault` says why; `error` is that of the estimate below it.

    `attached`: it is the accountant of this run; otherwise the one that Opacus would have taken. `same_claim`: it was told the
    noise and the rate that the claim here is for.
    """

    accountant: str
    delta: float
    epsilon: float | None
    error: float | None = None
    attached: bool = True
    same_claim: bool = True
    fault: str = ""

    def beside(self, claimed: float) -> str:
        """The sentence, with the exact value of the claim."""
        who = f"Opacus' own accountant ({_KINDS.get(self.accountant, self.accountant)})"
        if self.epsilon is None:
            return f"{who} says nothing: {self.fault}"
        says = f"{who} {'says' if self.attached else 'would say'} {self.epsilon:.4g}"
        if not self.same_claim:
            return (
                f"{says}; it was told the noise of the gradients alone, and the claim here is for all that is released"
            )
        return f"{says}; the exact value of the same claim is {at_most(claimed)}"

    def plain(self) -> dict[str, object]:
        """The answer as plain data for JSON; epsilon is None where there is none."""
        return {
            "accountant": self.accountant,
            "epsilon": self.epsilon,
            "error": self.error,
            "attached": self.attached,
            "same_claim": self.same_claim,
            "fault": self.fault or None,
        }


@final
@dataclass(frozen=True)
class Asked:
    """A copy of the accountant as it was, and how far its claim is from that of the noisy sum here."""

    accountant: Any
    name: str
    delta: float
    attached: bool
    same_claim: bool

    def answer(self, claimed: float) -> OpacusSaid:
        """Ask it now. `claimed`, the exact epsilon, says how wide a grid would be."""
        found, fault = None, _too_fine(self.name, history_of(self.accountant), claimed, self.delta)
        if not fault:
            found, fault = _asked(self.accountant, self.delta)
        error = _PRV_ERROR if self.name == "prv" and found is not None else None
        return OpacusSaid(self.name, self.delta, found, error, self.attached, self.same_claim, fault)


def to_ask(accountant: Any, delta: float, *, ours: bool, same_claim: bool) -> Asked | None:
    """The accountant as it is now; for ours, the one that an engine has unless it is told another. None before the first step."""
    if not history_of(accountant):
        return None
    try:
        # "experimental", says the constructor of one of them
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            copied = _default(accountant.history) if ours else copy.deepcopy(accountant)
            name = str(copied.mechanism())
            return Asked(copied, _CALLED.get(name, name), delta, not ours, same_claim)
    except Exception:  # whatever another's class does: what is said beside a number must not cost the number
        return None


def _default(history: Sequence[tuple[float, float, int]]) -> Any:
    """The accountant of an engine that is told nothing, after the same steps."""
    import opacus

    name = inspect.signature(opacus.PrivacyEngine).parameters["accountant"].default
    found = opacus.accountants.create_accountant(mechanism=name)
    # before 1.1 the default one kept its history under another name
    setattr(found, "history" if hasattr(found, "history") else "steps", list(history))
    return found


def _asked(accountant: Any, delta: float) -> tuple[float | None, str]:
    """Its epsilon, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = float(accountant.get_epsilon(delta=delta))
    except Exception as fault:  # another package's, of whatever kind: its answer is what fails here, and nothing else
        words = " ".join(str(fault).split())
        return None, f"it ends with {type(fault).__name__}" + (f": {words[:200]}" if words else "")
    return (found, "") if math.isfinite(found) else (None, f"its number is {found}")


def _too_fine(name: str, history: Sequence[tuple[float, float, int]], claimed: float, delta: float) -> str:
    """Why it is better not asked: the grid of `prv` is as wide as the loss, in steps that shrink with the number of rounds."""
    if name != "prv":
        return ""
    if not math.isfinite(claimed):
        return "it was not asked, since no finite epsilon is claimed"
    steps = sum(count for _, _, count in history)
    width = _PRV_ERROR / math.sqrt(0.5 * steps * math.log(12_000.0 / delta))
    # its domain reaches beyond epsilon by a part of it and a few units: measured at six settings, never more than this
    points = len(history) * 2.0 * (1.5 * claimed + 20.0) / width
    if points <= _MOST_POINTS:
        return ""
    return (
        f"it was not asked, since it would need a grid of {short(points, 1)} points; engine.get_epsilon(delta) asks it"
    )
