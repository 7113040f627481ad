"""`noisymean explore`: a local page with sliders."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import fields
from typing import Annotated, Any

import typer

from noisymean import __version__
from noisymean.accounts import Account
from noisymean.cli import options, values
from noisymean.cli.account import record, run_of
from noisymean.cli.complaints import refused
from noisymean.cli.output import emit_json, note
from noisymean.cli.report_runs import shown_run
from noisymean.explore import server
from noisymean.explore.settings import Commands, Settings
from noisymean.report.asked_run import AskedRun
from noisymean.report.page import need, sections

_LONGEST = 3600.0
# As `noisymean report` calls a page of nobody's own naming.
TITLE = "Privacy report"


def command(
    port: Annotated[str, options.text("P", "The port to listen on; 0 takes a free one.")] = "0",
    browser: Annotated[
        bool, options.flag("--open/--no-browser", "Open the page in a browser, or only print its address.")
    ] = False,
    limit: Annotated[str, options.text("S", "Seconds that one answer may take.")] = "8",
    json: options.Json = False,
) -> None:
    """A page on this machine with sliders: claimed, leaked and guaranteed as the settings move.

    Its address is printed; it is reachable from this machine only, and needs no network. Ctrl-C ends it.

    \b
    Example:
      noisymean explore --port 8050
    """
    need("flask", "plotly", extra="explore")
    seconds = values.number("limit", limit)
    if not 0.0 < seconds <= _LONGEST:
        raise refused("limit", limit)
    listening = server.bound(values.whole("port", port))

    def ready(address: str) -> None:
        note("Ctrl-C ends it")
        if json:
            emit_json({"url": address, "port": listening.getsockname()[1], "version": __version__})
        else:
            typer.echo(address)
        sys.stdout.flush()
        if browser:
            webbrowser.open(address)

    with listening:
        server.serve(listening, Commands(read, account_record, report_page), ready, limit=seconds)
    note("ended")


def read(settings: Settings) -> AskedRun:
    """What `noisymean account` would make of the same options."""

    def typed(group: type[options.Group]) -> dict[str, Any]:
        given = {one.name: settings.get(one.name.replace("_", "-")) for one in fields(group)}
        return {name: True if name == "drop_last" else text for name, text in given.items() if text is not None}

    described = options.Described(**{**typed(options.Described), "mechanism": settings.mechanism})
    return run_of(described, options.Asked(**typed(options.Asked)))


def account_record(run: AskedRun, answer: Account, elsewhere: tuple[int, Account] | None) -> dict[str, object]:
    """What `noisymean account --json` would print of it."""
    return record(answer, elsewhere, {}, run.pair)


def report_page(run: AskedRun, line: str) -> str:
    """What `noisymean report` would write about it; the page names the command line that writes it."""
    shown = shown_run(run, lambda **_: None)
    return sections.report([sections.account_section(shown, "run")], title=TITLE, command=line)
