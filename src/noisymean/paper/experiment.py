"""What an experiment is: rows of plain values for a CSV file, a figure of the rows, and what they say about the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

from noisymean.audit import Audit, Processes, audit, distinguisher
from noisymean.audit.distinguishers import NormalityTest
from noisymean.audit.reference import Reference
from noisymean.audit.store import Store
from noisymean.numerics.logs import Array
from noisymean.paper.statement import Row, Rows, Statement, Value
from noisymean.targets.protocol import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tell: TypeAlias = Callable[[str], None]
Watch: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], None]]]


@contextmanager
def _unwatched(trials: int) -> Iterator[Callable[[int], None]]:
    yield lambda finished: None


def _nothing(rows: Rows) -> Sequence[str]:
    return ()


def _always(rows: Rows) -> bool:
    return True


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
    """A figure or table of the paper: the numbers, a picture of them, one sentence, and the paper's statements beside them."""

    name: str
    place: str
    shows: str
    rows: Callable[[Effort, Tell], list[Row]]
    figure: Callable[[Rows], Figure]
    finding: Callable[[Rows], str]
    statements: tuple[Statement, ...] = ()
    # what is to be known beside the paper's statements
    notes: Callable[[Rows], Sequence[str]] = _nothing
    # rows of which a part could not be had are shown, but not kept for the next run
    complete: Callable[[Rows], bool] = _always


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


def audited(
    target: Target, contender: Contender, effort: Effort, trials: int, *, truth: Reference | None = None
) -> Audit:
    """One audit of an experiment. The same seed means the same releases and the same truth, whatever the distinguisher."""
    rule = distinguisher(contender.name, target, contender.test)
    store = None if effort.store is None else Store.at(effort.store)
    with effort.watch(trials) as progress:
        result = audit(
            target,
            rule,
            seed=effort.seed,
            trials=trials,
            truth=truth,
            workers=Processes(effort.jobs),
            store=store,
            resume=True,
            progress=progress,
        )
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def curve_rows(setting: Mapping[str, Value], alpha: Array, columns: Mapping[str, Array]) -> list[Row]:
    """One row for each alpha: the setting, alpha, and every curve there."""
    return [
        {**setting, "alpha": float(a), **{name: float(column[i]) for name, column in columns.items()}}
        for i, a in enumerate(alpha)
    ]
