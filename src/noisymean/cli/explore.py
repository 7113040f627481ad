"""`noisymean explore`: a local page with sliders."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import fields
from typing import Annotated

import typer

from noisymean import __version__
from noisymean.cli import options, values
from noisymean.cli.complaints import refused
from noisymean.cli.output import emit_json, note
from noisymean.explore import server
from noisymean.explore.settings import Settings
from noisymean.report.asked_run import AskedRun
from noisymean.report.page import need

_LONGEST = 3600.0


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
    need("dash", "plotly", extra="explore")
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
        server.serve(listening, read, ready, limit=seconds)
    note("ended")


def read(settings: Settings) -> AskedRun:
    """What `noisymean account` would make of the same options."""
    typed = {one.name: settings.get(one.name.replace("_", "-")) for one in fields(options.Quiet)}
    described = options.Quiet(**{**typed, "mechanism": settings.mechanism})
    mechanism = described.with_noise(settings.get("noise-multiplier") or "")
    steps = values.whole("steps", settings.get("steps") or "")
    return AskedRun(mechanism, steps, values.number("delta", settings.get("delta") or ""))
