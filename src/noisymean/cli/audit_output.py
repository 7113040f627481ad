"""What an audit found: one JSON object for programs, a table and a few sentences for people."""

from __future__ import annotations

from rich import box
from rich.table import Table

from noisymean import __version__
from noisymean.audit import Audit
from noisymean.audit.estimate import lower_hull
from noisymean.cli.output import console, say
from noisymean.laws.closed import EpsilonDelta
from noisymean.outward import at_least, at_most
from noisymean.results import finite, listed
from noisymean.tradeoff import TradeOff


def record(result: Audit) -> dict[str, object]:
    """The object of `--json`: first the contract's keys, then ours."""
    found, claim, truth = result.found, result.claim, result.reference
    alpha, beta = lower_hull(found.corner_alpha, found.corner_beta)
    return {
        "target": result.target,
        "trials": result.finished,
        "confidence": found.confidence,
        "alpha": found.alpha.record(),
        "beta": found.beta.record(),
        "epsilon_lower": finite(found.epsilon_lower),
        "delta_lower": found.delta_lower,
        "curve": {"alpha": listed(alpha), "beta": listed(beta)},
        "claimed": None
        if claim is None
        else {
            "epsilon": finite(_epsilon(claim, found.delta)),
            "delta": float(claim.delta(0.0)),
            "beta": listed(claim(alpha)),
        },
        "exact": None
        if truth is None
        else {
            "epsilon": finite(_epsilon(truth.curve, found.delta)) if truth.closed_form else None,
            "delta": truth.curve.advantage(),
            "beta": listed(truth.curve(alpha)),
            "method": truth.method,
            "standard_error": truth.standard_error,
        },
        # a claim that was typed instead of the target's own
        "claim_options": {"epsilon": claim.eps, "delta": claim.dlt} if isinstance(claim, EpsilonDelta) else None,
        "verdict": None if result.verdict is None else result.verdict.word,
        "seconds": result.seconds,
        "reason": None if result.verdict is None else result.verdict.reason,
        "power": result.power,
        "distinguisher": result.distinguisher,
        "judged": found.judged,
        "delta": found.delta,
        "paper": {"epsilon_lower": finite(found.paper.epsilon_lower), "delta_lower": found.paper.delta_lower},
        "gdp_parametric": {
            "mu_lower": finite(found.parametric.mu_lower),
            "epsilon_lower": finite(found.parametric.epsilon_lower),
        },
        "seed": result.plan.seed,
        "interrupted": result.interrupted,
        "configuration": result.plan.configuration(),
        "version": __version__,
    }


def _epsilon(curve: TradeOff, delta: float) -> float:
    """The larger of the two directions, as the audit's eps_L is."""
    if delta == 0.0:
        return float("inf")
    return max(curve.epsilon(delta), curve.inverse().epsilon(delta))


def show(result: Audit, *, gdp: bool) -> None:
    """For people; at most 80 columns."""
    out, found = console(), result.found
    say(out, f"Audit of {result.target}")
    say(out, _settings(result))
    out.print(_table(result))
    if result.distinguisher == "paper":
        paper = found.paper
        say(
            out,
            f"By the paper's own intervals: epsilon >= {at_least(paper.epsilon_lower, '.4g')},"
            f" delta(0) >= {at_least(paper.delta_lower, '.4f')}.",
        )
    if gdp:
        parametric = found.parametric
        say(
            out,
            f"Parametric, valid only if the pair is Gaussian: mu >= {at_least(parametric.mu_lower, '.4g')},"
            f" epsilon >= {at_least(parametric.epsilon_lower, '.4g')}; no verdict uses it.",
        )
    for sentence in _sentences(result):
        say(out, sentence)
    if found.judged < result.finished:
        say(out, f"{result.finished - found.judged:,} trials were learned from and {found.judged:,} judged.")


def _settings(result: Audit) -> str:
    finished = f"{result.finished:,} trials"
    if result.interrupted:
        finished = f"interrupted after {result.finished:,} of {result.plan.trials:,} trials"
    return (
        f"{result.distinguisher} distinguisher, {finished}, {100.0 * result.found.confidence:g} % confidence,"
        f" seed {result.plan.seed}"
    )


def _table(result: Audit) -> Table:
    found, claim, truth = result.found, result.claim, result.reference
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("audited", "claimed", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    exact_epsilon = "-" if truth is None or not truth.closed_form else f"{_epsilon(truth.curve, found.delta):.4g}"
    table.add_row(
        f"epsilon at delta = {found.delta:g}",
        f">= {at_least(found.epsilon_lower, '.4g')}",
        "-" if claim is None else at_most(_epsilon(claim, found.delta), ".4g"),
        exact_epsilon,
    )
    table.add_row(
        "delta at epsilon = 0",
        f">= {at_least(found.delta_lower, '.4f')}",
        "-" if claim is None else at_most(float(claim.delta(0.0)), ".4f"),
        "-" if truth is None else f"{truth.curve.advantage():.4f}",
        end_section=True,
    )
    for name, rate in (("false positive rate", found.alpha), ("false negative rate", found.beta)):
        table.add_row(
            name, f"{rate.estimate:.4f}  [{at_least(rate.lower, '.4f')}, {at_most(rate.upper, '.4f')}]", "", ""
        )
    return table


def _sentences(result: Audit) -> list[str]:
    sentences = []
    if result.verdict is None and result.interrupted and result.claim is not None:
        sentences.append("There is no verdict: the audit was interrupted, and nothing so far contradicts the claim.")
    elif result.verdict is None:
        sentences.append("Nothing is claimed for this target, so there is no verdict; give --claim-epsilon.")
    elif result.verdict.word == "violated":
        enough = " in one step" if result.steps == 1 else ""
        sentences.append(f"The claim is violated{enough}: {result.verdict.reason}.")
    else:
        sentences.append(f"The claim is not violated: {result.verdict.reason}.")
    if result.power is not None and result.reference is not None:
        sentences.append(
            f"The audit shows {100.0 * result.power:.1f} % of the true delta(0) ({result.reference.method})."
        )
    return sentences
