"""Comments that silence rules: `# noisymean: ignore[NM003] the loader is a fixture`, or several ids with commas between them.

A comment silences what is found in the statement it stands in, on whichever line of it. The reason is listed with the finding.
What a comment names and does not silence is listed as well: it may have been left behind, or be misspelt. A comment is what
Python takes for one: the same text in a string silences nothing.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import final

from noisymean.lint.findings import Finding, Idle, Ignored, Place
from noisymean.lint.text import Text

_COMMENT = re.compile(r"#\s*noisymean:\s*ignore\b(?:\s*\[(?P<rules>[^\]]*)\])?\s*(?P<reason>.*)$", re.IGNORECASE)
# What every comment of ours has in it, in the spelling of the comment.
_OURS = re.compile(r"noisymean:", re.IGNORECASE)
_MOST_NAMED = 50
_LONGEST = 300
# Beyond that no source is cut into tokens: there, nothing is silenced.
_MOST_CHARACTERS = 1 << 22


@final
@dataclass
class _Comment:
    """One comment: where it stands, the rules that it names, and those of them that it has silenced."""

    place: Place
    rules: tuple[str, ...]
    reason: str
    used: set[str] = field(default_factory=set)

    def silences(self, finding: Finding) -> bool:
        """Whether it stands in the finding's statement and names its rule."""
        here, there = self.place, finding.place
        if finding.rule.id not in self.rules or here.cell != there.cell:
            return False
        if here.cell is None or here.cell_line is None or there.cell_line is None:
            return there.line <= here.line <= there.end_line
        # the lines of a cell may all stand on one line of the file
        return there.cell_line <= here.cell_line <= there.cell_line + (there.end_line - there.line)

    @property
    def idle(self) -> Idle | None:
        """What it names in vain; None if nothing is."""
        left = tuple(one for one in self.rules if one not in self.used)
        return Idle(self.place, left) if left or not self.rules else None


def silenced(text: Text, findings: Iterable[Finding]) -> tuple[list[Finding], list[Ignored], list[Idle]]:
    """What is left, what is silenced, and the comments that silence nothing."""
    comments = list(_comments(text))
    left, ignored = [], []
    for one in findings:
        by = next((comment for comment in comments if comment.silences(one)), None)
        if by is None:
            left.append(one)
        else:
            by.used.add(one.rule.id)
            ignored.append(Ignored(one, by.reason))
    return left, ignored, [idle for comment in comments if (idle := comment.idle) is not None]


def _comments(text: Text) -> Iterator[_Comment]:
    for token in _tokens(text):
        found = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if found is None:
            continue
        line = text.lines[token.start[0] - 1]
        shown = line.text.strip()[:_LONGEST]
        column = token.start[1] + found.start() + 1
        place = Place(text.file, line.line, line.line, column, shown, line.cell, line.cell_line)
        named = re.split(r"[,\s]+", (found["rules"] or "").upper())[:_MOST_NAMED]
        yield _Comment(place, tuple(dict.fromkeys(one[:_LONGEST] for one in named if one)), found["reason"].strip())


def _tokens(text: Text) -> Iterator[tokenize.TokenInfo]:
    """Of source in which there is something to look for; what Python parses and cannot be cut into tokens has no comments."""
    if not any(_OURS.search(line.text) for line in text.lines) or len(text.source) > _MOST_CHARACTERS:
        return
    try:
        yield from tokenize.generate_tokens(io.StringIO(text.source).readline)
    except (tokenize.TokenError, SyntaxError):
        return
