"""What every answer of the package can do: a few lines for a terminal, a table for a notebook, plain data, a frame, a figure.

An answer says what its lines and its columns are; the rest is the same for all. One that has more to show than a table and
sentences is an `Answer` only, and writes itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

import numpy as np

from noisymean.errors import MissingDependency
from noisymean.numerics.logs import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True)
class Lines:
    """A heading, a table under a row of names, and sentences below it; numbers stand to the right."""

    heading: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    sentences: Sequence[str] = ()


class Answer(ABC):
    """An answer as data: plain, in a frame, in a figure."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Plain data, the object that `--json` prints."""

    @abstractmethod
    def columns(self) -> Mapping[str, Sequence[object]]:
        """The numbers by name, all of the same length: the columns of `to_frame`."""

    @abstractmethod
    def plot(self) -> Figure:
        """A matplotlib figure; MissingDependency without matplotlib."""

    @final
    def to_frame(self) -> Any:
        """A pandas data frame; MissingDependency without pandas."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise MissingDependency("pandas", "frames") from None
        return pandas.DataFrame(dict(self.columns()))


class Result(Answer):
    """An answer that shows itself, as a table with sentences below it."""

    @abstractmethod
    def lines(self) -> Lines:
        """What a person is shown; bounds are rounded to their own side."""

    @final
    def __str__(self) -> str:
        shown = self.lines()
        table = [shown.names, *shown.rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(shown.names))]
        # names to the left, numbers to the right
        rows = [
            "  ".join(
                cell.rjust(width) if i and _is_number(shown.rows, i) else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        return "\n".join([shown.heading, *(f"  {row}" for row in rows), *shown.sentences])

    @final
    def _repr_html_(self) -> str:
        return as_html(self.lines())


def as_html(shown: Lines) -> str:
    """What a notebook shows of an answer."""
    head = "".join(f"<th>{escape(name)}</th>" for name in shown.names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in shown.rows)
    below = "".join(f"<p>{escape(sentence)}</p>" for sentence in shown.sentences)
    return f"<p>{escape(shown.heading)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def _is_number(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(row[column][:1].isdigit() or row[column] in ("-", "none known") for row in rows)


def listed(values: Array | None) -> list[float | None] | None:
    """An array for JSON: null where it is not a number."""
    return None if values is None else [finite(float(value)) for value in np.asarray(values)]


def finite(value: float) -> float | None:
    """`value`, or null where JSON has no number for it."""
    return value if math.isfinite(value) else None
