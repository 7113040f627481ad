"""Numbers on their way out: a table for people, JSON for programs, a file that is whole or not there."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import TextColumn
from rich.text import Text

from noisymean.cli.complaints import refused
from noisymean.errors import InvalidInput
from noisymean.legible import on_a_line
from noisymean.ordinary import is_free
from noisymean.report import plots
from noisymean.report.page import need
from noisymean.schema import SCHEMA

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Tables fit into this; in a window that is smaller still the terminal wraps them, and no number is cut off.
_LEAST_WIDTH = 60
# A symbol, its sign and its number stay on one line. Rich breaks lines at every space, a no-break space too, so that the space
# is something else while lines are made.
_TOGETHER = re.compile(r" (>=|<=|[=<>]) ")
_GLUE = "\ue000"


def console() -> Console:
    """Standard output for people, at least 60 columns wide."""
    return _plain(width=_LEAST_WIDTH if Console().width < _LEAST_WIDTH else None)


def error_console() -> Console:
    """Standard error, where progress bars go."""
    return _plain(stderr=True)


def _plain(*, stderr: bool = False, width: int | None = None) -> Console:
    """The only console there is: brackets and colons in a line of somebody's source are text, in sentences and in tables."""
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def said_beside_a_bar(template: str) -> TextColumn:
    """Words of a progress bar, which have a markup of their own that consoles do not switch off."""
    return TextColumn(template, markup=False)


def say(out: Console, sentence: str | Text) -> None:
    """A sentence: wrapped for a terminal, on one line for a program; a verdict in it may have its colour (`cli.tones`)."""
    text = sentence.copy() if isinstance(sentence, Text) else Text(on_a_line(sentence))
    if not out.is_terminal:
        out.print(text, soft_wrap=True)
        return
    text.plain = _TOGETHER.sub(rf"{_GLUE}\1{_GLUE}", text.plain)
    for line in text.wrap(out, out.width):
        line.plain = line.plain.replace(_GLUE, " ")
        out.print(line, soft_wrap=True)


def note(sentence: str) -> None:
    """Progress and remarks go to standard error."""
    print(on_a_line(sentence), file=sys.stderr, flush=True)


def emit_json(record: Mapping[str, object]) -> None:
    """One JSON object, which no NaN or infinity can enter; it says by which rules its keys are to be read."""
    print(json.dumps({**record, "schema": SCHEMA}, allow_nan=False))


def plot_file(name: str, text: str) -> Path:
    """Where a plot is to go, refused before anything is computed if it could not be written there."""
    path = Path(text)
    if path.suffix.lower() not in plots.FORMATS or path.is_dir():
        raise refused(name, text)
    need_matplotlib()
    return in_a_folder(name, path)


def in_a_folder(name: str, path: Path) -> Path:
    """The path, if its folder is there and can be written, and nothing is in its place but an ordinary file."""
    if not path.parent.is_dir():
        raise InvalidInput(name, str(path), "a file in an existing folder", f"create {path.parent} first")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInput(name, str(path), "a file in a folder that can be written", "choose another folder")
    if not is_free(path):
        # a pipe or a device would be replaced by a file
        raise InvalidInput(name, str(path), "an ordinary file, or free", "choose another name")
    return path


@contextmanager
def written(name: str, path: Path) -> Iterator[None]:
    """A file that cannot be written after all is a complaint about the option that names it."""
    try:
        yield
    except OSError as fault:
        raise InvalidInput(name, str(path), "a file that can be written", fault.strerror or str(fault)) from None


def need_matplotlib() -> None:
    """Complain at once, not after the computation, when plots cannot be drawn."""
    need("matplotlib", extra="plots")


def write_plot(name: str, figure: Figure, path: Path) -> None:
    """Save `figure`; a failure names the option and leaves nothing behind."""
    with written(name, path):
        plots.save(figure, path)


def folder(text: str) -> Path:
    """The folder for results, made if need be."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise InvalidInput("out", text, "a folder that can be written", f"choose another ({reason})") from None
    return path
