"""The parts of a report, ready for the templates: one for each account, audit and code audit."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, final

from noisymean.accounts import Account, Pair
from noisymean.legible import text_of
from noisymean.mechanisms import Adjacency
from noisymean.outward import at_least, at_most
from noisymean.report import account_words
from noisymean.report.page import banners, figures, printed
from noisymean.report.page.pair_shown import gradients_of, symbols_of
from noisymean.report.page.range_figure import range_block
from noisymean.report.page.records import AuditRecord
from noisymean.report.page.releases import CodeRecord
from noisymean.report.page.rendering import Block, Head, figure_block, render
from noisymean.report.page.section import Section
from noisymean.report.page.size_figure import against_size
from noisymean.report.ranges import Range
from noisymean.run_curves import Growth, RunCurves
from noisymean.size_curves import SizeCurve
from noisymean.words import NO_CURVE_OF_IT, NONE_KNOWN, rate_text, sentence
from noisymean.written import exactly, for_people, plain


@final
@dataclass(frozen=True)
class ShownRun:
    """A run that was accounted for: its three numbers, and what is drawn of it."""

    answer: Account
    remarks: tuple[str, ...]
    reported: tuple[tuple[str, float], ...]
    elsewhere: tuple[int, Account] | None
    growth: Growth | None
    curves: RunCurves | None
    # the same at rates that no picture from 0 to 1 shows, where only those show the leakage
    rare: RunCurves | None = None
    sizes: SizeCurve | None = None
    file: str = ""
    asked_pair: Pair | None = None


def report(sections: list[Section], *, title: str, command: str, head: Head | None = None) -> str:
    """The whole page; the worst verdict comes first."""
    return render(
        "report.html",
        title=title,
        subtitle="; ".join(one.title for one in sections) if len(sections) <= 3 else f"{len(sections)} results",
        command=command,
        head=head,
        sections=sections,
        lead=banners.together([one.banner for one in sections]),
    )


# --- an account --------------------------------------------------------------------------------------------------------


def account_section(run: ShownRun, name: str) -> Section:
    """The page's main part."""
    answer, symbol = run.answer, banners.symbol(run.answer)
    numbers, meanings = banners.three(answer), account_words.meanings(answer)
    values = {which: answer.value(getattr(answer, which)) for which in numbers}
    rests_on = account_words.grounds(answer, run.file)
    return Section(
        kind="account",
        name=name,
        title=for_people(f"{answer.steps:,} step{'' if answer.steps == 1 else 's'} of {answer.mechanism.in_a_line()}"),
        banner=banners.account_banner(answer),
        shown={
            "quantity": symbol,
            "rows": [(which, shown, meanings[which]) for which, shown in numbers.items()]
            + [(f"reported by {peer}", banners.number(value), "by that accountant") for peer, value in run.reported],
            "no_guarantee": _why_none(answer) if values["guarantee"] is None else None,
            "bars": range_block(
                [Range.of(answer)],
                quantity=symbol,
                name=f"{name}-range",
                caption=f"{symbol} of the whole run. The truth lies in the bar: no less is lost, and no more where it ends. The"
                " long tick is what is claimed.",
            ),
            "game": None if run.curves is None else banners.guesses(run.curves),
            "only_here": _only_here(run),
            "plots": _plots(run, name),
            "not_drawn": _not_drawn(run),
            "growth_rows": _growth_rows(run.growth),
            "sizes": _against_size(run, name),
            "pair": str(answer.leakage.pair or ""),
            "gradients": [] if answer.leakage.pair is None else gradients_of(answer.leakage.pair),
            "symbols": "" if answer.leakage.pair is None else symbols_of(answer.leakage.pair),
            "proof": answer.guarantee.proof or "",
            "drawing": printed.drawing_code(answer),
            "pair_audit": printed.pair_audit(answer),
            "remedy": banners.remedy(answer),
            "remedy_code": printed.remedy_code(answer),
            "grounds": [(one.about.value, for_people(one.value), f"{one.known}: {one.how}") for one in rests_on],
            "notes": list(map(for_people, run.remarks)),
            "elsewhere": None if run.elsewhere is None else _elsewhere(*run.elsewhere),
            "settings": _settings(run),
            "command": printed.account_command(answer, run.asked_pair),
        },
    )


