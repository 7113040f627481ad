"""The one place where a command line is run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from noisymean import __version__
from noisymean.cli.encoding import any_encoding
from noisymean.cli.faults import guarded
from noisymean.cli.listed import Commands

PROGRAM = "noisymean"

# Plain help: examples can be copied from it, and a usage error is never drawn in a box.
app = typer.Typer(name=PROGRAM, cls=Commands, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """The privacy of DP-SGD as it is really run: a noisy mean, not a noisy sum.

    \b
    Example:
      noisymean curve --mechanism easgm \\
          --dataset-size 59999 --dimension 26010 \\
          --sample-rate 0.005 --noise-multiplier 10
    """
    if version:
        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command line; every fault ends as one line on standard error."""
    command = typer.main.get_command(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    with any_encoding():
        return guarded(lambda: command.main(args=list(words), prog_name=PROGRAM, standalone_mode=False), words)
