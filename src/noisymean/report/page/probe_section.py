"""The part of a report that shows a probe: what was found to be divided by, and the run that was accounted for by it."""

from __future__ import annotations

import re
from typing import Any

from noisymean.accounts import Account
from noisymean.legible import text_of
from noisymean.probe.conclusions import Denominator
from noisymean.probe.finding import Finding, RunVerdict, Severity
from noisymean.probe.judgement import obstacle
from noisymean.report import account_words
from noisymean.report.page import banners, printed
from noisymean.report.page.banners import WHETHER, Banner
from noisymean.report.page.pair_shown import gradients_of, symbols_of
from noisymean.report.page.probes import ProbeRecord
from noisymean.report.page.range_figure import range_block
from noisymean.report.page.releases import denominator_of
from noisymean.report.page.section import Section
from noisymean.report.ranges import Range
from noisymean.words import capital
from noisymean.written import for_people

# How much a remark weighs, as a marked cell shows it.
_LOOKS = {Severity.LEAK: "bad", Severity.FAULT: "bad", Severity.UNKNOWN: "unknown", Severity.NOTE: ""}


def probe_section(found: ProbeRecord, run: RunVerdict | None, name: str) -> Section:
    """`run`: the verdict on the user's run, worked out again."""
    finding, seen = found.finding, found.finding.seen()
    answer = None if run is None else run.account
    return Section(
        kind="probe",
        name=name,
        title=f"Probe of {finding.target}",
        banner=_banner(finding, run),
        shown={
            "facts": [
                ("mechanism", finding.kind.value.upper()),
                *((name, _people(words)) for name, words in finding.facts()),
            ],
            "remarks": [
                ({"text": one.severity.value, "kind": _LOOKS[one.severity]}, _people(one.words))
                for one in finding.remarks
            ],
            "head": seen.names,
            "evidence": [tuple(map(for_people, row)) for row in seen.rows],
            "run": None if answer is None else _run(answer, name),
            "because": None if run is None else _people(run.because),
            "grounds": _grounds(found, answer),
            "seed": finding.seed,
            "version": found.version,
        },
    )


def _people(words: str) -> str:
    """Words of a probe, which were written for a terminal."""
    for typed, set_ in (("N q", "N*q"), ("+-", "±"), ("->", "→"), ("N b", "N*b")):
        words = words.replace(typed, set_)
    return re.sub(r"(\d)%", r"\1 %", for_people(words))


def _run(answer: Account, name: str) -> dict[str, Any]:
    """The three numbers of the run, and the pair of datasets behind them."""
    numbers, meanings = banners.three(answer), account_words.meanings(answer)
    symbol, fixed = banners.symbol(answer), " = ".join(banners.asked(answer))
    pair = answer.leakage.pair
    return {
        "title": _people(f"{answer.steps:,} step{'' if answer.steps == 1 else 's'} of {answer.mechanism.in_a_line()}"),
        "quantity": symbol,
        "bars": range_block(
            [Range.of(answer)],
            quantity=symbol,
            name=f"{name}-range",
            caption=f"{symbol} of the whole run at {fixed}. The truth lies in the bar, the long tick is what is claimed; an"
            " arrow: no upper bound is known.",
        ),
        "rows": [(which, shown, meanings[which]) for which, shown in numbers.items()],
        "pair": "" if pair is None else str(pair),
        "gradients": [] if pair is None else gradients_of(pair),
        "symbols": "" if pair is None else symbols_of(pair),
        "command": printed.account_command(answer),
    }


def _grounds(found: ProbeRecord, answer: Account | None) -> list[tuple[str, str, str]]:
    """A probe sees what the code does; of a run it knows what was typed."""
    how = f"seen: it was run at {len(found.finding.evidence):,} settings; what was not run is not seen"
    rows = [
        ("sampler, rate, denominator, noise", "as found above", how),
        ("that it was run", f"seed {found.finding.seed}", f"told: {text_of(found.file)}"),
    ]
    if answer is not None:
        numbers = f"{answer.mechanism.dataset_size or 0:,} records, {answer.steps:,} steps"
        rows.append(("records, parameters, noise multiplier, steps", numbers, "told: the options of the probe"))
    return rows


# --- the verdict -------------------------------------------------------------------------------------------------------


def _banner(finding: Finding, run: RunVerdict | None) -> Banner:
    if run is not None and run.account is not None:
        return _of_run(finding, run, run.account)
    kept = "" if run is None else f"No run was accounted for: {_people(run.because)}."
    divides = f"{finding.target} divides the noisy sum by"
    leaks = [one.words for one in finding.remarks if one.severity is Severity.LEAK]
    kind, words = denominator_of(finding.kind), _people(finding.denominator)
    if kind is Denominator.DATA_DEPENDENT:
        return Banner.of("data-dependent", f"{divides} a number that depends on the data: {words}.", kept or WHETHER)
    if leaks:
        return Banner.of("data-dependent", f"{finding.target} leaks: {_people(leaks[0])}.", kept)
    doubts = [one.words for one in finding.doubts]
    if open_ := obstacle(finding) or (doubts[0] if doubts else None):
        return Banner.of("unknown", f"What {finding.target} keeps is not known: {_people(open_)}.", kept)
    return Banner.of("constant", f"{divides} a constant, as far as was measured: its accounting applies.", kept)


def _of_run(finding: Finding, run: RunVerdict, answer: Account) -> Banner:
    """The banner of the account, and that it stands only as far as the mechanism was established."""
    found = f"Found by running {finding.target}: it divides by {_people(finding.denominator)}."
    because = _people(run.because)
    account = banners.account_banner(answer)
    match run.word:
        case "violated":
            return Banner.of("violated", account.headline, f"{found} {account.text}", account.lost)
        case "holds":
            return Banner(
                "holds", account.kind, account.label, account.headline, f"{found} As far as was measured: {because}."
            )
        case "undetermined":
            return Banner.of("undetermined", account.headline, f"{found} {capital(because)}.")
