"""Comments that silence a rule on their line: `# noisymean: ignore[NM003] the loader is a fixture`, or several ids with commas.

The reason is listed with the finding. A comment that silences nothing is listed as well: it may have been left behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from noisymean.lint.findings import Finding, Ignored, Place
from noisymean.lint.text import Text

_COMMENT = re.compile(r"#\s*noisymean:\s*ignore\[([A-Z0-9,\s]+)\]\s*(.*)$")


def silenced(text: Text, findings: Iterable[Finding]) -> tuple[list[Finding], list[Ignored], list[Place]]:
    """What is left, what is silenced, and the comments that silence nothing."""
    comments = {place.line: (place, rules, reason) for place, rules, reason in _comments(text)}
    used: set[int] = set()
    left, ignored = [], []
    for one in findings:
        at = next(
            (
                line
                for line in range(one.place.line, one.place.end_line + 1)
                if line in comments and one.rule.id in comments[line][1]
            ),
            None,
        )
        if at is None:
            left.append(one)
        else:
            used.add(at)
            ignored.append(Ignored(one, comments[at][2]))
    return left, ignored, [place for line, (place, _, _) in comments.items() if line not in used]


def _comments(text: Text) -> Iterator[tuple[Place, frozenset[str], str]]:
    for line in text.lines:
        if "noisymean:" not in line.text or (found := _COMMENT.search(line.text)) is None:
            continue
        rules = frozenset(re.split(r"[,\s]+", found[1].strip()))
        shown = line.text.strip()[:300]
        place = Place(text.file, line.line, line.line, found.start() + 1, shown, line.cell, line.cell_line)
        yield place, rules, found[2].strip()
