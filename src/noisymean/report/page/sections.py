"""The parts of a report, ready for the templates: one for each account, audit and code audit."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any, final

from noisymean.accountant import Account, Pair
from noisymean.explicit_pair import explicit_pairs
from noisymean.mechanisms import Adjacency, Mechanism, OpacusLoader, with_public_size
from noisymean.outward import at_least, at_most
from noisymean.report.page import figures, words
from noisymean.report.page.node import text_of
from noisymean.report.page.records import AuditRecord
from noisymean.report.page.releases import CodeRecord
from noisymean.report.page.rendering import Block, figure_block, render
from noisymean.report.page.words import NONE_KNOWN, Verdict
from noisymean.report.plots import rate_text, settings_line
from noisymean.run_curves import Growth, RunCurves
from noisymean.targets.protocol import Structure

# Numbers that the lines to be copied draw at once.
_DRAWN = 2_000_000
_MEANINGS = {
    "claimed": "promised: what an accountant of the noisy sum reports",
    "leakage": "certainly lost: an explicit pair of datasets proves it",
    "guarantee": "certainly not exceeded, for any pair of neighbours",
}
_DENOMINATORS = {
    "sgm": "a constant",
    "easgm": "N·q, the expected size of the batch",
    "feasgm": "⌊N·q⌋, the expected size of the batch, rounded down",
    "asgm": "the size of the batch",
    "opacus-loader": "what Opacus makes of the number of records and the batch size",
}


@final
@dataclass(frozen=True)
class Run:
    """A run that was accounted for: its three numbers, and what is drawn of it."""

    answer: Account
    adjacency: Adjacency
    notes: tuple[str, ...]
    reported: tuple[tuple[str, float], ...]
    elsewhere: tuple[int, Account] | None
    growth: Growth | None
    curves: RunCurves | None
    source: str
    asked_pair: Pair | None = None


@final
@dataclass(frozen=True)
class Section:
    """A part of the page: its template and what the template shows."""

    kind: str
    title: str
    verdict: Verdict
    shown: dict[str, Any]

    @property
    def template(self) -> str:
        """Its template."""
        return f"{self.kind}_section.html"


def report(sections: list[Section], *, title: str, command: str) -> str:
    """The whole page; the worst verdict comes first."""
    return render(
        "report.html",
        title=title,
        subtitle="; ".join(one.title for one in sections) if len(sections) <= 3 else f"{len(sections)} results",
        command=command,
        sections=sections,
        lead=words.together([one.verdict for one in sections]),
    )


# --- an account --------------------------------------------------------------------------------------------------------


def account_section(run: Run, name: str) -> Section:
    """The page's main part."""
    answer, symbol = run.answer, words.symbol(run.answer)
    mechanism = answer.mechanism
    values = {which: words.value_of(answer, which) for which in _MEANINGS}
    why = words.why_no_guarantee(answer.notes)
    return Section(
        kind="account",
        title=f"{answer.steps:,} step{'' if answer.steps == 1 else 's'} of {settings_line(mechanism)}",
        verdict=words.account_verdict(answer, run.adjacency),
        shown={
            "name": name,
            "quantity": symbol,
            "rows": [
                (which, NONE_KNOWN if value is None else words.number(value, words.ROUNDED[which]), _MEANINGS[which])
                for which, value in values.items()
            ]
            + [(f"reported by {peer}", words.number(value), "by that accountant") for peer, value in run.reported],
            "no_guarantee": why if values["guarantee"] is None else None,
            "bars": figure_block(
                figures.three_bars(list(values.items()), quantity=symbol),
                name=f"{name}-bars",
                caption=f"{symbol} of the whole run: promised, certainly lost, and proved as an upper bound.",
                height="15rem",
            ),
            "game": None if run.curves is None else words.guesses(run.curves),
            "plots": _plots(run, name),
            "not_drawn": _not_drawn(run),
            "growth_rows": _growth_rows(run.growth),
            "pair": answer.leakage.pair or "",
            "snippet": _snippet(run),
            "audit_command": _audit_command(run),
            "remedy": words.remedy(mechanism, answer.verdict, run.adjacency),
            "remedy_code": words.remedy_code(mechanism, answer.verdict)
            if run.adjacency is Adjacency.ADD_REMOVE
            else None,
            "notes": [note for note in run.notes if why is None or not note.endswith(why)],
            "elsewhere": None if run.elsewhere is None else _elsewhere(*run.elsewhere),
            "settings": _settings(run),
            "command": account_command(answer, run.adjacency, run.asked_pair),
        },
    )


