"""`noisymean reproduce`: the paper's figures and tables, run again; all of them as one page."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, final

import typer

from noisymean import __version__
from noisymean.audit import Processes
from noisymean.cli import options, values
from noisymean.cli.faults import BAD_INPUT, OUR_FAULT
from noisymean.cli.output import console, emit_json, folder, need_matplotlib, note, say, write_plot
from noisymean.cli.pages import write_page
from noisymean.cli.progress import progress
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.paper.experiment import Effort, Experiment
from noisymean.paper.registry import EXPERIMENTS
from noisymean.paper.reproduction import Reproduced, reproduced
from noisymean.paper.statement import Answer
from noisymean.report import page, reproduction_page
from noisymean.report.reproduction_page import Section

ALL = "all"
PAGE = "index.html"
_NAMES = ", ".join((*EXPERIMENTS, ALL))


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"Which: {_NAMES}.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: minutes instead of hours.")] = False,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for pictures and data.")] = "out",
    seed: Annotated[str, typer.Option("--seed", metavar="S", help="Same seed, same numbers.")] = "0",
    jobs: Annotated[str, typer.Option("--jobs", metavar="J", help="Processes.")] = "1",
    data_dir: Annotated[
        str | None,
        typer.Option("--data-dir", metavar="DIR", help="Images in torchvision's layout [default: as fetched]."),
    ] = None,
    json: options.Json = False,
) -> None:
    """A figure or table of the paper, run again; or all of them.

    A picture, NAME.png, its numbers, NAME.csv, and each of the paper's statements about it: agree or differ, with the
    reason. `all` makes one page of everything, index.html; one that fails does not stop the others.

    Finished figures are kept in DIR (NAME.json), finished trials in trials.sqlite: the same command goes on from there
    after a kill.

    \b
    Example:
      noisymean reproduce all --quick --out out
    """
    if name not in EXPERIMENTS and name != ALL:
        raise InvalidInput("name", name, f"one of {_NAMES}", "e.g. noisymean reproduce synthetic-delta")
    need_matplotlib()
    if name == ALL:
        page.need("jinja2")
    place = folder(out)
    effort = Effort(
        quick,
        values.whole("seed", seed),
        Processes(values.whole("jobs", jobs)).count,
        data_dir=data_dir,
        store=place / "trials.sqlite",
        watch=progress,
    )
    run = _Run(effort, place, out)
    results = run.all() if name == ALL else [run.one(EXPERIMENTS[name])]
    if json:
        made = {"page": str(place / PAGE)} if name == ALL else {}
        emit_json({"experiments": [run.record(one) for one in results], **made, "version": __version__})
    else:
        _print(results, run)
        if name == ALL:
            say(console(), f"Page: {place / PAGE}")
    if faults := [one for one in results if one.fault]:
        raise typer.Exit(OUR_FAULT if any(one.ours for one in faults) else BAD_INPUT)


@final
@dataclass(frozen=True)
class _Result:
    """What came of an experiment: it, or why not; `ours` if that was a fault of this program."""

    experiment: Experiment
    found: Reproduced | None = None
    fault: str = ""
    ours: bool = False


@final
@dataclass(frozen=True)
class _Run:
    """Experiments into a folder."""

    effort: Effort
    place: Path
    typed_place: str

    def all(self) -> list[_Result]:
        """Every experiment, whatever happens to the others. The page is there from the first one on, and grows."""
        results: list[_Result] = []
        for experiment in EXPERIMENTS.values():
            results.append(self._guarded(experiment))
            self._write_page(results)
        return results

    def _guarded(self, experiment: Experiment) -> _Result:
        try:
            return self.one(experiment)
        except (NoisymeanError, OSError) as fault:
            note(f"{experiment.name}: failed: {fault}")
            return _Result(experiment, fault=" ".join(str(fault).split()))
        except Exception as fault:  # the others go on
            traceback.print_exc()
            note(f"{experiment.name}: failed, a fault of noisymean's")
            return _Result(experiment, fault=f"a fault of noisymean's: {type(fault).__name__}: {fault}", ours=True)

    def one(self, experiment: Experiment) -> _Result:
        """One experiment with its files."""
        start = perf_counter()
        found = reproduced(
            experiment,
            self.effort,
            self.place,
            lambda what: note(f"{experiment.name}: {what}, {perf_counter() - start:.0f} s"),
        )
        write_plot("out", found.figure(), self.picture(experiment))
        return _Result(experiment, found)

    def picture(self, experiment: Experiment) -> Path:
        """Where its picture is."""
        return self.place / f"{experiment.name}.png"

    def data(self, experiment: Experiment) -> Path:
        """Where its numbers are."""
        return self.place / f"{experiment.name}.csv"

    def typed(self, name: str) -> str:
        """The command that reproduces just this."""
        words = ["noisymean", "reproduce", name, *(["--quick"] if self.effort.quick else [])]
        words += ["--seed", str(self.effort.seed)] if self.effort.seed else []
        words += [] if self.effort.data_dir is None else ["--data-dir", self.effort.data_dir]
        return shlex.join([*words, "--out", self.typed_place])

    def record(self, result: _Result) -> dict[str, object]:
        """The object of `--json` for one experiment."""
        experiment, found = result.experiment, result.found
        if found is None:
            return {"name": experiment.name, "shows": experiment.shows, "fault": result.fault, "claims": []}
        return {
            "name": experiment.name,
            "place": experiment.place,
            "shows": experiment.shows,
            "finding": found.finding,
            "claims": [claim.record() for claim in found.claims],
            "notes": list(found.notes),
            "data": str(self.data(experiment)),
            "picture": str(self.picture(experiment)),
            "seconds": found.seconds,
            "from_before": found.from_before,
        }

    def _write_page(self, results: Sequence[_Result]) -> None:
        done = {one.experiment.name: one for one in results}
        sections = [self._section(experiment, done.get(experiment.name)) for experiment in EXPERIMENTS.values()]
        text = reproduction_page.render(sections, command=self.typed(ALL), quick=self.effort.quick)
        write_page("out", self.place / PAGE, text)

    def _section(self, experiment: Experiment, result: _Result | None) -> Section:
        bare = Section(experiment.name, experiment.place, experiment.shows, self.typed(experiment.name))
        if result is None:
            return bare
        if result.found is None:
            return Section(bare.name, bare.place, bare.shows, bare.command, fault=result.fault)
        found = result.found
        return Section(
            bare.name,
            bare.place,
            bare.shows,
            bare.command,
            finding=found.finding,
            claims=[claim.record() for claim in found.claims],
            notes=found.notes,
            data=self.data(experiment).name,
            picture=self.picture(experiment).read_bytes(),
            time=f"Computed in {found.seconds:.0f} s{', in an earlier run' if found.from_before else ''}.",
        )


def _print(results: Sequence[_Result], run: _Run) -> None:
    out = console()
    for result in results:
        experiment, found = result.experiment, result.found
        if found is None:
            say(out, f"{experiment.name}: failed: {result.fault}")
            continue
        say(out, f"{experiment.name}: {experiment.shows}, {found.seconds:.0f} s")
        say(out, found.finding)
        claims = found.claims
        counts = {answer: sum(claim.answer is answer for claim in claims) for answer in Answer}
        say(
            out,
            "The paper's statements: " + ", ".join(f"{count} {answer.value}" for answer, count in counts.items()) + ".",
        )
        for claim in claims:
            if claim.answer is not Answer.AGREES:
                say(out, f"- {claim.answer.value}: {claim.where}: {claim.says} Ours: {claim.result} {claim.reason}")
        say(out, f"Picture: {run.picture(experiment)}  Data: {run.data(experiment)}")
