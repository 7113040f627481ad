"""What the rules found as workflow commands, which GitHub shows at the lines of a change.

A runner takes any line of output that begins with two colons for a command, wherever it comes from. So text that is not ours is
printed between two lines that switch commands off, with a word that nobody can guess.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from noisymean.legible import text_of
from noisymean.lint.findings import Severity
from noisymean.report.lint_marks import Marked, Reading

_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def commands(reading: Reading) -> Iterator[str]:
    """One command for each finding that the baseline does not know."""
    return map(_command, reading.new)


def quiet() -> tuple[str, str]:
    """The lines before and after text that is not ours."""
    word = secrets.token_hex(16)
    return f"::stop-commands::{word}", f"::{word}::"


def _command(one: Marked) -> str:
    rule, place = one.finding.rule, one.finding.place
    properties = {
        "file": place.file,
        "line": str(place.line),
        "endLine": str(max(place.line, place.end_line)),
        "col": str(place.column),
        "title": f"{rule.id} {rule.name}",
    }
    # GitHub refuses columns over several lines
    if place.end_line > place.line:
        del properties["col"]
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    cell = "" if place.cell is None else f"Code cell {place.cell}, line {place.cell_line}. "
    words = "\n".join((f"{cell}{one.finding.says}", "Remedy:", rule.remedy, rule.page))
    return f"::{_LEVEL[rule.severity]} {said}::{_data(words)}"


def _data(text: str) -> str:
    return text_of(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
