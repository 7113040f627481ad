"""`noisymean code-audit`: any source code read, or every release of Opacus run and read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated

import typer

from noisymean import __version__
from noisymean.cli import code_read, gate, lint_options, lint_shown, options, values
from noisymean.cli.complaints import OutOfPlace
from noisymean.cli.options import text
from noisymean.cli.output import console, emit_json, error_console, note, say
from noisymean.cli.pages import page_file, write_page
from noisymean.cli.progress import bar
from noisymean.cli.tables import Column, Kind, show
from noisymean.cli.tones import toned
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.lint.catalogue import RULES
from noisymean.lint.findings import Rule
from noisymean.probe.code_audit import MEAN, NO_POISSON, SUM, Audited, audit_opacus, not_kept, record, versions_of
from noisymean.report import code_audit_page, lint_record
from noisymean.report.page import need

OPACUS = "opacus"
_ALL = "0.9.0..1.6.0"
_COLUMNS = ("release", "Poisson", "mean", "sum", "divides at", "read", "paper")
_NO_PATH = "PATH: missing; must be a file, a folder or the name of a package; e.g. noisymean code-audit ."


def command(
    packages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH",
            show_default=False,
            help="Folders, files, notebooks, or the names of packages: read only. Or opacus: its releases are run.",
        ),
    ] = None,
    *,
    checks: lint_options.Checks,
    versions: Annotated[str | None, text("FIRST..LAST", f"Releases of opacus [default: {_ALL}].")] = None,
    fresh: Annotated[
        bool, options.flag("--fresh", "Run everything again, also what an earlier audit has stored.")
    ] = False,
    jobs: Annotated[str, text("J", "Number of releases that are run at a time.")] = "2",
    html: Annotated[str | None, text("FILE", "Also write one self-contained page.")] = None,
    limits: gate.Limits,
    json: options.Json = False,
) -> None:
    """What breaks the privacy of DP training in this code, and what does it divide by?

    Source is read, never run: the findings of the rules with their remedies, then the divisions. A comment silences rules in its
    statement: # noisymean: ignore[NM003] reason. With opacus every release runs in a process of its own and is set beside the
    paper's table; results are kept in the cache, so an audit that was interrupted goes on where it was.

    \b
    Example:
      noisymean code-audit train.py notebooks/ --fail-on warning
      noisymean code-audit . --sarif found.sarif --baseline known.json
      noisymean code-audit jax-privacy
      noisymean code-audit opacus --versions 0.13.0..1.0.0 --html audit.html
    """
    rule = checks.rule()
    if checks.list_rules or rule is not None:
        _rules(rule, json)
        return
    gated = limits.gate()
    if not packages:
        raise NoisymeanError(_NO_PATH)
    if packages != [OPACUS]:
        if versions is not None or html is not None:
            name, value = ("versions", versions) if versions is not None else ("html", html)
            raise InvalidInput(name, value, "left out for anything but opacus", "other code is read, not run")
        asked = checks.read(json=json)
        reading, judged = code_read.read(packages, asked, as_json=json)
        asked.check(reading)
        gated.check([judged])
        return
    if (option := checks.first()) is not None:
        raise OutOfPlace(option, "left out for opacus", "its releases are run; give its folder to read it")
    _releases(versions, fresh=fresh, jobs=jobs, html=html, gated=gated, json=json)


def _rules(only: Rule | None, as_json: bool) -> None:
    """All rules, or the page of one."""
    if as_json:
        emit_json({"rules": lint_record.rules(RULES.values() if only is None else [only]), "version": __version__})
    elif only is None:
        lint_shown.rules(console())
    else:
        lint_shown.page(console(), only)


def _releases(versions: str | None, *, fresh: bool, jobs: str, html: str | None, gated: gate.Gate, json: bool) -> None:
    """Releases of Opacus, run and read."""
    chosen = versions_of(versions or _ALL)
    count = values.whole("jobs", jobs)
    target = None if html is None else page_file("html", html)
    if target is not None:
        need("jinja2")
    if fresh or not_kept(chosen):
        need("torch", extra="audit")
    with bar("releases", len(chosen), counted=True) as tell:

        def progress(one: Audited, done: int, total: int) -> None:
            tell(completed=done, description=f"after {one.version}")
            if not error_console().is_terminal:
                note(f"{done} of {total}: opacus=={one.version}, {one.seconds:.0f} s")

        results = audit_opacus(chosen, jobs=min(max(count, 1), len(chosen)), fresh=fresh, progress=progress)
    if target is not None:
        typed = f"noisymean code-audit opacus --versions {versions or _ALL}"
        write_page("html", target, code_audit_page.page(results, command=typed, version=__version__))
        note(f"page written to {target}")
    if json:
        emit_json({"package": OPACUS, "releases": [record(one) for one in results], "version": __version__})
    else:
        _print(results)
    judged = []
    for one in results:
        # as it is used by default; what could not be run is not judged
        used = (MEAN, NO_POISSON) if NO_POISSON in one.findings else (MEAN,)
        judged += [gate.of_kind(f"opacus=={one.version}, {option}", one.kind(option)) for option in used]
    gated.check(judged)


def _print(results: list[Audited]) -> None:
    """One line to a release; what does not fit into a word is said below the table."""
    out = console()
    columns = [Column(name, Kind.PROSE if name == "divides at" else Kind.NAME) for name in _COLUMNS]
    rows = []
    for one in results:
        default = "" if one.kind(NO_POISSON) is None else f"/{_named(one, NO_POISSON)}"
        place = next(iter(one.statements()), None)
        paper = "-" if one.paper is None else "none" if one.paper.mechanism is None else one.paper.words
        rows.append((
            one.version, _poisson(one), _named(one, MEAN) + default, _named(one, SUM),
            "-" if place is None else PurePosixPath(place.place).name,
            toned("differs" if one.disagreements else "fault" if one.faults else "agrees"),
            f"{paper} *" if one.against_paper else paper,
        ))  # fmt: skip
    show(out, columns, rows, close=True)
    for words, those in _grouped((one.poisson, one.version) for one in results):
        say(out, f"Poisson sampling, {those}: {words}.")
    if any(one.paper is not None and one.paper.mechanism is None for one in results):
        say(out, "paper, none: by the paper's table there is no Poisson sampling.")
    for words, those in _grouped((words, one.version) for one in results for words in one.against_paper):
        say(out, f"* {those}: {words}.")
    for one in results:
        for words in one.disagreements:
            say(out, f"- {one.version}, {words}.")
        for option, words in one.faults.items():
            say(out, f"- {one.version}, {option}: {words}")


def _poisson(one: Audited) -> str:
    """In a word: how Poisson sampling is had."""
    if one.source is None:
        return "unknown"
    found = one.source.poisson
    if found.switch is not None:
        return "default" if found.default else "option"
    return "sampler" if found.samplers else "none"


def _grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """A sentence, and the releases that it is about: FIRST to LAST."""
    found: dict[str, list[str]] = {}
    for words, version in pairs:
        found.setdefault(words, []).append(version)
    return [(words, those[0] if len(those) == 1 else f"{those[0]} to {those[-1]}") for words, those in found.items()]


def _named(one: Audited, option: str) -> str:
    kind = one.kind(option)
    return "unknown" if kind is None else kind.value.upper()
