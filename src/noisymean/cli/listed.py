"""The commands by name: how `noisymean --help` lists them, and where each is.

A command is imported when it is asked for, so that help and the completion of a shell wait for none of them. To add one, write
its module, named as the command is, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple

import typer

from noisymean.cli.faults import never_exits
from noisymean.cli.options import spread


class Part(StrEnum):
    """What commands are for, in the order in which they are listed."""

    NUMBERS = "From the numbers of a run"
    RUNNING = "By running it"
    CODE = "In your code"
    SHOWN = "To show and to try"


class Listed(NamedTuple):
    """What a command is for, and what it does, in a line."""

    part: Part
    says: str
    # which extras of the package it needs, and for what; nothing where it needs none
    needs: str = "Needs no extra."


_OWN = "Any other library is installed into an environment of its own."
COMMANDS = {
    "account": Listed(
        Part.NUMBERS,
        "A whole run: epsilon as claimed, leaked and guaranteed.",
        "Needs no extra; --plot needs noisymean[plots], and --reported asks Opacus (noisymean[audit]) and dp_accounting"
        " (noisymean[accounting]).",
    ),
    "curve": Listed(
        Part.NUMBERS,
        "One round: every trade-off curve, and a verdict.",
        "Needs no extra; --plot needs noisymean[plots].",
    ),
    "calibrate": Listed(Part.NUMBERS, "The noise that a target epsilon really needs."),
    "statement": Listed(Part.NUMBERS, "What a paper or a model card may say of a run."),
    "report": Listed(Part.NUMBERS, "One HTML page: the verdict, plots, proof, remedy.", "Needs noisymean[report]."),
    "audit": Listed(
        Part.RUNNING,
        "Attack a mechanism: does it keep its claim?",
        "Needs no extra for a synthetic target and for functions of yours; Opacus, the methods on images and --distinguisher"
        f" learned need noisymean[audit], --dask needs noisymean[distributed], --plot needs noisymean[plots]. {_OWN}",
    ),
    "probe": Listed(
        Part.RUNNING,
        "Which denominator does an implementation use?",
        f"Needs no extra for functions of yours; Opacus and what is built on it need noisymean[audit]. {_OWN}",
    ),
    "probe-run": Listed(
        Part.RUNNING,
        "Which denominator did a finished run have?",
        "Needs no extra for .npz files; .safetensors need noisymean[audit], and --plot needs noisymean[plots].",
    ),
    "field": Listed(
        Part.RUNNING,
        "The libraries of the field: each run and judged.",
        f"Opacus is run with noisymean[audit], --html needs noisymean[report]. {_OWN}",
    ),
    "reproduce": Listed(
        Part.RUNNING,
        "The paper's figures and tables, run again.",
        "Needs noisymean[plots]; what trains, or runs Opacus, needs noisymean[audit] as well, and 'all' noisymean[report].",
    ),
    "code-audit": Listed(
        Part.CODE,
        "What breaks the privacy of DP training here?",
        "Needs no extra to read code; opacus, whose releases are run, needs noisymean[audit], and --html noisymean[report].",
    ),
    "check": Listed(Part.CODE, "Known pitfalls: found, not found, not checkable."),
    "explore": Listed(Part.SHOWN, "A page with sliders, on this machine.", "Needs noisymean[explore]."),
    "demo": Listed(Part.SHOWN, "What is claimed and leaked in real settings.", "Needs noisymean[plots]."),
    "data": Listed(
        Part.SHOWN,
        "Real images to audit on: list or fetch them.",
        "Needs no extra; cifar10, which is published as pictures, needs noisymean[audit] to be unpacked.",
    ),
}


def function_of(name: str) -> Callable[..., None]:
    """The function of a command, from the module of its name."""
    found: Callable[..., None] = import_module(f"noisymean.cli.{name.replace('-', '_')}").command
    return found


def _built(name: str) -> Any:
    """A command of the parser."""
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(name, epilog=COMMANDS[name].needs)(never_exits(spread(function_of(name))))
    return typer.main.get_command(alone)


class _WhenAsked(MutableMapping[str, Any]):
    """Commands of the parser, built when they are asked for; what else is in here was put here."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in COMMANDS:
                raise KeyError(name)
            self._made[name] = _built(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*COMMANDS, *self._made]))

    def __len__(self) -> int:
        return len({*COMMANDS, *self._made})

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS or name in self._made


class Commands(typer.core.TyperGroup):
    """All of them, listed in parts; the line of each is whole, wrapped where a window is narrow."""

    # for a shell that completes the name of a command, names and lines are enough
    _names_only = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _WhenAsked()

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names as they are listed."""
        return [*self.commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None if there is none of that name."""
        if self._names_only and cmd_name in COMMANDS:
            return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name].says)
        return self.commands.get(cmd_name)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """What a shell may complete the word to."""
        self._names_only = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._names_only = False

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The lists of `--help`, with one width for the names of all."""
        longest = max(map(len, COMMANDS))
        for part in Part:
            with formatter.section(part.value):
                formatter.write_dl(
                    [(name.ljust(longest), one.says) for name, one in COMMANDS.items() if one.part is part]
                )
