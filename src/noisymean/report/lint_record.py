"""What the rules found as the plain data of `--json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noisymean.lint.catalogue import RULES
from noisymean.lint.findings import Place, Rule
from noisymean.report.lint_marks import Marked, Reading

# Longer lines are generated code.
LONGEST = 2_000


def record(reading: Reading) -> dict[str, Any]:
    """The keys of `--json` that are about the rules."""
    return {
        "findings": [finding(one) for one in reading.findings],
        "ignored": [{**finding(one.marked), "reason": one.reason} for one in reading.ignored],
        "idle": [{**_place(one.place), "rules": [*one.rules]} for one in reading.idle],
        "not_read": [{"file": one.file, "reason": one.reason} for one in reading.not_read],
        "files_checked": reading.files,
        "rules": rules(one.finding.rule for one in (*reading.findings, *(each.marked for each in reading.ignored))),
        "baseline": _baseline(reading),
    }


def rules(those: Iterable[Rule]) -> dict[str, Any]:
    """Each rule once, in the order of their ids."""
    chosen = {one.id for one in those}
    return {
        one.id: {
            "name": one.name,
            "severity": one.severity.value,
            "says": one.says,
            "remedy": one.remedy,
            "page": one.page,
        }
        for one in RULES.values()
        if one.id in chosen
    }


def finding(one: Marked) -> dict[str, Any]:
    """One finding, alike for those that are silenced."""
    rule = one.finding.rule
    return {
        "rule": rule.id,
        "name": rule.name,
        "severity": rule.severity.value,
        **_place(one.finding.place),
        "says": one.finding.says,
        "remedy": rule.remedy,
        "fingerprint": one.fingerprint,
        "new": one.new,
    }


def _place(place: Place) -> dict[str, Any]:
    source = place.source
    return {
        "file": place.file,
        "line": place.line,
        "end_line": place.end_line,
        "column": place.column,
        "cell": place.cell,
        "cell_line": place.cell_line,
        "source": source if len(source) <= LONGEST else f"{source[: LONGEST - 1]}…",
    }


def _baseline(reading: Reading) -> dict[str, Any] | None:
    if reading.baseline is None:
        return None
    new = len(reading.new)
    known = len(reading.findings) - new
    return {"file": reading.baseline.file, "known": known, "new": new, "gone": reading.gone}
