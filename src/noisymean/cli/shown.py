"""A result for people: its lines on a terminal, at least 80 columns wide."""

from __future__ import annotations

from rich import box
from rich.table import Table

from noisymean.results import Lines


def table_of(
    lines: Lines, *, numbers_from: int | None = None, named: bool = True, gap_after: int | None = None
) -> Table:
    """The table of a result; columns from `numbers_from` on stand to the right and are never wrapped, a row may leave a gap."""
    table = Table(box=box.SIMPLE_HEAD if named else None, show_header=named, pad_edge=False)
    for place, name in enumerate(lines.names):
        number = numbers_from is not None and place >= numbers_from
        table.add_column(name, justify="right" if number else "left", no_wrap=numbers_from is not None, overflow="fold")
    for place, row in enumerate(lines.rows):
        table.add_row(*row, end_section=place == gap_after)
    return table
