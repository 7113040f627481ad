"""`noisymean data`: which sets of images there are, and how to have one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

from noisymean.choices import did_you_mean, written_as
from noisymean.cli import options
from noisymean.cli.output import console, emit_json, error_console, said_beside_a_bar, say
from noisymean.cli.tables import Column, Kind, show
from noisymean.errors import InvalidInput
from noisymean.paper import data

_ACTIONS = ("list", "fetch")


def command(
    action: Annotated[
        str,
        typer.Argument(
            metavar="ACTION", show_default=False, help="list or fetch.", autocompletion=options.from_names(_ACTIONS)
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help=f"{', '.join(data.CATALOGUE)}.",
            autocompletion=options.from_names(data.CATALOGUE),
        ),
    ] = None,
    data_dir: Annotated[
        str | None, options.text("FOLDER", "With list: also look into a folder of torchvision's layout.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Real images to audit on: list the sets, or fetch one into the cache.

    \b
    Example:
      noisymean data list
      noisymean data fetch mnist
    """
    action = written_as(action, _ACTIONS) or action
    match action, name:
        case "list", None:
            _list(Path(data_dir) if data_dir is not None else None, json)
        case "fetch", str():
            _fetch(name, json)
        case "fetch", None:
            raise InvalidInput("dataset", "", f"one of {', '.join(data.CATALOGUE)}", "e.g. noisymean data fetch mnist")
        case "list", _:
            raise InvalidInput("dataset", name, "left out of 'data list'", f"did you mean 'data fetch {name}'?")
        case _:
            meant = did_you_mean(action, _ACTIONS)
            raise InvalidInput("action", action, "list or fetch", meant or "e.g. noisymean data list")


def _list(folder: Path | None, as_json: bool) -> None:
    found = [(one, data.where_to_read(one, folder)) for one in data.CATALOGUE.values()]
    if as_json:
        records = [{**asdict(one), "client": one.client.value, "where": where} for one, where in found]
        emit_json({"cache": str(data.cache_folder()), "datasets": records})
        return
    columns = (
        Column("name"),
        Column("images", Kind.NUMBER),
        Column("shape"),
        Column("download"),
        Column("licence", Kind.PROSE),
        Column("here", Kind.PROSE),
    )
    rows = [
        (
            one.name,
            f"{one.train:,} + {one.test:,}",
            "x".join(str(size) for size in one.shape),
            f"{one.bytes / 1e6:.0f} MB ({one.client.value})",
            one.licence,
            where or "no",
        )
        for one, where in found
    ]
    out = console()
    show(out, columns, rows, close=True)
    say(out, f"Cache: {data.cache_folder()}; fetch a set with 'noisymean data fetch NAME'.")


def fetch_with_bar(name: str) -> Path:
    """Have a set of images in the cache."""
    columns = (said_beside_a_bar("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    out = error_console()
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(name, total=1.0)
        return data.fetch(
            name, lambda stage, fraction: bar.update(task, description=f"{name}: {stage}", completed=fraction)
        )


def _fetch(typed: str, as_json: bool) -> None:
    # complained about before there is a bar
    name = data.named(typed).name
    folder = fetch_with_bar(name)
    if as_json:
        emit_json({"name": name, "folder": str(folder)})
    else:
        say(console(), f"{data.named(name).title} is in {folder}.")
