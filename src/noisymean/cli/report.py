"""`noisymean report`: one self-contained page of accounts, audits, probes and code audits."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Annotated

import typer

from noisymean.accounts import Account
from noisymean.cli import gate, options
from noisymean.cli.account import run_of
from noisymean.cli.complaints import Missing, Wanted, missing_line
from noisymean.cli.given import STANDARD_INPUT, content, shown
from noisymean.cli.output import console, emit_json, say
from noisymean.cli.pages import page_file, write_page
from noisymean.cli.progress import bar
from noisymean.cli.report_runs import PARTS, compared, probed_run, shown_run
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.legible import text_of
from noisymean.mechanisms import KINDS
from noisymean.report import page
from noisymean.report.page import banners, sections
from noisymean.report.page.compare_section import compare_section
from noisymean.report.page.probe_section import probe_section
from noisymean.report.page.probes import ProbeRecord
from noisymean.report.page.recognised import Record, record_of
from noisymean.report.page.records import AccountRecord, AuditRecord
from noisymean.report.page.releases import CodeRecord
from noisymean.report.page.section import Section
from noisymean.report.page.untrusted import BadRecord, parsed

_TITLE = "Privacy report"


def command(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.json]...",
            show_default=False,
            help="What account, audit, probe or code-audit printed with --json; - is standard input.",
        ),
    ] = None,
    *,
    described: options.Described,
    asked: options.Asked,
    compare: Annotated[
        str | None,
        options.text(
            "NAMES",
            "The same run under several mechanisms, side by side: easgm,feasgm,asgm,sgm.",
            show_default=False,
            autocompletion=options.from_list_of(KINDS),
        ),
    ] = None,
    out: Annotated[str | None, options.text("FILE", "The page: FILE.html.", show_default=False)] = None,
    title: Annotated[str, options.text("TEXT", "The heading of the page.")] = _TITLE,
    author: Annotated[str, options.text("TEXT", "Whose report it is: below the heading.", show_default=False)] = "",
    notes: Annotated[
        str, options.text("TEXT", "Notes of yours, below the heading; lines stay lines.", show_default=False)
    ] = "",
    limits: gate.Limits,
    json: options.Json = False,
) -> None:
    """One HTML page: the verdict in words, claimed / leaked / guaranteed, plots, the proof, the remedy.

    The page needs no network: it opens from disk, prints, and follows light or dark. Results come from JSON files, or from
    the options of 'noisymean account', or from both. The numbers of an account are computed again before they are shown.

    \b
    Example:
      noisymean report --mechanism opacus-loader --dataset-size 60000 --batch-size 600 \\
          --dimension 26010 --noise-multiplier 1 --epochs 10 --delta 1e-5 --out report.html
      noisymean audit synthetic --mechanism easgm --dataset-size 4 --dimension 100 \\
          --sample-rate 0.05 --noise-multiplier 10 --seed 1 --json | noisymean report - --out audit.html
      noisymean report --compare easgm,feasgm,asgm,sgm,opacus-loader --dataset-size 60000 --batch-size 600 \\
          --dimension 26010 --noise-multiplier 1 --epochs 10 --delta 1e-5 --out compared.html
    """
    gated = limits.gate()
    if out is None:
        raise NoisymeanError(missing_line("--out", Wanted("a file named *.html", "report.html")))
    target = page_file("out", out)
    page.need()
    several = [] if compare is None else compared(compare, described, asked)
    typed = [*([] if compare is None else ["--compare", compare]), *described.typed(), *asked.typed()]
    names = files or []
    if not names and not typed:
        raise Missing("mechanism", "or a file of results")
    if names.count(STANDARD_INPUT) > 1:
        raise InvalidInput("FILE", STANDARD_INPUT, "given once", "standard input can be read once")
    records = [record_of(parsed(content(name), shown(name))) for name in names]
    runs = [run_of(described, asked)] if typed and compare is None else []
    made: list[Section] = []
    judged: list[gate.Judgement] = []
    computed = len(runs) + sum(isinstance(one, AccountRecord) for one in records)
    with bar("computing the runs", PARTS * computed + len(several)) as tell:
        if several:
            answers = [_told(one.account(), tell) for one in several]
            made.append(compare_section(answers, "compared"))
            judged += [gate.of_account(answer) for answer in answers]
        for one in runs:
            run = shown_run(one, tell)
            made.append(sections.account_section(run, "run"))
            judged.append(gate.of_account(run.answer))
        for index, found in enumerate(records, 1):
            section, results = _section(found, f"result-{index}", tell)
            made.append(section)
            judged += results
    said = {"--title": title if title != _TITLE else "", "--author": author, "--notes": notes}
    headed = [part for name, text in said.items() if text for part in (name, text)]
    line = text_of(shlex.join(["noisymean", "report", *names, *typed, *headed, "--out", out]))
    head = page.Head(text_of(author), text_of(notes))
    write_page("out", target, sections.report(made, title=text_of(title), command=line, head=head))
    if json:
        listed = [{"kind": one.kind, "title": one.title, "verdict": one.banner.word} for one in made]
        verdict = banners.worst([one.banner.word for one in made])
        emit_json({"page": str(target), "verdict": verdict, "sections": listed})
    else:
        for part in made:
            say(console(), f"{part.title}: {part.banner.headline}")
        say(console(), f"Page: {target}")
    gated.check(judged)


def _told(answer: Account, tell: Callable[..., None]) -> Account:
    tell(advance=1)
    return answer


# --- files -------------------------------------------------------------------------------------------------------------


def _section(found: Record, name: str, tell: Callable[..., None]) -> tuple[Section, list[gate.Judgement]]:
    """What is shown of a file, and what it says to a script."""
    if isinstance(found, AuditRecord):
        return sections.audit_section(found, name), [gate.of_audit_record(found)]
    if isinstance(found, CodeRecord):
        return sections.code_section(found, name), gate.of_code_record(found)
    try:
        if isinstance(found, ProbeRecord):
            probed = probed_run(found)
            answer, refused = (None, None) if probed is None else (probed.account, probed.because)
            judged = gate.of_probe(found.finding, answer, refused if answer is None else None)
            return probe_section(found, probed, name), [judged]
        run = shown_run(found.asked, tell, stated=found)
        return sections.account_section(run, name), [gate.of_account(run.answer)]
    except BadRecord:
        raise
    except NoisymeanError as fault:
        raise BadRecord(f"{found.file}: {fault}") from None
