"""`noisymean field`: the libraries of the field, run: what each divides by, what it claims, and whether it is exposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from noisymean import __version__
from noisymean.cli import options
from noisymean.cli.options import text
from noisymean.cli.output import console, emit_json, error_console, note, say
from noisymean.cli.pages import page_file, write_page
from noisymean.cli.progress import bar
from noisymean.cli.tables import Column, Kind, show
from noisymean.cli.tones import Tone, toned
from noisymean.field import Row, Subject, chosen, run_field
from noisymean.field.rows import Exposed
from noisymean.field.subjects import SUBJECTS, NotRun, environments_of
from noisymean.report import field_page, field_record
from noisymean.report import field_words as words
from noisymean.report.page import need as need_pages

# A library, or one way of it.
_NAMES = tuple(dict.fromkeys((*(one.library for one in SUBJECTS), *(one.name for one in SUBJECTS))))
_TONES = {
    Exposed.YES: Tone.BAD,
    Exposed.NO: Tone.GOOD,
    Exposed.CALLER: Tone.OPEN,
    Exposed.UNKNOWN: Tone.OPEN,
}


def command(
    *,
    only: Annotated[
        list[str] | None,
        text(
            "NAME",
            "A library, e.g. optax, or one way of it, e.g. opacus:ghost; may be given more than once.",
            autocompletion=options.from_names(_NAMES),
        ),
    ] = None,
    fresh: Annotated[
        bool, options.flag("--fresh", "Run everything again, also what an earlier run has stored.")
    ] = False,
    installed: Annotated[
        bool, options.flag("--installed", "Install nothing, and ask no index: run what is there.")
    ] = False,
    html: Annotated[str | None, text("FILE", "Also write one self-contained page.")] = None,
    json: options.Json = False,
) -> None:
    """What do the libraries of the field divide by, what do they claim, and is it so? Found by running them.

    Each library runs in an environment of its own in your cache, which is built once: about 4.5 GB for all of them. Finished
    rows are kept there, so that a run that was interrupted goes on where it was. What cannot be installed is a row that says so.

    \b
    Example:
      noisymean field --only optax --only opacus:ghost
      noisymean field --installed --html field.html
    """
    subjects = chosen(only or [])
    target = None if html is None else page_file("html", html)
    if target is not None:
        need_pages("jinja2")
    _announce(subjects, installed)
    with bar("ways", len(subjects), counted=True) as tell:

        def progress(row: Row, done: int, total: int) -> None:
            tell(completed=done, description=f"after {row.name}")
            if not error_console().is_terminal:
                note(f"{done} of {total}: {row.name}, {row.seconds:.0f} s")

        rows = run_field(subjects, fresh=fresh, installed_only=installed, tell=note, progress=progress)
    if target is not None:
        typed = " ".join(["noisymean field", *(f"--only {name}" for name in only or ())])
        write_page("html", target, field_page.page(rows, command=typed))
        note(f"page written to {target}")
    if json:
        emit_json(field_record.record(rows, __version__))
    else:
        _print(rows)


def _announce(subjects: Sequence[Subject], installed: bool) -> None:
    """What will be installed, and how large it is, before anything is."""
    missing = [one for one in environments_of(subjects) if not one.is_built]
    unknown = [one for one in subjects if isinstance(one, NotRun)]
    if installed:
        if missing or unknown:
            names = [one.title for one in missing] + [one.requirement for one in unknown]
            note(f"not installed here, and left out: {', '.join(names)}")
        return
    if missing:
        listed = ", ".join(f"{one.title} ({one.megabytes:,} MB)" for one in missing)
        total = sum(one.megabytes for one in missing)
        note(f"to be installed in {missing[0].place.parent}, about {total:,} MB in all: {listed}")


def _print(rows: Sequence[Row]) -> None:
    """One line to a way; why a row says what it says is said below the table."""
    out = console()
    columns = (
        Column("way"),
        Column("divides by"),
        Column("batches"),
        Column("own", Kind.NUMBER),
        Column("leaked", Kind.NUMBER),
        Column("exposed"),
    )
    shown = [
        (
            row.name,
            words.divides_by(row),
            words.NONE if row.observed is None else row.sampler.value,
            words.claimed(row),
            words.leaked(row.lost),
            toned(words.exposed(row), _TONES[row.exposed]),
        )
        for row in rows
    ]
    show(out, columns, shown, close=True)
    say(out, f"Exposed: {words.counts(rows)}.")
    say(
        out,
        f"{words.the_run()} own: epsilon by the library's accounting; leaked: certainly lost, where batches are the caller's if"
        " they are Poisson batches.",
    )
    for sentence in words.grouped(rows):
        say(out, f"- {sentence}.")
