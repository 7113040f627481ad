"""Ways to tell D' from D behind one interface: the optimal test, the paper's vote, a learned score, what is left of a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisymean.audit.distinguishers.aim import Aim
from noisymean.audit.distinguishers.base import Distinguisher, Judge, Labelled
from noisymean.audit.distinguishers.learned import VERSION, Learned, Pilot, View
from noisymean.audit.distinguishers.learned_first import LearnedFirst
from noisymean.audit.distinguishers.likelihood_ratio import LikelihoodRatio
from noisymean.audit.distinguishers.paper import NormalityTest, PaperVote
from noisymean.audit.distinguishers.residual import Residual
from noisymean.audit.reference import pair_of
from noisymean.errors import InvalidInput, Undefined
from noisymean.targets.protocol import Known, Onlooked, Target

NAMES = ("likelihood-ratio", "paper", "learned", "residual")

__all__ = [
    "NAMES",
    "Distinguisher",
    "Judge",
    "Labelled",
    "Learned",
    "LearnedFirst",
    "LikelihoodRatio",
    "NormalityTest",
    "PaperVote",
    "Pilot",
    "Residual",
    "distinguisher",
    "rebuilt",
]


def distinguisher(
    name: str | None, target: Target, test: NormalityTest = NormalityTest.KOLMOGOROV_SMIRNOV
) -> Distinguisher:
    """The distinguisher of that name; None: the best that the target allows."""
    known = target.known()
    match name or _best(known, target):
        case "likelihood-ratio":
            return LikelihoodRatio(_needed(known, "likelihood-ratio", target))
        case "paper":
            return PaperVote(_needed(known, "paper", target), test)
        case "learned":
            return Learned.on(target)
        case "residual":
            return Residual(_onlooked(target))
        case _:
            raise InvalidInput("distinguisher", name, f"one of {', '.join(NAMES)}")


def rebuilt(configuration: Mapping[str, Any], target: Target) -> Distinguisher:
    """In another process, from its configuration."""
    match configuration["distinguisher"]:
        case "learned" if "version" not in configuration:
            return LearnedFirst(target.known())
        case "learned" | "pilot" if configuration["version"] != VERSION:
            raise InvalidInput("distinguisher", f"learned, version {configuration['version']}", f"version {VERSION}")
        case "learned":
            aim = Aim.from_plain(configuration["aim"]) if "aim" in configuration else None
            return Learned(View.of(target), aim, configuration.get("piloted", 0))
        case "pilot":
            return Pilot(Learned.on(target), configuration["trials"], configuration["whole"])
    return distinguisher(configuration["distinguisher"], target, NormalityTest(configuration.get("test", "ks")))


def _best(known: Known | None, target: Target) -> str:
    if known is not None and _has_law(known):
        return "likelihood-ratio"
    return "residual" if isinstance(target, Onlooked) else "learned"


def _onlooked(target: Target) -> Onlooked:
    if not isinstance(target, Onlooked):
        raise Undefined("distinguisher", "residual", "left out for this target", "it is for training on real records")
    return target


def _has_law(known: Known) -> bool:
    """Whether the likelihood ratio can be written down."""
    try:
        pair_of(known)
    except Undefined:
        return False
    return True


def _needed(known: Known | None, name: str, target: Target) -> Known:
    if known is None and isinstance(target, Onlooked):
        raise Undefined("distinguisher", name, "residual or learned for training on real records", "it has no law")
    if known is None:
        raise Undefined("distinguisher", name, "learned for this target", "its gradients are not known")
    return known
