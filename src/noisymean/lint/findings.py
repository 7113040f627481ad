"""What a rule is, what it finds, and what becomes of a finding: values, so that every output shows the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final


class Severity(Enum):
    """How bad it is; the order is from worst to mildest."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


@final
@dataclass(frozen=True)
class Rule:
    """One thing that is looked for: what is wrong in a sentence, and the remedy as code."""

    id: str
    name: str
    severity: Severity
    says: str
    remedy: str

    @property
    def page(self) -> str:
        """Its place in the documentation."""
        return f"docs/rules.md#{self.id.lower()}"


@final
@dataclass(frozen=True)
class Place:
    """Where in a file: lines and columns count from 1, and `source` is the first line as it is written.

    In a notebook `line` and `end_line` are those of the file, and the cell is counted among the code cells, from 1.
    """

    file: str
    line: int
    end_line: int
    column: int
    source: str
    cell: int | None = None
    cell_line: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.cell is None else f"{self.file}, cell {self.cell}:{self.cell_line}"


@final
@dataclass(frozen=True)
class Finding:
    """One rule at one place; `details` is what is known of this place in particular, such as its numbers."""

    rule: Rule
    place: Place
    details: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """The sentence of the rule, and what is known here."""
        return " ".join((self.rule.says, *self.details))


@final
@dataclass(frozen=True)
class Ignored:
    """A finding that a comment on its line silences, with the reason that the comment gives."""

    finding: Finding
    reason: str


@final
@dataclass(frozen=True)
class Idle:
    """A comment that silences nothing, or some of the rules that it names in vain: those; none where it names none."""

    place: Place
    rules: tuple[str, ...]

    @property
    def says(self) -> str:
        """What is odd about it."""
        if not self.rules:
            return "This comment names no rule."
        named = ", ".join(self.rules)
        return (
            f"This comment names {named}, which {'is' if len(self.rules) == 1 else 'are'} not found in its statement."
        )


@final
@dataclass(frozen=True)
class NotRead:
    """A file that was left out, and why: one line; what a link leads to is read where it stands, or is no part of the tree."""

    file: str
    reason: str
    is_link: bool = False


@final
@dataclass(frozen=True)
class Linted:
    """Everything that was found in what was read."""

    findings: tuple[Finding, ...]
    ignored: tuple[Ignored, ...]
    # comments that silence nothing, or less than they name
    idle: tuple[Idle, ...]
    files: int
    not_read: tuple[NotRead, ...]
