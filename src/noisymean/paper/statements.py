"""What the paper states, and whether our rows say the same.

A statement carries its own criterion: its check looks at the rows of an experiment and answers agree, differ or not decided, with
a sentence of numbers taken from those rows. Nothing here knows the answer beforehand: other rows, another answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TypeAlias, final

from noisymean.paper.rows import Row, Table


class Answer(Enum):
    """Whether what was found is what is stated."""

    AGREES = "agree"
    DIFFERS = "differ"
    UNDECIDED = "not decided"


@final
@dataclass(frozen=True)
class Judgement:
    """The answer, what was found, and why it is not what was stated (or what else is to be known)."""

    answer: Answer
    result: str
    reason: str = ""


Check: TypeAlias = Callable[[Table], Judgement]


def agreement(holds: bool, result: str, *, otherwise: str = "", remark: str = "") -> Judgement:
    """Agree if `holds`; `otherwise` is the reason why not, `remark` what to know even so."""
    return Judgement(Answer.AGREES if holds else Answer.DIFFERS, result, remark if holds else otherwise)


def undecided(result: str, reason: str) -> Judgement:
    """These rows do not tell whether the statement is true."""
    return Judgement(Answer.UNDECIDED, result, reason)


@final
@dataclass(frozen=True)
class PaperStatement:
    """Where the paper says what (in our words), what would count as agreement, and the check of it."""

    where: str
    says: str
    agrees_if: str
    check: Check

    def compare(self, rows: Iterable[Row]) -> Comparison:
        found = self.check(Table(rows))
        return Comparison(self.where, self.says, self.agrees_if, found.result, found.answer, found.reason)


def stated(where: str, says: str, agrees_if: str) -> Callable[[Check], PaperStatement]:
    """Make a statement of its check; a decorator, so that the words and the criterion stand together."""
    return lambda check: PaperStatement(where, says, agrees_if, check)


def in_order(module: Mapping[str, object]) -> tuple[PaperStatement, ...]:
    """The statements of a module, in the order in which it makes them."""
    return tuple(one for one in module.values() if isinstance(one, PaperStatement))


@final
@dataclass(frozen=True)
class Comparison:
    """A statement of the paper and its fate."""

    where: str
    says: str
    agrees_if: str
    result: str
    answer: Answer
    reason: str

    def record(self) -> dict[str, str]:
        """As plain values, for JSON and for the page."""
        return {**asdict(self), "answer": self.answer.value}
