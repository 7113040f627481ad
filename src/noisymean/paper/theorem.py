"""A theorem as a statement that can be evaluated: a left and a right side, and whether the paper says <= or =.

That does not prove a theorem; it would show one that is false, or a mistake of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.paper.statement import Judged, Row, Rows, Statement, agreement, number, where
from noisymean.paper.theorem_sides import Sides

LESS, EQUAL = "<=", "="
ROUNDING = 1e-8


@final
@dataclass(frozen=True)
class Theorem:
    """A statement with two sides: where, what in our words, and how to evaluate it."""

    name: str
    where: str
    says: str
    relation: str
    sides: Callable[[np.random.Generator], Iterator[Sides]]
    tolerance: float = ROUNDING
    # why it is false, should it be
    otherwise: str = ""
    remark: str = ""

    def statement(self) -> Statement:
        """Agree if no evaluation is off by more than the tolerance."""
        exact = "left and right are equal" if self.relation == EQUAL else "no left side exceeds the right one"
        return Statement(self.where, self.says, f"{exact} beyond {self.tolerance:g}, at every evaluation", self._check)

    def _check(self, rows: Rows) -> Judged:
        mine = where(rows, theorem=self.name)
        worst = max(mine, key=lambda row: off(row), default=None)
        if worst is None:
            return agreement(False, "Not evaluated.", otherwise="No row of this theorem.")
        far = sum(off(row) > self.tolerance for row in mine)
        result = f"{len(mine)} evaluations, {len(mine) - far} as stated"
        if far:
            return agreement(
                False,
                f"{result}. Worst: {worst['setting']}, at {number(worst, 'at'):g}: {number(worst, 'left'):.4f} against"
                f" {number(worst, 'right'):.4f}.",
                otherwise=self.otherwise,
            )
        return agreement(True, f"{result}; {self._closest(off(worst))}.", remark=self.remark)

    def _closest(self, worst: float) -> str:
        if self.relation == EQUAL:
            return f"off by at most {worst:.1e}"
        return f"the closest two are {-worst:.1e} apart" if worst < -1e-9 else "the closest two are equal"


def off(row: Row) -> float:
    """By how much an evaluation misses its statement; negative where there is room."""
    difference = number(row, "left") - number(row, "right")
    return abs(difference) if row["relation"] == EQUAL else difference