def _plots(run: Run, name: str) -> list[Block]:
    blocks = []
    if run.curves is not None:
        blocks.append(
            figure_block(
                figures.tradeoff_curves(run.curves),
                name=f"{name}-tradeoff",
                caption=f"Trade-off curves after {run.answer.steps:,} steps. Each point is a way to guess: how often it wrongly"
                " says that the record was used (α), and how often it misses it (β). Lower curves mean less privacy; the attack"
                " proves that no true curve lies above the leakage.",
            )
        )
    if run.growth is not None:
        blocks.append(
            figure_block(
                figures.epsilon_against_steps(run.growth),
                name=f"{name}-growth",
                caption=f"ε against the number of steps, at δ = {run.answer.claimed.delta:g}. The truth lies between leakage"
                " and guarantee"
                + ("." if words.value_of(run.answer, "guarantee") is not None else "; no guarantee is known here."),
            )
        )
    return blocks


def _not_drawn(run: Run) -> str | None:
    if run.adjacency is Adjacency.REPLACE_ONE:
        return "Curves are drawn for neighbours that differ by one record added or removed."
    if run.curves is None or (run.growth is None and run.answer.asked_delta):
        return "What is not drawn here is beyond double precision."
    return None if run.growth is not None else "ε is drawn against steps where a δ is given."


def _growth_rows(growth: Growth | None) -> list[tuple[str, ...]]:
    if growth is None:
        return []
    columns = (growth.claimed, growth.leakage, growth.guarantee)
    return [
        (
            f"{int(steps):,}",
            *(
                rounded(value, ".4g") if value == value else NONE_KNOWN
                for value, rounded in zip(values, words.ROUNDED.values(), strict=True)
            ),
        )
        for steps, *values in zip(growth.steps, *columns, strict=True)
    ]


def _elsewhere(size: int, other: Account) -> str:
    leaked, claim = (
        words.number(words.value_of(other, which), words.ROUNDED[which]) for which in ("leakage", "claimed")
    )
    symbol = words.symbol(other)
    return (
        f"A result is for one number of records. At N = {size:,} instead, the leakage is {symbol} = {leaked}"
        f" (claimed {symbol} = {claim}): {other.verdict}."
    )


def _settings(run: Run) -> list[tuple[str, str]]:
    mechanism, answer = run.answer.mechanism, run.answer
    found = [("mechanism", mechanism.name.upper()), ("divides by", _DENOMINATORS[mechanism.name])]
    for label, value in (("records N", mechanism.dataset_size), ("numbers released a step n", mechanism.dimension)):
        if value is not None:
            found.append((label, f"{value:,}"))
    if isinstance(mechanism, OpacusLoader):
        found.append(("batch size b", f"{mechanism.batch_size:,}"))
    found += [
        ("sampling rate q", rate_text(mechanism.rate)),
        ("noise multiplier σ", f"{mechanism.noise_multiplier:g}"),
        ("steps T", f"{answer.steps:,}"),
        ("δ", f"{answer.claimed.delta:g}") if answer.asked_delta else ("ε", f"{answer.claimed.epsilon:g}"),
        ("neighbours", run.adjacency.value),
        ("random numbers", "none: every number is computed"),
        ("taken from", run.source),
    ]
    return found


def account_command(answer: Account, adjacency: Adjacency, asked_pair: Pair | None = None) -> str:
    """The command line that gives these numbers again."""
    asked = ("--delta", answer.claimed.delta) if answer.asked_delta else ("--epsilon", answer.claimed.epsilon)
    options = [*_mechanism_options(answer.mechanism), "--steps", str(answer.steps), asked[0], repr(asked[1])]
    if adjacency is not Adjacency.ADD_REMOVE:
        options += ["--adjacency", adjacency.value]
    if asked_pair is not None:
        options += ["--pair", asked_pair.value]
    return shlex.join(["noisymean", "account", *options])