def _plots(run: ShownRun, name: str) -> list[Block]:
    answer, blocks = run.answer, []
    if run.curves is not None:
        blocks.append(_tradeoff(run.curves, run.rare, answer.steps, name))
    if run.growth is not None and figures.grows(run.growth):
        known = "." if answer.value(answer.guarantee) is not None else "; no guarantee is known here."
        caption = (
            f"ε against the number of steps, at δ = {exactly(answer.claimed.delta or 0.0)}."
            f" The truth lies between leakage and guarantee{known}"
        )
        blocks.append(figure_block(figures.epsilon_against_steps(run.growth), name=f"{name}-growth", caption=caption))
    return blocks


def _tradeoff(curves: RunCurves, rare: RunCurves | None, steps: int, name: str) -> Block:
    """On scales of powers where the leakage lies in the corner of any other picture; as a distance where all is one line."""
    after = f"after {steps:,} step{'' if steps == 1 else 's'}"
    place = f"{name}-tradeoff"
    if figures.alike(curves):
        caption = (
            f"How far the trade-off curves {after} lie below the claimed one; from 0 to 1 they would be one line. Each point is"
            " a way to guess: how often it wrongly says that the record was used (α), and how much less often than claimed it"
            " misses it. Above zero an attacker does better than the claim allows; no true curve is nearer to it than the"
            " leakage."
        )
        return figure_block(figures.below_the_claim(curves), name=place, caption=caption)
    caption = (
        f"Trade-off curves {after}. Each point is a way to guess: how often it wrongly"
        " says that the record was used (α), and how often it misses it (β). Lower curves mean less privacy; the attack proves"
        " that no true curve lies above the leakage."
    )
    if rare is None:
        return figure_block(figures.tradeoff_curves(curves), name=place, caption=caption)
    wrong = figures.rarely_wrong(rare)
    how = (
        f"at most {plain(at_most(wrong, '.1g'))} of the time" if wrong else "less often than double precision can hold"
    )
    below = "" if wrong else " The leakage lies below this picture."
    caption += (
        f" Both scales are powers of ten, because one attacker is wrong {how}, either way.{below} At rates this"
        " small the guarantee is not worked out as a curve."
    )
    return figure_block(figures.rare_tradeoff(rare), name=place, caption=caption)


def _only_here(run: ShownRun) -> str | None:
    """A promise that is not known to be broken at the delta that was asked for, and is at another."""
    if run.curves is None or run.answer.verdict == "violated" or not figures.violated(run.curves):
        return None
    asked = " = ".join(banners.asked(run.answer))
    return account_words.broken_elsewhere(f"{asked}, which is what was asked", run.answer.verdict)


def _why_none(answer: Account) -> str | None:
    reasons = account_words.why_no_guarantee(answer)
    return None if reasons is None else for_people(reasons)


def _against_size(run: ShownRun, name: str) -> dict[str, Any] | None:
    """What other numbers of records would give: the picture and its numbers."""
    found = run.sizes
    if found is None or len(found.answers) < 2:
        return None
    symbol, listed = banners.symbol(run.answer), len(found.answers)
    where = (
        "your own N, the nearest at which one record more changes the denominator or the rate, and between them"
        if found.stepped
        else "from half of yours to twice as many; every record more moves the denominator"
    )
    return {
        "figure": figure_block(
            against_size(found),
            name=f"{name}-sizes",
            caption=f"{symbol} against the number of records, with as many steps everywhere. Computed at {listed} numbers of"
            f" records: {where}. Nothing is said of those in between.",
        ),
        "summary": f"The numbers of the plot of {symbol} against N",
        "rows": [
            (f"{size:,}{' (yours)' if size == found.size else ''}", *banners.three(answer).values(), answer.verdict)
            for size, answer in found.answers
        ],
    }


