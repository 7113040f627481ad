"""`noisymean reproduce`: the paper's figures and tables, run again."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from noisymean import __version__
from noisymean.audit import Processes
from noisymean.cli import options, values
from noisymean.cli.output import console, emit_json, folder, need_matplotlib, note, say, write_plot
from noisymean.cli.progress import progress
from noisymean.errors import InvalidInput
from noisymean.experiments.experiment import Effort, Experiment, write_csv
from noisymean.experiments.registry import EXPERIMENTS

ALL = "all"
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
    """A figure or table of the paper, run again.

    A picture, NAME.png, and its numbers, NAME.csv: what was audited, what is claimed, and what is true. Finished trials are
    kept in trials.sqlite beside them: the same command goes on from there after a kill.

    \b
    Example:
      noisymean reproduce synthetic-delta --quick --out out
    """
    if name not in EXPERIMENTS and name != ALL:
        raise InvalidInput("name", name, f"one of {_NAMES}", "e.g. noisymean reproduce synthetic-delta")
    need_matplotlib()
    place = folder(out)
    effort = Effort(
        quick,
        values.whole("seed", seed),
        Processes(values.whole("jobs", jobs)).count,
        data_dir=data_dir,
        store=place / "trials.sqlite",
        watch=progress,
    )
    chosen = list(EXPERIMENTS.values()) if name == ALL else [EXPERIMENTS[name]]
    results = [_reproduced(experiment, effort, place) for experiment in chosen]
    if json:
        emit_json({"experiments": results, "version": __version__})
        return
    for result in results:
        say(console(), f"{result['name']}: {result['shows']}, {result['seconds']:.0f} s")
        say(console(), f"{result['finding']}")
        say(console(), f"Picture: {result['picture']}  Data: {result['data']}")


def _reproduced(experiment: Experiment, effort: Effort, place: Path) -> dict[str, object]:
    start = perf_counter()
    rows = experiment.rows(effort, lambda what: note(f"{experiment.name}: {what}, {perf_counter() - start:.0f} s"))
    data, picture = place / f"{experiment.name}.csv", place / f"{experiment.name}.png"
    write_csv(rows, data)
    write_plot("out", experiment.figure(rows), picture)
    finding = experiment.finding(rows)
    return {
        "name": experiment.name,
        "shows": experiment.shows,
        "finding": finding,
        "data": str(data),
        "picture": str(picture),
        "seconds": perf_counter() - start,
    }
