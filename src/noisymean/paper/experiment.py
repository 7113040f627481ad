"""What an experiment is: rows of plain values, a picture of them, a finding, and what they say about the paper's statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

from noisymean.numerics.logs import Array
from noisymean.paper.needed import Needs
from noisymean.paper.panels import Figure
from noisymean.paper.rows import Row, Table, levels
from noisymean.paper.statements import PaperStatement

# is told, in a few words, which part of an experiment is finished
Announce: TypeAlias = Callable[[str], None]
# of a number of trials: a context in which it can be said how many are finished
Watch: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], None]]]


@final
@dataclass(frozen=True)
class Effort:
    """How much is run, from which images, and where finished trials are stored: the same run again goes on from there."""

    quick: bool
    seed: int
    jobs: int
    data_dir: str | None = None
    store: Path | None = None
    watch: Watch = lambda trials: nullcontext(lambda finished: None)

    def trials(self, full: int, quick: int) -> int:
        """The paper's number of trials, or fewer."""
        return quick if self.quick else full

    def levels(self) -> Array:
        """False positive rates at which computed curves are drawn."""
        return levels(101 if self.quick else 401)


@final
@dataclass(frozen=True)
class Experiment:
    """A figure, a table or the theorems of the paper. `name` is what `noisymean reproduce` takes, `place` where the paper has it.

    `needs` is what has to be fetched for it, `notes` are what is to be known beside the paper's statements. Rows that are not
    `complete`, because a part of them could not be had, are shown but not saved for the next run.
    """

    name: str
    place: str
    shows: str
    rows: Callable[[Effort, Announce], Iterable[Row]]
    picture: Callable[[Table], Figure]
    finding: Callable[[Table], str]
    statements: tuple[PaperStatement, ...] = ()
    notes: Callable[[Table], Sequence[str]] = lambda table: ()
    complete: Callable[[Table], bool] = lambda table: True
    needs: Callable[[Effort], Needs] = lambda effort: Needs()
