"""What an experiment is: rows of plain values for a CSV file, a figure of the rows, and a sentence about them."""

from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

from noisymean.audit import Audit, Processes, audit, distinguisher
from noisymean.audit.distinguishers import NormalityTest
from noisymean.audit.store import Store
from noisymean.targets.protocol import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value: TypeAlias = str | int | float
Row: TypeAlias = Mapping[str, Value]
Tell: TypeAlias = Callable[[str], None]


Watch: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], None]]]


@contextmanager
def _unwatched(trials: int) -> Iterator[Callable[[int], None]]:
    yield lambda finished: None


@final
@dataclass(frozen=True)
class Effort:
    """How much is run, from which images, and where finished trials are kept: the same run again goes on from there."""

    quick: bool
    seed: int
    jobs: int
    data_dir: str | None = None
    store: Path | None = None
    watch: Watch = _unwatched

    def trials(self, full: int, quick: int) -> int:
        """The paper's number, or fewer."""
        return quick if self.quick else full


@final
@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper."""

    name: str
    shows: str
    rows: Callable[[Effort, Tell], list[Row]]
    figure: Callable[[Sequence[Row]], Figure]
    finding: Callable[[Sequence[Row]], str]


@final
@dataclass(frozen=True)
class Contender:
    """A distinguisher in an experiment."""

    label: str
    name: str
    test: NormalityTest = NormalityTest.KOLMOGOROV_SMIRNOV


# The paper does not say which test of normality it uses.
VOTE_KS = Contender("paper-ks", "paper")
VOTE_NORM = Contender("paper-chi2", "paper", NormalityTest.CHI_SQUARE)
OPTIMAL = Contender("likelihood-ratio", "likelihood-ratio")


def audited(target: Target, contender: Contender, effort: Effort, trials: int) -> Audit:
    """One audit of an experiment. The same seed means the same releases, whatever the distinguisher."""
    rule = distinguisher(contender.name, target, contender.test)
    store = None if effort.store is None else Store.at(effort.store)
    with effort.watch(trials) as progress:
        result = audit(
            target,
            rule,
            seed=effort.seed,
            trials=trials,
            workers=Processes(effort.jobs),
            store=store,
            resume=True,
            progress=progress,
        )
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """All rows, or no file."""
    unfinished = path.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with unfinished.open("x", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
