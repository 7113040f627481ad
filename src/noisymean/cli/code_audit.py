"""`noisymean code-audit`: every release of Opacus run and read, or any other source code read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from noisymean import __version__
from noisymean.cli import gate, options, values
from noisymean.cli.options import text
from noisymean.cli.output import console, emit_json, error_console, note, say, visible
from noisymean.cli.pages import page_file, write_page
from noisymean.cli.progress import bar
from noisymean.cli.shown import table_of
from noisymean.errors import InvalidInput
from noisymean.probe.code_audit import MEAN, NO_POISSON, SUM, Audited, audit_opacus, record, versions_of
from noisymean.probe.conclusions import Denominator, poisson_words, read_mechanism, read_verdict
from noisymean.probe.laws import Kind
from noisymean.probe.packages import source_of
from noisymean.probe.reading import CONSTANTS, OF_THE_DATA, Origin, Role, Source, read_source, to_json
from noisymean.report import code_audit_page
from noisymean.report.page import need as need_pages
from noisymean.results import Lines

OPACUS = "opacus"
_ALL = "0.9.0..1.6.0"


def command(
    package: Annotated[
        str,
        typer.Argument(
            metavar="PACKAGE", show_default=False, help="opacus; or a folder, a file, or a package's name: read only."
        ),
    ],
    *,
    versions: Annotated[str | None, text("FIRST..LAST", f"Releases of opacus [default: {_ALL}].")] = None,
    fresh: Annotated[bool, options.flag("--fresh", "Run again what an earlier audit has kept.")] = False,
    jobs: Annotated[str, text("J", "Releases at a time.")] = "2",
    html: Annotated[str | None, text("FILE", "Also one self-contained page.")] = None,
    limits: gate.Limits,
    json: options.Json = False,
) -> None:
    """What does each release divide by? By running it and by reading it, beside the paper's table.

    Every release runs in a process of its own; anything else is read, never run. Results are kept in the cache, so an
    audit that was interrupted goes on where it was.

    \b
    Example:
      noisymean code-audit opacus --versions 0.13.0..1.0.0 --html audit.html
      noisymean code-audit jax-privacy
    """
    gated = limits.gate()
    if package != OPACUS:
        if versions is not None or html is not None:
            name, value = ("versions", versions) if versions is not None else ("html", html)
            raise InvalidInput(name, value, "left out for anything but opacus", "other code is read, not run")
        gated.check([_read(package, json)])
        return
    chosen = versions_of(versions or _ALL)
    count = values.whole("jobs", jobs)
    target = None if html is None else page_file("html", html)
    if target is not None:
        need_pages("jinja2")
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
    """One line to a release, at 80 columns; what does not fit into a word is said below the table."""
    out = console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("release", "Poisson", "mean", "sum", "divides at", "read", "paper"):
        table.add_column(name, overflow="fold")
    for one in results:
        default = "" if one.kind(NO_POISSON) is None else f"/{_named(one, NO_POISSON)}"
        place = next(iter(one.statements()), None)
        paper = "-" if one.paper is None else "none" if one.paper.mechanism is None else one.paper.words
        table.add_row(
            one.version, _poisson(one), _named(one, MEAN) + default, _named(one, SUM),
            "-" if place is None else PurePosixPath(place.place).name,
            "differs" if one.disagreements else "fault" if one.faults else "agrees",
            f"{paper} *" if one.against_paper else paper,
        )  # fmt: skip
    out.print(table)
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


def _read(package: str, as_json: bool) -> gate.Judgement:
    """Another package: what its statements say."""
    place = source_of(package)
    source = read_source(place)
    if not source.files:
        raise InvalidInput("package", package, "a folder or file with Python source", "give the folder of the package")
    verdict, kind = read_verdict(source), read_mechanism(source)
    judged = gate.of_source(package, verdict)
    if as_json:
        concluded = {"package": package, "verdict": verdict.value, "mechanism": kind.value}
        plain = to_json(source)
        poisson = {"poisson": poisson_words(source), "poisson_read": plain["poisson"]}
        emit_json({**concluded, **plain, **poisson, "version": __version__})
        return judged
    out = console()
    files = "1 file" if source.files == 1 else f"{source.files:,} files"
    say(out, f"{package}: {_word(verdict, kind)}; {files} read, nothing of it was run.")
    if source.statements:
        rows = [(at.place, at.text, at.role.value, at.divided_by, at.sure.value) for at in source.statements]
        names = ("divides at", "statement", "what", "by", "sure")
        out.print(table_of(Lines("", names, [[*map(visible, row)] for row in rows])))
    for sentence in _explained(source, verdict, place):
        say(out, sentence)
    for name in source.unreadable:
        say(out, f"- not read: {name}")
    return judged


def _word(verdict: Denominator, kind: Kind) -> str:
    match verdict:
        case Denominator.DATA_DEPENDENT:
            return "depends on the data" + ("" if kind is Kind.UNKNOWN else f" ({kind.value.upper()})")
        case Denominator.CONSTANT:
            return "a constant (SGM)"
        case Denominator.UNKNOWN:
            return "unknown"


def _explained(source: Source, verdict: Denominator, place: Path) -> Iterator[str]:
    """Why the answer is what it is, and what to do where reading is not enough."""
    noisy = [one for one in source.statements if one.role is not Role.UNCLEAR]
    match verdict:
        case Denominator.DATA_DEPENDENT:
            used = {origin for one in noisy for origin in one.origins if origin in OF_THE_DATA}
            named = " or ".join(sorted(one.value for one in used))
            is_noise = not any(one.role is Role.GRADIENT and OF_THE_DATA & set(one.origins) for one in noisy)
            where = " (the noise; the gradients' own mean was not found)" if is_noise else ""
            yield f"The denominator is {named}{where}{', which depends on how it is used' if len(used) > 1 else ''}."
        case Denominator.CONSTANT:
            used = {origin for one in noisy for origin in one.origins}
            yield f"The denominator is {' or '.join(sorted(one.value for one in used))}."
            if Origin.CALLER in used:
                yield "Whether the caller takes it from the data is not known here."
        case Denominator.UNKNOWN:
            yield _not_understood(source)
    unclear = [one for one in source.statements if not set(one.origins) <= CONSTANTS | OF_THE_DATA]
    if verdict is Denominator.DATA_DEPENDENT and unclear:
        yield f"Of {len(source.statements):,} divisions {len(unclear):,} were not understood."
    if verdict is Denominator.UNKNOWN:
        target = place if place.suffix == ".py" else "FILE.py"
        yield f"Running it tells more: 'noisymean probe {target}:NAME', NAME being a function that does one step."


def _not_understood(source: Source) -> str:
    """What keeps reading from an answer."""
    unclear = [one for one in source.statements if not set(one.origins) <= CONSTANTS]
    if source.unreadable:
        return "Not all of the source could be read."
    if not source.statements:
        return "No division of gradients or noise was found; it may be there in a form that is not recognised."
    if not unclear:
        return "No division of something noisy was found; it may be there in a form that is not recognised."
    count = "One division was" if len(unclear) == 1 else f"{len(unclear):,} divisions were"
    return f"{count} not understood: what is divided, or where the number comes from that it is divided by."
