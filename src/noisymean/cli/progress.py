"""How far a computation is: a bar on a terminal, a line now and then in a log; trials per second and time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.text import Text

from noisymean.cli.output import error_console, note, said_beside_a_bar

_SECONDS_BETWEEN_LINES = 15.0


@contextmanager
def bar(what: str, total: int, *, counted: bool = False) -> Iterator[Callable[..., None]]:
    """A function that takes what has changed, as `Progress.update` of rich does: `advance=1`, `completed=3`; silent in a log."""
    count: tuple[ProgressColumn, ...] = (MofNCompleteColumn(),) if counted else ()
    columns = (said_beside_a_bar("{task.description}"), BarColumn(), *count, TimeRemainingColumn())
    console = error_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        yield partial(shown.update, shown.add_task(what, total=total))


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_speed(task.speed) if task.speed else "")


def _speed(speed: float) -> str:
    """Of a training of many steps a trial takes longer than a second."""
    return f"{speed:,.1f} trials/s" if speed >= 1.0 else f"{1.0 / speed:,.1f} s a trial"


@contextmanager
def progress(trials: int) -> Iterator[Callable[[int], None]]:
    """A function to be told how many of `trials` are finished."""
    console = error_console()
    if not console.is_terminal:
        yield _Lines(trials)
        return
    words = said_beside_a_bar("{task.completed:,.0f} of {task.total:,.0f} trials")
    columns = (words, BarColumn(), _Speed(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=trials)
        yield lambda finished: shown.update(task, completed=finished)


class _Lines:
    """A line every so often; none if the work is over before."""

    def __init__(self, trials: int) -> None:
        self._trials, self._last = trials, monotonic()
        self._before: int | None = None
        # when the first of them were finished, and how many: it may take a while to begin
        self._begun: tuple[float, int] | None = None

    def __call__(self, finished: int) -> None:
        # what a store had already says nothing about speed
        self._before = finished if self._before is None else self._before
        now = monotonic()
        if self._begun is None and finished > self._before:
            self._begun = (now, finished)
        if now - self._last < _SECONDS_BETWEEN_LINES or finished == self._before:
            return
        self._last = now
        begun, before = self._begun or (now, finished)
        if finished == before or now - begun < 0.5 * _SECONDS_BETWEEN_LINES:
            # the first of them took what it takes to begin: they say nothing about the others
            note(f"{finished:,} of {self._trials:,} trials")
            return
        speed = (finished - before) / (now - begun)
        left = (self._trials - finished) / speed
        note(f"{finished:,} of {self._trials:,} trials, {_speed(speed)}, {left:,.0f} s left")
