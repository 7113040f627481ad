"""Rows of plain values: what an experiment computes, writes into its CSV file, draws, and is judged by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, final

import numpy as np

from noisymean.numerics.logs import Array

Value: TypeAlias = str | int | float
Row: TypeAlias = Mapping[str, Value]


@final
class Table(tuple[Row, ...]):
    """Rows that have the same columns, in the order in which they were computed.

    >>> table = Table([{"n": 2, "x": 0.5}, {"n": 3, "x": 0.25}, {"n": 3, "x": 0.75}])
    >>> table.where(n=3).numbers("x"), list(table.by("n"))
    ([0.25, 0.75], [2, 3])
    """

    __slots__ = ()

    def where(self, **values: Value) -> Table:
        return Table(row for row in self if all(row[name] == value for name, value in values.items()))

    def by(self, column: str) -> dict[Value, Table]:
        """Rows that share the value of a column, in the order of their first."""
        return {key: rows for (key,), rows in self.by_all(column).items()}

    def by_all(self, *columns: str) -> dict[tuple[Value, ...], Table]:
        """Rows that share the values of several columns, in the order of their first."""
        groups: dict[tuple[Value, ...], list[Row]] = {}
        for row in self:
            groups.setdefault(tuple(row[name] for name in columns), []).append(row)
        return {key: Table(rows) for key, rows in groups.items()}

    def numbers(self, column: str) -> list[float]:
        return [number(row, column) for row in self]

    def gap(self, lower: str, upper: str) -> float:
        """How far one column lies below another, at the row where it does most; rows without a number are passed over."""
        gaps = [number(row, upper) - number(row, lower) for row in self]
        return max((gap for gap in gaps if gap == gap), default=float("nan"))


def number(row: Row, column: str) -> float:
    """A value as a number."""
    return float(row[column])


def series(values: Iterable[float], digits: int = 4) -> str:
    """Numbers in a sentence.

    >>> series([0.99561, 0.9573])
    '0.9956, 0.9573'
    """
    return ", ".join(f"{value:.{digits}f}" for value in values)


def levels(points: int) -> Array:
    """False positive rates from 0 to 1, dense at both ends, where trade-off curves turn."""
    return np.asarray(np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, points)) ** 2)


def curve_rows(setting: Row, alpha: Array, curves: Mapping[str, Array | None]) -> Iterator[Row]:
    """One row for each alpha: the setting, alpha, and every curve there; NaN for a curve that does not exist."""
    columns = {name: np.full(alpha.shape, np.nan) if one is None else one for name, one in curves.items()}
    for i, a in enumerate(alpha.tolist()):
        yield {**setting, "alpha": a, **{name: float(column[i]) for name, column in columns.items()}}
