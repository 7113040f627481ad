"""Findings that are recognised again: a fingerprint for each, and a file of those that are known already.

A fingerprint is made of the rule, the file and the text of the line, spaces aside, and counts lines that are the same; so it
stays where code above it comes or goes, and is another one once the line itself is changed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from noisymean import ordinary
from noisymean.errors import NoisymeanError
from noisymean.legible import shortened, text_of
from noisymean.lint.findings import Finding, Idle, Linted, NotRead

MOST_BYTES = 16 * 2**20
# The version of the fingerprints: another way to make them is another version.
VERSION = 1
_WRITTEN_BY = "give a file written by noisymean code-audit --write-baseline"


class BadBaseline(NoisymeanError):
    """A file that is no baseline."""


@final
@dataclass(frozen=True)
class Marked:
    """A finding by which it can be recognised again, and whether the baseline does not know it."""

    finding: Finding
    fingerprint: str
    new: bool = True


@final
@dataclass(frozen=True)
class Silenced:
    """One that a comment silences, with its reason."""

    marked: Marked
    reason: str


@final
@dataclass(frozen=True)
class Known:
    """A baseline: the fingerprints in it, and the file."""

    file: str
    fingerprints: frozenset[str]


@final
@dataclass(frozen=True)
class Reading:
    """What the rules found, marked, and what of it a baseline knows."""

    findings: tuple[Marked, ...]
    ignored: tuple[Silenced, ...]
    idle: tuple[Idle, ...]
    not_read: tuple[NotRead, ...]
    files: int
    baseline: Known | None = None

    @property
    def new(self) -> tuple[Marked, ...]:
        """What the baseline does not know; everything, where there is none."""
        return tuple(one for one in self.findings if one.new)

    @property
    def gone(self) -> int:
        """How many of the baseline are not found any more, neither open nor silenced."""
        seen = {one.fingerprint for one in (*self.findings, *(each.marked for each in self.ignored))}
        return 0 if self.baseline is None else len(self.baseline.fingerprints - seen)


def marked(linted: Linted, baseline: Known | None = None) -> Reading:
    """Everything that was found, recognised."""
    every = [*linted.findings, *(one.finding for one in linted.ignored)]
    made = _fingerprints(every)
    known = frozenset[str]() if baseline is None else baseline.fingerprints
    marks = [Marked(one, mark, mark not in known) for one, mark in zip(every, made, strict=True)]
    count = len(linted.findings)
    reasons = [one.reason for one in linted.ignored]
    return Reading(
        findings=tuple(marks[:count]),
        ignored=tuple(Silenced(one, why) for one, why in zip(marks[count:], reasons, strict=True)),
        idle=linted.idle,
        not_read=linted.not_read,
        files=linted.files,
        baseline=baseline,
    )


def _fingerprints(findings: Sequence[Finding]) -> list[str]:
    """In the order of the findings; equal ones are counted from the top of the file."""
    order = sorted(range(len(findings)), key=lambda at: (findings[at].place.line, findings[at].place.column, at))
    seen: Counter[tuple[str, str, str]] = Counter()
    made = [""] * len(findings)
    for at in order:
        one = findings[at]
        key = (one.rule.id, one.place.file, " ".join(one.place.source.split()))
        seen[key] += 1
        said = json.dumps([VERSION, *key, seen[key]])
        made[at] = hashlib.sha256(said.encode("ascii")).hexdigest()[:32]
    return made


# --- the file ----------------------------------------------------------------------------------------------------------


def written(reading: Reading, version: str) -> bytes:
    """A baseline that knows every finding; one line for each, so that a change of it can be read."""
    lines = sorted(
        json.dumps(
            {
                "file": one.finding.place.file,
                "rule": one.finding.rule.id,
                "source": " ".join(one.finding.place.source.split())[:200],
                "fingerprint": one.fingerprint,
            }
        )
        for one in reading.findings
    )
    listed = "".join(f"\n  {line}," for line in lines).removesuffix(",")
    return f'{{"baseline": {VERSION}, "version": {json.dumps(version)}, "findings": [{listed}\n]}}\n'.encode("ascii")


def known(name: str) -> Known:
    """The baseline in a file; BadBaseline in one line where it is none."""
    shown = shortened(text_of(name))
    content = _content(name, shown)
    try:
        found: Any = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise BadBaseline(f"{shown}: is no baseline (not JSON); {_WRITTEN_BY}") from None
    if not isinstance(found, dict) or not isinstance(found.get("findings"), list) or "baseline" not in found:
        raise BadBaseline(f"{shown}: is no baseline; {_WRITTEN_BY}")
    if found["baseline"] != VERSION or isinstance(found["baseline"], bool):
        raise BadBaseline(
            f"{shown}: is a baseline of another version of noisymean; write it again with --write-baseline"
        )
    marks = [one.get("fingerprint") if isinstance(one, dict) else None for one in found["findings"]]
    texts = frozenset(mark for mark in marks if isinstance(mark, str))
    if None in marks or len(texts) < len(set(map(str, marks))):
        raise BadBaseline(f"{shown}: is no baseline (a finding without a fingerprint); {_WRITTEN_BY}")
    return Known(name, texts)


def _content(name: str, shown: str) -> bytes:
    """All of the file."""
    try:
        content = ordinary.content(name, MOST_BYTES)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise BadBaseline(f"{shown}: cannot be read ({reason}); {_WRITTEN_BY}") from None
    if len(content) > MOST_BYTES:
        raise BadBaseline(f"{shown}: must be at most {MOST_BYTES >> 20} MB; {_WRITTEN_BY}")
    return content
