"""The `noisymean` command: parse, call, print. No mathematics in here.

listed      the commands by name; to add one, write its module and a line there
app         the one place where a command line is run
options     the options that commands share, one by one and in groups
complaints  what the value of each option must be, and what is said where it is not
values      text of an option -> number, or a complaint
mechanism   those numbers -> any registered mechanism that they describe
gate        findings -> exit codes: --fail-on-violation and --max-epsilon
output      numbers -> table, JSON or file
encoding    characters that a terminal cannot show -> ones that it can
faults      anything that went wrong -> one line and an exit code
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: that of the process) and return its exit code."""
    # imported here so that `import noisymean.cli` costs neither typer nor rich
    from noisymean.cli.app import run

    return run(arguments)
