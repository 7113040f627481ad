"""Tables for people: whole at 60 columns as at 200.

A number or a name is never cut off and never broken in two. What gives way, in this order: the words of prose, which wrap; the
gaps between columns; and at last the table itself, whose rows then become lines of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TypeAlias, final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noisymean.legible import text_of
from noisymean.results import Lines

Cell: TypeAlias = str | Text
# Prose is not squeezed into less.
_READABLE = 22


class Kind(Enum):
    """How a column stands, and whether it may give way."""

    # to the right, never broken
    NUMBER = auto()
    # to the left, never broken
    NAME = auto()
    # to the left, wrapped where the rest would not fit otherwise
    TITLE = auto()
    # to the left, wrapped
    PROSE = auto()


@final
@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind = Kind.NAME


def columns_of(lines: Lines, *, numbers_from: int | None = None) -> list[Column]:
    """The columns of a result: names, and those from `numbers_from` on numbers."""
    first = len(lines.names) if numbers_from is None else numbers_from
    return [*map(Column, lines.names[:first]), *(Column(name, Kind.NUMBER) for name in lines.names[first:])]


class _Gaps(Enum):
    """Spaces between columns; in the closest table there is no margin either."""

    WIDE = 3
    CLOSE = 2
    CLOSEST = 1

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """Above, to the right, below and to the left of a cell, as rich wants it; one space of a gap is the table's own."""
        spaces = int(self.value)
        return (0, min(spaces - 1, 1), 0, max(spaces - 2, 0))

    @property
    def has_margin(self) -> bool:
        """Whether there is a space before the first column and after the last."""
        return self is not _Gaps.CLOSEST

    def width_of(self, cells: Sequence[int]) -> int:
        """Of a table whose columns are so wide."""
        return sum(cells) + int(self.value) * (len(cells) - 1) + 2 * self.has_margin


def show(
    out: Console,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    close: bool = False,
    named: bool = True,
    gap_after: int | None = None,
) -> None:
    """Print the table as it fits.

    `close`: small gaps from the start; `named`: with a head; `gap_after`: the row with a gap below it.
    """
    wrapped = [replace(one, kind=Kind.PROSE) if one.kind is Kind.TITLE else one for one in columns]
    rows = [[_legible(cell) for cell in row] for row in rows]
    for each in (columns, wrapped):
        least = [_least_width(column, [row[place] for row in rows]) for place, column in enumerate(each)]
        for gaps in list(_Gaps)[1 if close else 0 :]:
            if gaps.width_of(least) <= out.width:
                _print_table(out, each, rows, gaps, named=named, gap_after=gap_after)
                return
    _print_lines(out, columns, rows)


def _legible(cell: Cell) -> Cell:
    """A cell whose text may be anybody's; lines stay lines."""
    if isinstance(cell, str):
        return text_of(cell)
    shown = text_of(cell.plain)
    return cell if shown == cell.plain else Text(shown, style=cell.style)


def _least_width(column: Column, cells: Sequence[Cell]) -> int:
    """The fewest columns of a terminal that it needs."""
    natural = max(_width(column.name), *map(_width, cells), 0)
    return min(natural, max(_READABLE, _width(column.name))) if column.kind is Kind.PROSE else natural


def _width(cell: Cell) -> int:
    return max(map(cell_len, str(cell).split("\n")))


def _print_table(
    out: Console,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    gaps: _Gaps,
    *,
    named: bool,
    gap_after: int | None,
) -> None:
    table = Table(
        box=box.SIMPLE_HEAD if named else None,
        show_header=named,
        pad_edge=False,
        padding=gaps.padding,
        show_edge=gaps.has_margin,
    )
    for column in columns:
        table.add_column(
            column.name,
            justify="right" if column.kind is Kind.NUMBER else "left",
            no_wrap=column.kind is not Kind.PROSE,
            overflow="fold",
        )
    for place, row in enumerate(rows):
        table.add_row(*row, end_section=place == gap_after)
    if named and not gaps.has_margin:
        out.print()
    out.print(table)
    if named and not gaps.has_margin:
        out.print()


def _print_lines(out: Console, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """Each row as lines: its first cell, and below it the other columns by name. Only prose is wrapped by us."""
    name_width = max((cell_len(column.name) for column in columns[1:]), default=0)
    out.print()
    for first, *others in rows:
        out.print(Text.assemble(f"{columns[0].name} " if columns[0].name else "", first), soft_wrap=True)
        for column, cell in zip(columns[1:], others, strict=True):
            text = cell if isinstance(cell, Text) else Text(cell)
            indent, name = name_width + 4, column.name
            lines = text.wrap(out, out.width - indent) if column.kind is Kind.PROSE else text.split("\n")
            for line in lines:
                if line:
                    out.print(Text.assemble(f"  {name}".ljust(indent), line), soft_wrap=True)
                name = ""
        out.print()
