"""One experiment run again: its rows, kept or computed; its files; and what it says about the paper's statements."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, final

from noisymean.paper.experiment import Effort, Experiment, Tell
from noisymean.paper.kept import keep, kept, key_of, whole
from noisymean.paper.statement import Claim, Row, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True)
class Reproduced:
    """A finished experiment. `seconds` is what computing the rows took, now or then."""

    experiment: Experiment
    rows: list[Row]
    seconds: float
    from_before: bool

    @property
    def finding(self) -> str:
        """One sentence."""
        return self.experiment.finding(self.rows)

    @property
    def claims(self) -> list[Claim]:
        """The paper's statements beside the rows."""
        return [statement.claim(self.rows) for statement in self.experiment.statements]

    @property
    def notes(self) -> Sequence[str]:
        """What else is to be known."""
        return self.experiment.notes(self.rows)

    def figure(self) -> Figure:
        """A picture of the rows."""
        return self.experiment.figure(self.rows)


def reproduced(experiment: Experiment, effort: Effort, place: Path, tell: Tell) -> Reproduced:
    """The rows of `experiment`, from `place` if the same run is kept there; they and their CSV file are left in `place`."""
    key, file = key_of(experiment.name, effort), place / f"{experiment.name}.json"
    before = kept(file, key)
    if before is not None:
        tell("kept from an earlier run")
        found = Reproduced(experiment, before.rows, before.seconds, from_before=True)
    else:
        start = perf_counter()
        rows = experiment.rows(effort, tell)
        found = Reproduced(experiment, rows, perf_counter() - start, from_before=False)
        if experiment.complete(rows):
            keep(file, key, rows, found.seconds)
    write_csv(found.rows, place / f"{experiment.name}.csv")
    return found


def write_csv(rows: Rows, path: Path) -> None:
    """All rows, or no file."""
    with whole(path) as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