def _mechanism_options(mechanism: Mechanism) -> list[str]:
    options = ["--mechanism", mechanism.name]
    for name, value in (("--dataset-size", mechanism.dataset_size), ("--dimension", mechanism.dimension)):
        if value is not None:
            options += [name, str(value)]
    if isinstance(mechanism, OpacusLoader):
        options += ["--batch-size", str(mechanism.batch_size)]
    else:
        options += ["--sample-rate", str(mechanism.rate)]
    return [*options, "--noise-multiplier", repr(float(mechanism.noise_multiplier))]


def _snippet(run: Run) -> str | None:
    """Lines of Python that draw releases of one step on the two datasets; None where the pair is not of that family."""
    mechanism = with_public_size(run.answer.on_pair, run.adjacency)
    found = next((one for one in explicit_pairs(mechanism) if one.description == run.answer.leakage.pair), None)
    if found is None or run.adjacency is Adjacency.REPLACE_ONE:
        return None
    count = max(2, min(1000, _DRAWN // found.dimension))
    lines = [
        "import numpy as np",
        "import noisymean as nm",
        "from noisymean.explicit_pair import explicit_pairs",
        "",
        f"mechanism = nm.{_constructor(mechanism)}",
        f"pair = next(p for p in explicit_pairs(mechanism) if p.description == {json.dumps(found.description)})",
        "generator = np.random.default_rng(1)",
        f"without = pair.sample(generator, {count}, extra_record=False)  # one step on D, {count} times",
        f"with_it = pair.sample(generator, {count}, extra_record=True)  # the same on D'",
        'print("mean along u:", without[:, 0].mean(), with_it[:, 0].mean())',
    ]
    if found.dimension > 1:
        lines.append('print("variance across u:", (without[:, 1:] ** 2).mean(), (with_it[:, 1:] ** 2).mean())')
    lines.append('print("least false negative rate at 5 % false positives:", float(pair.curve(np.array([0.05]))[0]))')
    return "\n".join(lines)


def _constructor(mechanism: Mechanism) -> str:
    """The mechanism as Python writes it."""
    rate = (
        f"batch_size={mechanism.batch_size}"
        if isinstance(mechanism, OpacusLoader)
        else f'sample_rate="{mechanism.rate}"'
    )
    sizes = [
        f"{name}={getattr(mechanism, name)}"
        for name in ("dataset_size", "dimension")
        if getattr(mechanism, name) is not None
    ]
    return (
        f"{type(mechanism).__name__}({', '.join([*sizes, rate, f'noise_multiplier={mechanism.noise_multiplier!r}'])})"
    )


def _audit_command(run: Run) -> str | None:
    """The audit that runs this very pair, where it is one that the auditor knows by name."""
    mechanism = run.answer.on_pair
    named = {
        f"every gradient of D is {'C*u' if one.shared else 'zero'}, the new record's is {one.new:g}*C*u": one
        for one in Structure
    }
    pair = named.get(run.answer.leakage.pair or "")
    runnable = mechanism.dataset_size is not None and mechanism.dimension is not None and run.answer.steps <= 10**6
    if pair is None or not runnable or run.adjacency is not Adjacency.ADD_REMOVE:
        return None
    options = ["--gradients", pair.value, "--steps", str(run.answer.steps), "--seed", "1"]
    return shlex.join(["noisymean", "audit", "synthetic", *_mechanism_options(mechanism), *options])


# --- an audit ----------------------------------------------------------------------------------------------------------


def audit_section(found: AuditRecord, name: str) -> Section:
    """What running showed."""
    confidence = f"{100.0 * found.confidence:g} %"
    finished = f"{found.trials:,}"
    if found.interrupted and found.planned is not None:
        finished = f"{found.trials:,} of {found.planned:,} (interrupted)"
    return Section(
        kind="audit",
        title=f"Audit of {found.target}",
        verdict=words.audit_verdict(found),
        shown={
            "name": name,
            "confidence": confidence,
            "rows": [
                (
                    f"ε at δ = {found.delta:g}",
                    f"≥ {words.number(found.epsilon_lower, at_least)}",
                    "-" if found.claimed is None else words.number(found.claimed_epsilon, at_most),
                    "-" if found.exact_epsilon is None else words.number(found.exact_epsilon),
                ),
                (
                    "δ at ε = 0",
                    f"≥ {at_least(found.delta_lower, '.4g')}",
                    "-" if found.claimed_delta is None else at_most(found.claimed_delta, ".4g"),
                    "-" if found.exact_delta is None else f"{found.exact_delta:.4g}",
                ),
            ],
            "rates": [
                (label, f"{rate.estimate:.4f}", f"{at_least(rate.lower, '.4f')} to {at_most(rate.upper, '.4f')}")
                for label, rate in (("false positive rate α", found.alpha), ("false negative rate β", found.beta))
            ],
            "plot": figure_block(
                figures.audited_curve(found.curve_alpha, found.curve_beta, found.claimed, found.exact),
                name=f"{name}-curve",
                caption=f"The audited curve: with {confidence} confidence no true curve lies above it anywhere.",
                height="29rem",
            ),
            "power": None
            if found.power is None
            else f"The audit shows {100.0 * found.power:.1f} % of the true δ(0) ({found.exact_method}).",
            "settings": [
                ("target", found.target),
                ("distinguisher", found.distinguisher),
                ("trials", finished),
                ("of them judged", f"{found.judged:,}"),
                ("confidence", confidence),
                ("seed", str(found.seed)),
                ("took", f"{found.seconds:.1f} s"),
                ("written by", f"noisymean {found.version}"),
                ("taken from", text_of(found.file)),
            ],
            "configuration": found.configuration_text,
            "command": audit_command(found),
        },
    )


def audit_command(found: AuditRecord) -> str | None:
    """The command line of an audit of synthetic gradients; None where the record does not hold all of it."""
    target, judge = found.configuration.get("target"), found.configuration.get("distinguisher")
    if not isinstance(target, dict) or target.get("target") != "synthetic" or not isinstance(judge, dict):
        return None
    described = target.get("mechanism")
    if not isinstance(described, dict) or target.get("gradient_seed") != found.seed:
        return None
    options = {
        "--mechanism": described.get("name"),
        "--dataset-size": described.get("dataset_size"),
        "--dimension": described.get("dimension"),
        "--batch-size": described.get("batch_size"),
        "--sample-rate": described.get("sample_rate"),
        "--noise-multiplier": described.get("noise_multiplier"),
        "--max-grad-norm": target.get("max_grad_norm"),
        "--gradients": target.get("gradients"),
        "--steps": target.get("steps"),
        "--trials": found.configuration.get("trials"),
        "--confidence": found.confidence,
        "--delta": found.delta,
        "--distinguisher": judge.get("distinguisher"),
        "--test": judge.get("test"),
        "--claim-epsilon": found.claim_options[0] if found.claim_options else None,
        "--claim-delta": found.claim_options[1] if found.claim_options else None,
        "--seed": found.seed,
    }
    typed = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    return text_of(shlex.join(["noisymean", "audit", "synthetic", *typed]))


# --- a code audit ------------------------------------------------------------------------------------------------------


def code_section(found: CodeRecord, name: str) -> Section:
    """The table of releases, or what was read in another package."""
    versions = ["--versions", ",".join(one.version for one in found.releases)] if found.releases else []
    return Section(
        kind="code",
        title=f"Code audit of {found.package}",
        verdict=words.code_verdict(found),
        shown={
            "name": name,
            "package": found.package,
            "version": found.version,
            "releases": found.releases,
            "kind": None if found.kind is None else found.kind.upper(),
            "poisson": found.poisson,
            "statements": [(at.place, at.text, at.role.value, at.divided_by, at.sure.value) for at in found.statements],
            "unreadable": found.unreadable,
            "command": shlex.join(["noisymean", "code-audit", found.package, *versions]),
        },
    )