def _not_drawn(run: ShownRun) -> str | None:
    """What the pictures leave out, and why."""
    if run.answer.adjacency is Adjacency.REPLACE_ONE:
        return "Curves are not drawn for one record replaced."
    if run.curves is None or (run.growth is None and run.answer.asked_delta):
        return "What is not drawn here is beyond double precision."
    if run.curves.guarantee is None and run.answer.value(run.answer.guarantee) is not None:
        return sentence(NO_CURVE_OF_IT)
    if run.growth is None:
        return "ε is drawn against steps where a δ is given."
    return (
        None
        if run.growth.steps.size == 1 or figures.grows(run.growth)
        else "ε is 0 at every number of steps up to these."
    )


def _growth_rows(growth: Growth | None) -> list[tuple[str, ...]]:
    if growth is None or not figures.grows(growth):
        return []
    columns = [[f"{int(steps):,}" for steps in growth.steps]]
    for which, rounded in account_words.ROUNDED.items():
        values = getattr(growth, which)
        columns.append([banners.number(value, rounded) if value == value else NONE_KNOWN for value in values])
    return list(zip(*columns, strict=True))


def _elsewhere(size: int, other: Account) -> str:
    numbers, symbol = banners.three(other), banners.symbol(other)
    leaked, claimed = (f"{symbol} = {numbers[which]}" for which in ("leakage", "claimed"))
    said = account_words.at_another_size(f"{size:,}", leaked, claimed, other)
    return f"A result is for one number of records. {sentence(said)}"


# Settings of a mechanism that have a symbol; the others go by their own names.
_LABELS = {
    "dataset_size": "records N",
    "dimension": "numbers released a step n",
    "sample_rate": "sampling rate q",
    "batch_size": "batch size b",
    "noise_multiplier": "noise multiplier σ",
}


def _settings(run: ShownRun) -> list[tuple[str, str]]:
    mechanism, answer = run.answer.mechanism, run.answer
    given = {**mechanism.settings(), "sample_rate": for_people(rate_text(mechanism.rate)), "sample_rate_exact": None}
    labelled = {_LABELS.get(name, name.replace("_", " ")): value for name, value in given.items()}
    return [
        ("mechanism", mechanism.name.upper()),
        ("divides by", for_people(mechanism.denominator_in_words())),
        *((label, _written(value)) for label, value in labelled.items() if value is not None),
        ("steps T", f"{answer.steps:,}"),
        banners.asked(answer),
        ("neighbours", answer.adjacency.value),
        ("random numbers", "none: every number is computed"),
        ("taken from", run.file or "the options of this command"),
    ]


def _written(value: object) -> str:
    match value:
        case True:
            return "yes"
        case int():
            return f"{value:,}"
        case float():
            return exactly(value)
    return str(value)


# --- an audit ----------------------------------------------------------------------------------------------------------


