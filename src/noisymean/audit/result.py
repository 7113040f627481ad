"""What an audit found, as a value: what was run, what it proves, and how that is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, final

from noisymean.audit.estimate import Estimate, lower_hull
from noisymean.audit.reference import Reference
from noisymean.audit.trials import Plan
from noisymean.audit.verdict import TrialVerdict
from noisymean.laws.closed import EpsilonDelta
from noisymean.mechanisms import Adjacency, Sampling
from noisymean.outward import at_least, at_most
from noisymean.results import Lines, Result, finite, listed
from noisymean.tradeoff import TradeOff
from noisymean.written import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from noisymean.audit.sight import Sight
    from noisymean.audit.unseen import Unseen


@final
@dataclass(frozen=True, eq=False)
class Audit(Result):
    """What was run, what was found, and what it means."""

    target: str
    steps: int
    distinguisher: str
    plan: Plan
    finished: int
    found: Estimate
    claim: TradeOff | None
    reference: Reference | None
    # None: nothing is claimed, or the audit was interrupted before it found anything against the claim
    verdict: TrialVerdict | None
    interrupted: bool
    seconds: float
    # among so many pairs of datasets this one was chosen, on trials that are not judged; 0: it was given
    pairs: int = 0

    @property
    def power(self) -> float | None:
        """The audited delta(0) as a share of the true one."""
        truth = None if self.reference is None else self.reference.curve.advantage()
        return None if not truth else self.found.delta_lower / truth

    @property
    def claimed_epsilon(self) -> float | None:
        """What is claimed at the delta of the audit; None if nothing is."""
        return None if self.claim is None else _epsilon(self.claim, self.found.delta)

    @property
    def exact_epsilon(self) -> float | None:
        """What is true at the delta of the audit; None where it is not known, or only simulated."""
        truth = self.reference
        return None if truth is None or not truth.closed_form else _epsilon(truth.curve, self.found.delta)

    @cached_property
    def sight(self) -> Sight:
        """What trials like these would have caught; Undefined where nothing is claimed."""
        from noisymean.audit.sight import sight

        return sight(self)

    @cached_property
    def unseen(self) -> Sequence[Unseen]:
        """What would not have shown in this audit; nothing where it shows a violation."""
        from noisymean.audit.unseen import unseen

        return [] if self.verdict is not None and self.verdict.word == "violated" else unseen(self)

    def to_dict(self) -> dict[str, object]:
        """Plain data, the object that `audit --json` prints: first the contract's keys, then ours."""
        found, claim, truth = self.found, self.claim, self.reference
        alpha, beta = lower_hull(found.corner_alpha, found.corner_beta)
        return {
            "target": self.target,
            "trials": self.finished,
            "confidence": found.confidence,
            "alpha": asdict(found.alpha),
            "beta": asdict(found.beta),
            "epsilon_lower": finite(found.epsilon_lower),
            "delta_lower": found.delta_lower,
            "curve": {"alpha": listed(alpha), "beta": listed(beta)},
            "claimed": None
            if claim is None
            else {
                "epsilon": _finite(self.claimed_epsilon),
                "delta": float(claim.delta(0.0)),
                "beta": listed(claim(alpha)),
            },
            "exact": None
            if truth is None
            else {
                "epsilon": _finite(self.exact_epsilon),
                "delta": truth.curve.advantage(),
                "beta": listed(truth.curve(alpha)),
                "method": truth.method,
                "standard_error": truth.standard_error,
            },
            # a claim that was typed instead of the target's own
            "claim_options": {"epsilon": claim.eps, "delta": claim.dlt} if isinstance(claim, EpsilonDelta) else None,
            "verdict": None if self.verdict is None else self.verdict.word,
            "seconds": self.seconds,
            "reason": None if self.verdict is None else self.verdict.reason,
            "power": self.power,
            "distinguisher": self.distinguisher,
            "judged": found.judged,
            "delta": found.delta,
            "paper": {"epsilon_lower": finite(found.paper.epsilon_lower), "delta_lower": found.paper.delta_lower},
            "gdp_parametric": {name: finite(value) for name, value in asdict(found.parametric).items()},
            "seed": self.plan.seed,
            "interrupted": self.interrupted,
            "unseen": [str(one) for one in self.unseen],
            # how batches are drawn and what neighbours differ in, where the target says so
            **self._drawn(),
            "configuration": self.plan.configuration(),
            "version": import_module("noisymean").__version__,
        }

    def _drawn(self) -> dict[str, object]:
        """Of a synthetic target, whose configuration leaves out what was there before there was anything else."""
        target = self.plan.configuration()["target"]
        if target.get("target") != "synthetic":
            return {"sampling": None, "adjacency": None}
        sampling = target["mechanism"].get("sampling", Sampling.POISSON.value)
        return {"sampling": sampling, "adjacency": target.get("adjacency", Adjacency.ADD_REMOVE.value)}

    def columns(self) -> Mapping[str, Sequence[object]]:
        """The audited curve, and beside it what is claimed and what is true."""
        alpha, beta = lower_hull(self.found.corner_alpha, self.found.corner_beta)
        curves = {"claimed": self.claim, "exact": None if self.reference is None else self.reference.curve}
        return {
            "alpha": alpha.tolist(),
            "audited": beta.tolist(),
            **{name: curve(alpha).tolist() for name, curve in curves.items() if curve is not None},
        }

    def lines(self) -> Lines:
        """What was shown beside what is claimed and what is true, the verdict, and what it rests on."""
        found, claim, truth = self.found, self.claim, self.reference
        claimed, exact = self.claimed_epsilon, self.exact_epsilon
        rows = [
            (
                f"epsilon at delta = {short(found.delta)}",
                f">= {at_least(found.epsilon_lower, '.4g')}",
                "-" if claimed is None else at_most(claimed, ".4g"),
                "-" if exact is None else f"{exact:.4g}",
            ),
            (
                "delta at epsilon = 0",
                f">= {at_least(found.delta_lower, '.4f')}",
                "-" if claim is None else at_most(float(claim.delta(0.0)), ".4f"),
                "-" if truth is None else f"{truth.curve.advantage():.4f}",
            ),
        ]
        for name, rate in (("false positive rate", found.alpha), ("false negative rate", found.beta)):
            limits = f"[{at_least(rate.lower, '.4f')}, {at_most(rate.upper, '.4f')}]"
            rows.append((name, f"{rate.estimate:.4f}  {limits}", "", ""))
        return Lines(
            f"Audit of {self.target}; {self.settings}", ("", "audited", "claimed", "exact"), rows, self.sentences()
        )

    @property
    def settings(self) -> str:
        """How it was audited, in a line."""
        trials = f"{self.finished:,} trials"
        if self.interrupted:
            trials = f"interrupted after {self.finished:,} of {self.plan.trials + self.plan.piloted:,} trials"
        confidence = f"{100.0 * self.found.confidence:g} % confidence"
        return f"{self.distinguisher} distinguisher, {trials}, {confidence}, seed {self.plan.seed}"

    def sentences(self, *, parametric: bool = False) -> list[str]:
        """What the numbers mean; `parametric`: also the bound that is valid only if the pair is Gaussian."""
        found, said = self.found, []
        if self.distinguisher == "paper":
            said.append(
                f"By the paper's own intervals: epsilon >= {at_least(found.paper.epsilon_lower, '.4g')},"
                f" delta(0) >= {at_least(found.paper.delta_lower, '.4f')}."
            )
        if parametric:
            said.append(
                f"Parametric, valid only if the pair is Gaussian: mu >= {at_least(found.parametric.mu_lower, '.4g')},"
                f" epsilon >= {at_least(found.parametric.epsilon_lower, '.4g')}; no verdict uses it."
            )
        said.append(self._verdict_in_words())
        if self.power is not None and self.reference is not None:
            said.append(f"The audit shows {100.0 * self.power:.1f} % of the true delta(0) ({self.reference.method}).")
        if found.judged < self.finished:
            said.append(self._shares_in_words())
        if self.unseen:
            said += ["This audit cannot see:", *(f"- {one}." for one in self.unseen)]
        return said

    def _shares_in_words(self) -> str:
        """Who got which trials."""
        learned, piloted = self.finished - self.found.judged, self.plan.piloted
        taught = f"{learned - piloted:,} trials were learned from and {self.found.judged:,} judged"
        if not piloted:
            return f"{taught}."
        chose = f"the pair of datasets among {self.pairs} and where to look" if self.pairs else "where to look"
        return f"{taught}; {piloted:,} others chose {chose}."

    def _verdict_in_words(self) -> str:
        if self.verdict is None and self.interrupted and self.claim is not None:
            return "There is no verdict: the audit was interrupted, and nothing so far contradicts the claim."
        if self.verdict is None:
            return "Nothing is claimed for this target, so there is no verdict; give --claim-epsilon."
        if self.verdict.word == "violated":
            enough = " in one step" if self.steps == 1 else ""
            return f"The claim is violated{enough}: {self.verdict.reason}."
        return f"The claim is not violated: {self.verdict.reason}."

    def plot(self) -> Figure:
        """The audited curve between the claim and the truth."""
        # matplotlib is loaded by whoever asks for a figure
        figure: Figure = import_module("noisymean.report.audit_plots").audit_figure(self)
        return figure


def _epsilon(curve: TradeOff, delta: float) -> float:
    """The larger of the two directions, as the audit's eps_L is."""
    if delta == 0.0:
        return float("inf")
    return max(curve.epsilon(delta), curve.inverse().epsilon(delta))


def _finite(value: float | None) -> float | None:
    return None if value is None else finite(value)
