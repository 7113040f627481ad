"""What the paper states, and whether our rows say the same.

A statement carries its own criterion: `check` looks at the rows of an experiment and answers agree, differ or not decided, with a
sentence of numbers taken from those rows. Nothing here knows the answer beforehand: other rows, another answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, final

Value: TypeAlias = str | int | float
Row: TypeAlias = Mapping[str, Value]
Rows: TypeAlias = Sequence[Row]


class Answer(Enum):
    """Whether what was found is what is stated."""

    AGREES = "agree"
    DIFFERS = "differ"
    UNDECIDED = "not decided"


@final
@dataclass(frozen=True)
class Judged:
    """The answer, what was found, and why it is not what was stated (or what else is to be known)."""

    answer: Answer
    result: str
    reason: str = ""


@final
@dataclass(frozen=True)
class Statement:
    """Where the paper says what (in our words), what would count as agreement, and the check of it."""

    where: str
    says: str
    agrees_if: str
    check: Callable[[Rows], Judged]

    def claim(self, rows: Rows) -> Claim:
        """The statement beside what these rows show."""
        judged = self.check(rows)
        return Claim(self.where, self.says, self.agrees_if, judged.result, judged.answer, judged.reason)


@final
@dataclass(frozen=True)
class Claim:
    """A statement of the paper and its fate."""

    where: str
    says: str
    agrees_if: str
    result: str
    answer: Answer
    reason: str

    def record(self) -> dict[str, str]:
        """As plain values, for JSON and for the page."""
        return {
            "where": self.where,
            "says": self.says,
            "agrees_if": self.agrees_if,
            "result": self.result,
            "answer": self.answer.value,
            "reason": self.reason,
        }


def agreement(holds: bool, result: str, *, otherwise: str = "", remark: str = "") -> Judged:
    """Agree if `holds`; `otherwise` is the reason why not, `remark` what to know even so."""
    return Judged(Answer.AGREES if holds else Answer.DIFFERS, result, remark if holds else otherwise)


def undecided(result: str, reason: str) -> Judged:
    """The rows do not tell."""
    return Judged(Answer.UNDECIDED, result, reason)


def number(row: Row, name: str) -> float:
    """A column as a number."""
    return float(row[name])


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Value, ...], list[Row]]:
    """Rows that share the values of these columns, in the order of their first."""
    found: dict[tuple[Value, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def where(rows: Iterable[Row], **values: Value) -> list[Row]:
    """Rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def below(rows: Rows, lower: str, upper: str) -> float:
    """How far one column lies below another, at the row where it does most; rows without a number are passed over."""
    gaps = [number(row, upper) - number(row, lower) for row in rows]
    return max((gap for gap in gaps if gap == gap), default=float("nan"))


def series(values: Iterable[float], digits: int = 4) -> str:
    """`0.9956, 0.9573, 0.8843`."""
    return ", ".join(f"{value:.{digits}f}" for value in values)
