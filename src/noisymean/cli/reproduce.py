"""`noisymean reproduce`: the paper's figures and tables, run again; all of them as one page."""

from __future__ import annotations

from typing import Annotated

import typer

from noisymean import __version__
from noisymean.audit import Processes
from noisymean.choices import did_you_mean, written_as
from noisymean.cli import options, values
from noisymean.cli.data import fetch_with_bar
from noisymean.cli.faults import BAD_INPUT, OUR_FAULT
from noisymean.cli.options import text
from noisymean.cli.output import console, emit_json, folder, need_matplotlib, note, say
from noisymean.cli.progress import progress
from noisymean.errors import InvalidInput
from noisymean.paper.experiment import Effort
from noisymean.paper.experiments import EXPERIMENTS
from noisymean.paper.reproduction import ALL, TRIALS, Failed, Reproduced, Reproduction, counted
from noisymean.paper.statements import Answer
from noisymean.report import page
from noisymean.words import sentence

_NAMES = (*EXPERIMENTS, ALL)


def command(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help=f"Which: {', '.join(_NAMES)}.", autocompletion=options.from_names(_NAMES)),
    ],
    quick: Annotated[bool, options.flag("--quick", "Fewer trials: minutes instead of hours.")] = False,
    out: Annotated[str, text("DIR", "Folder for pictures and data.")] = "out",
    seed: Annotated[str, text("S", "Random seed: the same seed gives the same numbers.")] = "0",
    jobs: Annotated[str, text("J", "Number of processes.")] = "1",
    data_dir: Annotated[str | None, text("DIR", "Images in torchvision's layout [default: as fetched].")] = None,
    json: options.Json = False,
) -> None:
    """A figure or table of the paper, run again; or all of them.

    A picture, NAME.png, its numbers, NAME.csv, and each of the paper's statements about it: agree or differ, with the
    reason. `all` makes one page of everything, index.html; one that fails does not stop the others, and the last line
    counts what failed.

    Images and releases of Opacus that are needed and not here are fetched; what, how large and how long is said before.

    Finished figures are kept in DIR (NAME.json), finished trials in trials.sqlite: the same command goes on from there
    after a kill.

    \b
    Example:
      noisymean reproduce all --quick --out out
    """
    known = (*EXPERIMENTS, ALL)
    chosen = written_as(name, known)
    if chosen is None:
        remedy = did_you_mean(name, known) or "e.g. noisymean reproduce synthetic-delta"
        raise InvalidInput("name", name, f"one of {', '.join(known)}", remedy)
    need_matplotlib()
    if chosen == ALL:
        page.need("jinja2")
    place = folder(out)
    effort = Effort(
        quick,
        values.whole("seed", seed),
        Processes(values.whole("jobs", jobs)).count,
        data_dir=data_dir,
        store=place / TRIALS,
        watch=progress,
    )
    run = Reproduction(EXPERIMENTS, effort, place, out, note, fetch_with_bar)
    results = run.all() if chosen == ALL else [run.alone(EXPERIMENTS[chosen])]
    if json:
        made = {"page": str(run.page)} if chosen == ALL else {}
        emit_json({"experiments": [one.record() for one in results], **made, "version": __version__})
    else:
        for result in results:
            _print(result)
        if chosen == ALL:
            say(console(), f"Page: {run.page}")
    # what is read last; beside JSON it is no part of standard output
    last = sentence(counted(results))
    if json:
        note(last)
    else:
        say(console(), last)
    if faults := [one for one in results if isinstance(one, Failed)]:
        raise typer.Exit(OUR_FAULT if any(one.ours for one in faults) else BAD_INPUT)


def _print(result: Reproduced | Failed) -> None:
    out, experiment = console(), result.experiment
    if isinstance(result, Failed):
        say(out, f"{experiment.name}: failed: {result.fault}")
        return
    say(out, f"{experiment.name}: {experiment.shows}, {result.rows.seconds:.0f} s")
    say(out, result.finding)
    found = result.comparisons
    counts = (f"{sum(one.answer is answer for one in found)} {answer.value}" for answer in Answer)
    say(out, f"The paper's statements: {', '.join(counts)}.")
    for one in found:
        if one.answer is not Answer.AGREES:
            say(out, f"- {one.answer.value}: {one.where}: {one.says} Ours: {one.result} {one.reason}")
    say(out, f"Picture: {result.picture}  Data: {result.data}")
