"""`noisymean check`: one line for each known pitfall of training with DP. Files are read, nothing is run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from noisymean.cli import lint_shown, options
from noisymean.cli.gate import FOUND
from noisymean.cli.options import text
from noisymean.cli.output import console, emit_json, note, say
from noisymean.cli.progress import bar
from noisymean.cli.tables import Column, Kind, show
from noisymean.cli.tones import toned
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.scorecard import Scorecard
from noisymean.scorecard.source.reader import check_source

_NO_PATH = "PATH: missing; must be a file or a folder; e.g. noisymean check train.py"
_KINDS = (Kind.TITLE, Kind.NAME, Kind.PROSE)


def command(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", show_default=False, help="Scripts, notebooks, folders: read only."),
    ] = None,
    *,
    exclude: Annotated[
        list[str] | None,
        text("PATTERN", "Leave out files or folders, e.g. 'tests/*'; may be given more than once."),
    ] = None,
    fail_on_found: Annotated[
        bool, options.flag("--fail-on-found", "Exit with 1 if a pitfall is found that no comment silences.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Which of the known pitfalls of training with DP are in this code, which are not, and which cannot be told?

    One line each: passed, found, or not checkable, with the reason. Passed means that what is in view shows it, not that
    nothing was found. The code is read, never run; nm.check(optimizer, data_loader=loader) looks at a run of Opacus.

    \b
    Example:
      noisymean check train.py
      noisymean check . --exclude 'tests/*' --fail-on-found
    """
    if not paths:
        raise NoisymeanError(_NO_PATH)
    for one in paths:
        if not Path(one).exists():
            raise InvalidInput("PATH", one, "an existing file or folder", "check the spelling")
    name = paths[0] if len(paths) == 1 else shlex.join(paths)
    with bar("files", 0) as tell:

        def progress(done: int) -> None:
            tell(completed=done, total=None, description=f"{done:,} files")

        card = check_source([Path(one) for one in paths], name, exclude=tuple(exclude or ()), progress=progress)
    if not card.files and not card.not_read:
        raise InvalidInput("PATH", name, "a folder or file with Python source", "give the folder of the scripts")
    if json:
        emit_json(card.to_dict())
    else:
        _print(card)
    if fail_on_found and card.found:
        those = ", ".join(one.pitfall.id for one in card.found)
        note(f"failed: --fail-on-found: {len(card.found)} found: {those}")
        raise typer.Exit(FOUND)


def _print(card: Scorecard) -> None:
    """The table; what was not read, and the counts, below."""
    out, lines = console(), card.lines()
    say(out, lines.heading)
    rows = [(pitfall, toned(outcome), why) for pitfall, outcome, why in lines.rows]
    show(out, [Column(name, kind) for name, kind in zip(lines.names, _KINDS, strict=True)], rows, close=True)
    for sentence in lines.sentences:
        say(out, lint_shown.shortened(sentence))
