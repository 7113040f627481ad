"""Audits inside an experiment: the distinguishers that the experiments compare, and one run of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from noisymean.audit import Audit, Processes, audit, distinguisher
from noisymean.audit.distinguishers import NormalityTest
from noisymean.audit.reference import Reference
from noisymean.audit.store import Store
from noisymean.mechanisms import ASGM, EASGM
from noisymean.paper.experiment import Effort
from noisymean.targets.protocol import Target
from noisymean.targets.synthetic import Synthetic


@final
@dataclass(frozen=True)
class Contender:
    """A distinguisher in an experiment: as rows call it, as the audit calls it, and as pictures and sentences do."""

    label: str
    name: str
    words: str
    test: NormalityTest = NormalityTest.KOLMOGOROV_SMIRNOV


# The paper does not say which test of normality its vote uses.
VOTE_KS = Contender("paper-ks", "paper", "the paper's vote, Kolmogorov–Smirnov")
VOTE_NORM = Contender("paper-chi2", "paper", "the paper's vote, χ² of the norm", NormalityTest.CHI_SQUARE)
OPTIMAL = Contender("likelihood-ratio", "likelihood-ratio", "likelihood ratio")
RESIDUAL = Contender("residual", "residual", "what is left of a release")


def run_audit(
    target: Target, contender: Contender, effort: Effort, trials: int, *, truth: Reference | None = None
) -> Audit:
    """One audit. The same seed means the same releases and the same truth, whatever the distinguisher."""
    with effort.watch(trials) as progress:
        result = audit(
            target,
            distinguisher(contender.name, target, contender.test),
            seed=effort.seed,
            trials=trials,
            truth=truth,
            workers=Processes(effort.jobs),
            store=None if effort.store is None else Store.at(effort.store),
            resume=True,
            progress=progress,
        )
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def synthetic(kind: type[EASGM] | type[ASGM], setting: Mapping[str, Any], effort: Effort) -> Synthetic:
    """A mechanism on random gradients of the paper's length, at its noise."""
    return Synthetic(mechanism=kind(noise_multiplier=10.0, **setting), max_grad_norm=0.1, gradient_seed=effort.seed)


def word_of(result: Audit) -> str:
    """The verdict of an audit as rows have it; empty where nothing is claimed."""
    return "" if result.verdict is None else result.verdict.word
