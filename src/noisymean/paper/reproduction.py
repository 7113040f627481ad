"""Experiments run into a folder: their rows, saved or computed, their files, and the page of all of them.

For each experiment NAME the folder gets NAME.png, NAME.csv and NAME.json, from which the same run goes on; all of them together
make index.html. Trials of audits are in trials.sqlite.
"""

from __future__ import annotations

import csv
import shlex
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import final

from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.paper import data
from noisymean.paper import page as pages
from noisymean.paper.experiment import Effort, Experiment
from noisymean.paper.needed import Fetch, in_words, missing, provide
from noisymean.paper.rows import Table
from noisymean.paper.saved_rows import SavedRows, load_rows, run_key, save_rows, written_whole
from noisymean.paper.statements import Comparison
from noisymean.report import plots

ALL = "all"
TRIALS = "trials.sqlite"


@final
@dataclass(frozen=True)
class Reproduced:
    """A finished experiment, its rows (from an earlier run or not), and where its numbers and its picture are."""

    experiment: Experiment
    rows: SavedRows
    from_before: bool
    data: Path
    picture: Path

    @property
    def comparisons(self) -> list[Comparison]:
        return [statement.compare(self.rows.table) for statement in self.experiment.statements]

    @property
    def finding(self) -> str:
        return self.experiment.finding(self.rows.table)

    def record(self) -> dict[str, object]:
        """As plain values, for JSON and for the page."""
        return {
            **_described(self.experiment),
            "finding": self.finding,
            "claims": [one.record() for one in self.comparisons],
            "notes": list(self.experiment.notes(self.rows.table)),
            "data": str(self.data),
            "picture": str(self.picture),
            "seconds": self.rows.seconds,
            "from_before": self.from_before,
        }


@final
@dataclass(frozen=True)
class Failed:
    """An experiment that could not be run, and why; `ours` if that was a fault of this program."""

    experiment: Experiment
    fault: str
    ours: bool = False

    def record(self) -> dict[str, object]:
        return {**_described(self.experiment), "fault": self.fault}


def counted(results: Sequence[Reproduced | Failed]) -> str:
    """How many are done, and which failed: what is to be read last."""
    failed = [one.experiment.name for one in results if isinstance(one, Failed)]
    many = f"{len(results) - len(failed)} of {len(results)} done"
    return f"{many}, {len(failed)} failed: {', '.join(failed)}" if failed else f"{many}, none failed"


def _described(experiment: Experiment) -> dict[str, object]:
    return {"name": experiment.name, "place": experiment.place, "shows": experiment.shows, "claims": []}


@final
@dataclass(frozen=True)
class Reproduction:
    """Experiments of one effort into one folder, which the user typed as `typed_folder`; `note` is told how far it is.

    `fetch` brings a set of images into the cache.
    """

    experiments: Mapping[str, Experiment]
    effort: Effort
    folder: Path
    typed_folder: str
    note: Callable[[str], None]
    fetch: Fetch = data.fetch

    @property
    def page(self) -> Path:
        return self.folder / "index.html"

    def _say_what_is_fetched(self, experiments: Iterable[Experiment]) -> None:
        """Before anything is: what these need that is not here, how large it is and how long that takes."""
        needs = [one.needs(self.effort) for one in experiments if self._before(one) is None]
        if downloads := missing(needs, self.effort.data_dir):
            self.note(in_words(downloads))

    def alone(self, experiment: Experiment) -> Reproduced:
        """One experiment, and nothing but it."""
        self._say_what_is_fetched([experiment])
        return self.one(experiment)

    def all(self) -> list[Reproduced | Failed]:
        """Every experiment, whatever happens to the others. The page is there from the first one on, and grows."""
        results: list[Reproduced | Failed] = []
        self._say_what_is_fetched(self.experiments.values())
        for experiment in self.experiments.values():
            try:
                results.append(self.one(experiment))
            except (NoisymeanError, OSError) as fault:
                self.note(f"{experiment.name}: failed: {fault}")
                results.append(Failed(experiment, " ".join(str(fault).split())))
            except Exception as fault:  # the others go on
                traceback.print_exc()
                self.note(f"{experiment.name}: failed, a fault of noisymean's")
                why = f"a fault of noisymean's: {type(fault).__name__}: {fault}"
                results.append(Failed(experiment, why, ours=True))
            self._write_page(results)
        return results

    def one(self, experiment: Experiment) -> Reproduced:
        """One experiment with its files; its rows are those of an earlier run if that was the same run."""
        start = perf_counter()

        def announce(what: str) -> None:
            self.note(f"{experiment.name}: {what}, {perf_counter() - start:.0f} s")

        numbers, saved, picture = (self.folder / f"{experiment.name}.{end}" for end in ("csv", "json", "png"))
        key = run_key(experiment.name, self.effort)
        before = self._before(experiment)
        if before is not None:
            announce("kept from an earlier run")
        else:
            provide(experiment.needs(self.effort), self.fetch, self.effort.data_dir)
        rows = before or SavedRows(Table(experiment.rows(self.effort, announce)), perf_counter() - start)
        with _writing(self.folder):
            if before is None and experiment.complete(rows.table):
                save_rows(saved, key, rows)
            _write_csv(rows.table, numbers)
            plots.save(experiment.picture(rows.table), picture)
        return Reproduced(experiment, rows, before is not None, numbers, picture)

    def _before(self, experiment: Experiment) -> SavedRows | None:
        """Its rows, if an earlier run of the same effort has left them."""
        return load_rows(self.folder / f"{experiment.name}.json", run_key(experiment.name, self.effort))

    def command(self, name: str) -> str:
        """What to type to reproduce just this."""
        words = ["noisymean", "reproduce", name, *(["--quick"] if self.effort.quick else [])]
        words += ["--seed", str(self.effort.seed)] if self.effort.seed else []
        words += [] if self.effort.data_dir is None else ["--data-dir", self.effort.data_dir]
        return shlex.join([*words, "--out", self.typed_folder])

    def _write_page(self, results: Sequence[Reproduced | Failed]) -> None:
        done, sections = {one.experiment.name: one for one in results}, []
        for experiment in self.experiments.values():
            result = done.get(experiment.name)
            record = _described(experiment) if result is None else result.record()
            picture = result.picture.read_bytes() if isinstance(result, Reproduced) else None
            sections.append(pages.Section(record, self.command(experiment.name), picture))
        with _writing(self.folder), written_whole(self.page) as stream:
            stream.write(pages.render(sections, command=self.command(ALL), quick=self.effort.quick))


def _write_csv(table: Table, path: Path) -> None:
    with written_whole(path) as stream:
        writer = csv.DictWriter(stream, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """A file that cannot be written is a wrong --out."""
    try:
        yield
    except OSError as fault:
        raise InvalidInput("out", str(folder), "a folder that can be written", fault.strerror or str(fault)) from None
