"""A theorem as a statement that can be evaluated: a left and a right side, and whether the paper says <= or =.

The two sides are computed by different routes wherever there are two: closed forms, enumeration of outcomes, a search, explicit
datasets. That does not prove a theorem; it would show one that is false, or a mistake of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, TypeAlias, final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.paper.rows import Row, Table, number
from noisymean.paper.statements import Judgement, PaperStatement, agreement

ROUNDING = 1e-8
# False positive rates at which curves are compared.
ALPHA = np.array([0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])


class Relation(Enum):
    """What the paper says of the two sides."""

    AT_MOST = "<="
    EQUAL = "="


# Of a theorem: LESS unless EQUAL is said.
LESS, EQUAL = Relation.AT_MOST, Relation.EQUAL


@final
@dataclass(frozen=True)
class Evaluation:
    """One evaluation: in a setting, at `at` (a false positive rate unless the theorem says otherwise), both sides."""

    setting: str
    at: float
    left: float
    right: float


# Draws what has to be drawn from the generator and yields its evaluations.
Evaluate: TypeAlias = Callable[[np.random.Generator], Iterator[Evaluation]]


def along(setting: str, left: Array, right: Array, at: Array = ALPHA) -> Iterator[Evaluation]:
    """Both sides at each point where both are numbers."""
    for point, one, other in zip(at.tolist(), np.asarray(left).tolist(), np.asarray(right).tolist(), strict=True):
        if one == one and other == other:
            yield Evaluation(setting, point, one, other)


@final
@dataclass(frozen=True)
class Theorem:
    """A statement with two sides: the paper's label for it, where, what in our words, and how to evaluate it.

    `otherwise` is why it is false, should it be; `remark` what to know even if it holds.
    """

    name: str
    where: str
    says: str
    relation: Relation
    evaluate: Evaluate
    tolerance: float = ROUNDING
    otherwise: str = ""
    remark: str = ""

    def rows(self, generator: np.random.Generator) -> Iterator[Row]:
        setting: Row = {"theorem": self.name, "relation": self.relation.value, "tolerance": self.tolerance}
        yield from ({**setting, **asdict(one)} for one in self.evaluate(generator))

    def statement(self) -> PaperStatement:
        """Agree if no evaluation is off by more than the tolerance."""
        exact = "left and right are equal" if self.relation is EQUAL else "no left side exceeds the right one"
        criterion = f"{exact} beyond {self.tolerance:g}, at every evaluation"
        return PaperStatement(self.where, self.says, criterion, self._check)

    def _check(self, table: Table) -> Judgement:
        mine = table.where(theorem=self.name)
        if not mine:
            return agreement(False, "Not evaluated.", otherwise="No row of this theorem.")
        worst, far = max(mine, key=off), sum(map(fails, mine))
        if far:
            at, left, right = (number(worst, column) for column in ("at", "left", "right"))
            extreme = f". Worst: {worst['setting']}, at {at:g}: {left:.4f} against {right:.4f}"
        elif self.relation is EQUAL:
            extreme = f"; off by at most {off(worst):.1e}"
        else:
            extreme = "; the closest two are " + (f"{-off(worst):.1e} apart" if off(worst) < -1e-9 else "equal")
        result = f"{len(mine)} evaluations, {len(mine) - far} as stated{extreme}."
        return agreement(not far, result, otherwise=self.otherwise, remark=self.remark)


def passage(name: str, where: str, says: str, relation: Relation = LESS, **more: Any) -> Callable[[Evaluate], Theorem]:
    """Make a theorem of its evaluation; a decorator, so that the words and the two sides stand together."""
    return lambda evaluate: Theorem(name, where, says, relation, evaluate, **more)


def theorem(
    name: str, section: str, says: str, relation: Relation = LESS, **more: Any
) -> Callable[[Evaluate], Theorem]:
    """A passage that the paper itself calls Theorem `name`."""
    return passage(name, f"{section}, Theorem {name}", says, relation, **more)


def lemma(name: str, section: str, says: str, relation: Relation = LESS, **more: Any) -> Callable[[Evaluate], Theorem]:
    """A passage that the paper itself calls Lemma `name`."""
    return passage(name, f"{section}, Lemma {name}", says, relation, **more)


def off(row: Row) -> float:
    """By how much an evaluation misses its statement; negative where there is room."""
    difference = number(row, "left") - number(row, "right")
    return abs(difference) if Relation(row["relation"]) is EQUAL else difference


def fails(row: Row) -> bool:
    """Whether it misses it by more than rounding explains."""
    return off(row) > number(row, "tolerance")
