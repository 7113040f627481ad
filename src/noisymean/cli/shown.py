"""A result for people: its lines on a terminal, at least 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TaskID, TimeRemainingColumn
from rich.table import Table

from noisymean.cli.output import error_console, said_beside_a_bar
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


@contextmanager
def bar(what: str, total: int, *, counted: bool = False) -> Iterator[tuple[Progress, TaskID] | None]:
    """A progress bar on standard error; None where that is no terminal."""
    out: Console = error_console()
    if not out.is_terminal:
        yield None
        return
    count: tuple[ProgressColumn, ...] = (MofNCompleteColumn(),) if counted else ()
    columns = (said_beside_a_bar("{task.description}"), BarColumn(), *count, TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as shown:
        yield shown, shown.add_task(what, total=total)
