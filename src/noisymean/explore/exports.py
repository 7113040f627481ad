"""What leaves the page as a file: CSV, JSON, the report. Each says which settings it is of, inside and in its name."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from noisymean import __version__
from noisymean.accounts import Account
from noisymean.curves import Curves
from noisymean.explore.settings import Commands, Settings
from noisymean.mechanisms import Adjacency
from noisymean.report.asked_run import AskedRun
from noisymean.run_curves import Growth, RunCurves
from noisymean.schema import SCHEMA
from noisymean.written import exactly

_RUN: tuple[str, ...] = ("claimed", "leakage", "guarantee")
_ONE_ROUND = ("claimed", "guarantee", "guarantee_tight", "ceiling", "ceiling_clt", "leakage")
# What is drawn, by the part of the page.
TITLES = {
    "run": "Trade-off curves of the whole run",
    "one-round": "Trade-off curves of one round",
    "growth": "ε against steps",
}


def line(asked: AskedRun) -> str:
    """The settings in a line, for a picture and for the first lines of a table."""
    rounds = f"{asked.steps:,} step{'' if asked.steps == 1 else 's'}"
    delta = "" if asked.delta is None else f", δ = {exactly(asked.delta)}"
    adjacency = asked.mechanism.adjacency if asked.adjacency is None else asked.adjacency
    neighbours = (
        "" if adjacency is Adjacency.ADD_REMOVE and asked.pair is None else f", {_neighbours(asked, adjacency)}"
    )
    return f"{asked.mechanism.in_a_line()}, {rounds}{delta}{neighbours}"


def _neighbours(asked: AskedRun, adjacency: Adjacency) -> str:
    pair = "" if asked.pair is None else f", the {asked.pair.value} neighbour"
    return f"one record {adjacency.change}{pair}"


def file_name(part: str, settings: Settings, ending: str) -> str:
    """The settings are in it."""
    return f"noisymean-{part}-{settings.file_name}.{ending}"


def table(part: str, answer: RunCurves | Curves | Growth, settings: Settings, asked: AskedRun) -> str:
    """A row for each point, numbers in full, empty where nothing is known; before them the settings, each line behind a #."""
    first = "steps" if isinstance(answer, Growth) else "alpha"
    names = _ONE_ROUND if isinstance(answer, Curves) else _RUN
    columns = {name: getattr(answer, name) for name in (first, *names)}
    there = {name: values for name, values in columns.items() if values is not None}
    text = io.StringIO()
    for said in (f"noisymean {__version__}: {TITLES[part]}", line(asked), " ".join(settings.command_parts())):
        text.write(f"# {said}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(there)
    for row in zip(*there.values(), strict=True):
        writer.writerow([_cell(name, float(value)) for name, value in zip(there, row, strict=True)])
    return text.getvalue()


def _cell(name: str, value: float) -> str:
    if value != value:
        return ""
    return str(int(value)) if name == "steps" else repr(value)


def record(commands: Commands, asked: AskedRun, answer: Account, elsewhere: tuple[int, Account] | None) -> str:
    """What `account --json` prints."""
    found: dict[str, Any] = {**commands.record(asked, answer, elsewhere), "schema": SCHEMA}
    return f"{json.dumps(found, allow_nan=False)}\n"