def audit_section(found: AuditRecord, name: str) -> Section:
    """What running showed."""
    confidence, claimed, exact = f"{100.0 * found.confidence:g} %", found.claimed, found.exact
    finished = f"{found.trials:,}"
    if found.interrupted and found.planned is not None:
        finished = f"{found.trials:,} of {found.planned:,} (interrupted)"
    return Section(
        kind="audit",
        name=name,
        title=f"Audit of {_named(found)}",
        banner=banners.audit_banner(found),
        shown={
            "confidence": confidence,
            "rows": [
                (
                    f"ε at δ = {exactly(found.delta)}",
                    f"≥ {banners.number(found.epsilon_lower, at_least)}",
                    _claimed_epsilon(found),
                    "-" if exact is None or exact.epsilon is None else banners.number(exact.epsilon),
                ),
                (
                    "δ at ε = 0",
                    f"≥ {banners.number(found.delta_lower, at_least)}",
                    "-" if claimed is None else banners.number(claimed.delta, at_most),
                    "-" if exact is None else banners.number(exact.delta),
                ),
            ],
            "rates": [
                (label, f"{rate.estimate:.4f}", f"{at_least(rate.lower, '.4f')} to {at_most(rate.upper, '.4f')}")
                for label, rate in (("false positive rate α", found.alpha), ("false negative rate β", found.beta))
            ],
            "plot": figure_block(
                figures.audited_curve(
                    found.curve_alpha,
                    found.curve_beta,
                    None if claimed is None else claimed.beta,
                    None if exact is None else exact.beta,
                ),
                name=f"{name}-curve",
                caption=f"The audited curve: with {confidence} confidence no true curve lies above it anywhere.",
                height="29rem",
            ),
            "power": None
            if found.power is None or exact is None
            else f"The audit shows {100.0 * found.power:.1f} % of the true δ(0) ({exact.method}).",
            "settings": [
                ("target", _named(found)),
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
            "grounds": _audit_grounds(found),
            "command": printed.audit_command(found),
        },
    )


def _named(found: AuditRecord) -> str:
    """The target; its settings are in its name only where we made it, other names are somebody's own."""
    return for_people(found.target) if found.target.startswith("synthetic ") else found.target


def _claimed_epsilon(found: AuditRecord) -> str:
    """A claim of one epsilon at one delta says nothing of any epsilon at a smaller one."""
    if found.claimed is None:
        return "-"
    if found.claimed.epsilon is None and found.claim_options is not None and found.claim_options[1] > found.delta:
        return "nothing"
    return banners.number(found.claimed.epsilon, at_most)


def _audit_grounds(found: AuditRecord) -> list[tuple[str, str, str]]:
    """An audit looks at what comes out, and takes from others which datasets, which claim, and that it was run."""
    claim, by = "none" if found.claimed is None else "what accountants of the noisy sum report", "the target's own"
    if found.claim_options is not None:
        epsilon, delta = found.claim_options
        claim, by = f"ε = {exactly(epsilon)}, δ = {exactly(delta)}", "--claim-epsilon, --claim-delta"
    return [
        (
            "sampler, rate, denominator, noise",
            "whatever the target does",
            f"seen: it was run {found.trials:,} times; nothing about its code is assumed",
        ),
        ("adjacency, records, steps", "the two datasets and the steps that were run", "told: the target holds them"),
        ("claim", claim, f"told: {by}"),
        ("that it was run", f"{found.trials:,} times, seed {found.seed}", f"told: {text_of(found.file)}"),
    ]


# --- a code audit ------------------------------------------------------------------------------------------------------


def code_section(found: CodeRecord, name: str) -> Section:
    """The table of releases, or what was read in another package."""
    versions = ["--versions", ",".join(one.version for one in found.releases)] if found.releases else []
    return Section(
        kind="code",
        name=name,
        title=f"Code audit of {found.package}",
        banner=banners.code_banner(found),
        shown={
            "package": found.package,
            "version": found.version,
            "releases": found.releases,
            "kind": None if found.kind is None else found.kind.upper(),
            "poisson": found.poisson,
            "statements": [(at.place, at.text, at.role.value, at.divided_by, at.sure.value) for at in found.statements],
            "unreadable": found.unreadable,
            "grounds": _code_grounds(found),
            "command": shlex.join(["noisymean", "code-audit", found.package, *versions]),
        },
    )


def _code_grounds(found: CodeRecord) -> list[tuple[str, str, str]]:
    """A code audit is about code: nothing of a run is known to it."""
    read = f"seen: by reading {found.files:,} file{'' if found.files == 1 else 's'}; nothing was run"
    how = "seen: each release was run, and its source was read" if found.releases else read
    run = "noise, rate, adjacency, records, steps"
    return [
        ("denominator", "as shown above", how),
        ("sampler", "as shown above", how),
        (run, "of no run in particular", "not looked at: whether a run keeps its promise, 'noisymean account' says"),
    ]
