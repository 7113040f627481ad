"""What the rules found as SARIF 2.1.0, the form in which forges and editors take it.

Places are relative to the folder in which the command was run, which SARIF calls SRCROOT here; those outside of it are absolute.
Nothing in it is text that was not checked: what cannot be seen is written out, and file names that are no text are their bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from noisymean.legible import text_of
from noisymean.lint.catalogue import RULES
from noisymean.lint.findings import Place, Rule
from noisymean.report.lint_marks import Marked, Reading, Silenced

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "noisymeanLine/v1"
# Longer lines are generated code; viewers have the file.
LONGEST = 1_000
_ROOT = "SRCROOT"
_LINK = re.compile(r"\[[^\]]*\]\(")


def log(reading: Reading, version: str) -> dict[str, Any]:
    """The whole file, as plain data."""
    run = {
        "tool": {"driver": {"name": "noisymean", "version": version, "rules": [_rule(one) for one in RULES.values()]}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": _text("The folder in which noisymean was run.")}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": [*_notifications(reading)]}],
        "results": [*_results(reading)],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def cut(text: str) -> str:
    """The text, no longer than anybody reads, and of characters that every encoding has."""
    return text_of(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def uri_of(file: str) -> str:
    """A file name as a relative reference; each byte that is no plain letter or digit is written as %XX.

    >>> uri_of("a b/ü:1.py")
    'a%20b/%C3%BC%3A1.py'
    """
    return quote(os.fsencode(PurePath(file).as_posix()), safe="/")


def _rule(rule: Rule) -> dict[str, Any]:
    remedy = f"{rule.says}\n\nRemedy:\n\n```python\n{rule.remedy}\n```\n\nMore: `{rule.page}`"
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": _message(f"{rule.name.replace('-', ' ').capitalize()}."),
        "fullDescription": _message(rule.says),
        "help": {
            **_message(f"{rule.says}\n\nRemedy:\n{rule.remedy}\n\nMore: {rule.page}"),
            "markdown": _without_placeholders(remedy),
        },
        "defaultConfiguration": {"level": rule.severity.value},
        # SARIF has a key for an absolute address only, and the documentation is files beside the source
        "properties": {"page": rule.page, "tags": ["privacy", "security"]},
    }


def _text(text: str) -> dict[str, str]:
    return {"text": text}


def _message(text: str) -> dict[str, str]:
    """A text in which SARIF would read brackets before parentheses as links."""
    shown = _without_placeholders(text_of(text))
    if _LINK.search(shown):
        shown = re.sub(r"([\\\[\]])", r"\\\1", shown)
    return {"text": shown}


def _without_placeholders(text: str) -> str:
    """A single brace would begin a placeholder."""
    return text.replace("{", "{{").replace("}", "}}")


def _results(reading: Reading) -> Iterator[dict[str, Any]]:
    compared = reading.baseline is not None
    for one in reading.findings:
        yield _result(one, compared, [])
    for each in reading.ignored:
        yield _result(each.marked, compared, [_suppression(each)])


def _suppression(silenced: Silenced) -> dict[str, str]:
    said = {"justification": cut(silenced.reason)} if silenced.reason else {}
    return {"kind": "inSource", **said}


def _result(marked: Marked, compared: bool, suppressions: list[dict[str, str]]) -> dict[str, Any]:
    """SARIF wants suppressions and states in every result, if they are in any."""
    rule = marked.finding.rule
    state = {"baselineState": "new" if marked.new else "unchanged"} if compared else {}
    return {
        "ruleId": rule.id,
        "ruleIndex": [*RULES].index(rule.id),
        "level": rule.severity.value,
        "message": _message(marked.finding.says),
        "locations": [_location(marked.finding.place)],
        "partialFingerprints": {FINGERPRINT: marked.fingerprint},
        "suppressions": suppressions,
        **state,
    }


def _location(place: Place) -> dict[str, Any]:
    region = {"startLine": place.line, "startColumn": place.column, "endLine": max(place.line, place.end_line)}
    cell = {} if place.cell is None else {"message": _text(f"code cell {place.cell}, line {place.cell_line}")}
    return {
        "physicalLocation": {
            "artifactLocation": _artifact(place.file),
            "region": {**region, "snippet": _text(cut(place.source))},
        },
        **cell,
    }


def _artifact(file: str) -> dict[str, str]:
    path = PurePath(file)
    if path.is_absolute():
        return {"uri": f"file://{uri_of(file)}"}
    return {"uri": uri_of(file), "uriBaseId": _ROOT}


def _notifications(reading: Reading) -> Iterator[dict[str, Any]]:
    """What was not read, and comments that silence nothing: no results, but nothing to be silent about."""
    for one in reading.not_read:
        where = {"physicalLocation": {"artifactLocation": _artifact(one.file)}}
        yield {"level": "warning", "message": _message(f"Not read: {one.reason}."), "locations": [where]}
    for idle in reading.idle:
        yield {"level": "note", "message": _message(cut(idle.says)), "locations": [_location(idle.place)]}
