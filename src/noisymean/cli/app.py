"""The commands of `noisymean`, and the one place where a command line is run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from noisymean import __version__
from noisymean.cli import (
    account,
    audit,
    calibrate,
    check,
    code_audit,
    curve,
    data,
    demo,
    explore,
    field,
    probe,
    report,
    reproduce,
    statement,
)
from noisymean.cli.encoding import any_encoding
from noisymean.cli.faults import guarded, never_exits
from noisymean.cli.options import spread

PROGRAM = "noisymean"

COMMANDS: dict[str, Callable[..., None]] = {
    "curve": curve.command,
    "account": account.command,
    "calibrate": calibrate.command,
    "audit": audit.command,
    "probe": probe.command,
    "code-audit": code_audit.command,
    "check": check.command,
    "field": field.command,
    "report": report.command,
    "statement": statement.command,
    "reproduce": reproduce.command,
    "explore": explore.command,
    "demo": demo.command,
    "data": data.command,
}

# Plain help: examples can be copied from it, and a usage error is never drawn in a box.
app = typer.Typer(name=PROGRAM, rich_markup_mode=None, pretty_exceptions_enable=False)
for _name, _function in COMMANDS.items():
    app.command(_name)(never_exits(spread(_function)))


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """The privacy of DP-SGD as it is really run: a noisy mean, not a noisy sum.

    \b
    Example:
      noisymean curve --mechanism easgm --dataset-size 59999 --dimension 26010 \\
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
