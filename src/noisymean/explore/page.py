"""Which part of the page is filled by which answer.

The controls end in one store, `settings`, with a key (the address that says the same), the page's own name and a serial number.
The three numbers are computed for it first, the pictures once those are there. Every answer carries the key it was asked with and
is shown only while that is still the page's; a request whose serial is no longer the newest is given up by the workers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dash
import flask
from dash import ClientsideFunction, Input, Output, State

from noisymean.accounts import Account
from noisymean.curves import Curves
from noisymean.errors import NoisymeanError
from noisymean.explore import components
from noisymean.explore.settings import CONTROLS, Reader, Settings, in_symbols
from noisymean.explore.workers import Newest, Outcome, Workers
from noisymean.report.page import figures
from noisymean.report.page.banners import Banner, account_banner
from noisymean.run_curves import Growth, RunCurves
from noisymean.words import NO_CURVE_OF_IT, NO_UPPER_BOUND, sentence

ASSETS = Path(__file__).parent / "assets"
_RUN: tuple[str, ...] = ("claimed", "leakage", "guarantee")
_ONE_ROUND = ("claimed", "guarantee", "guarantee_tight", "ceiling", "ceiling_clt", "leakage")


def build(read: Reader, workers: Workers) -> dash.Dash:
    """The application; everything it needs is served by itself."""
    app = dash.Dash(
        "noisymean",
        title="noisymean explore",
        update_title="noisymean explore",
        assets_folder=str(ASSETS),
        index_string=components.index(),
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
        serve_locally=True,
        add_log_handler=False,
        enable_mcp=False,
    )
    app.layout = components.layout()
    _in_the_browser(app)
    _answered(app, read, workers)
    _downloads(app.server, read, workers)
    return app


def _in_the_browser(app: Any) -> None:
    """What needs no server: the controls, the address, the colours, and that no old answer is shown."""

    def function(name: str) -> ClientsideFunction:
        return ClientsideFunction("explore", name)

    boxes, sliders = ([f"{kind}-{control.name}" for control in CONTROLS] for kind in ("box", "slider"))
    linked = [("mechanism", "value"), *((name, "value") for name in (*boxes, *sliders))]
    app.clientside_callback(
        function("controls"),
        *(Output(*one) for one in linked),
        Output("settings", "data"),
        *(Output(f"control-{control.name}", "hidden") for control in CONTROLS),
        Input("url", "search"),
        *(Input(*one) for one in linked),
        State("controls", "data"),
        State("unused", "data"),
    )
    app.clientside_callback(
        function("show"),
        *(Output(name, "children") for name in ("banner", "numbers", "about", "command")),
        Output("elsewhere", "children", allow_duplicate=True),
        Input("answer", "data"),
        State("settings", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        function("children"),
        Output("elsewhere", "children"),
        Input("elsewhere-data", "data"),
        State("settings", "data"),
        prevent_initial_call=True,
    )
    for name in ("curves", "growth"):
        app.clientside_callback(
            function("draw"),
            Output(f"{name}-graph", "figure"),
            Output(f"{name}-note", "children"),
            Output(f"{name}-csv", "href"),
            Input(f"{name}-data", "data"),
            Input("scheme", "data"),
            State("settings", "data"),
            State("palette", "data"),
            prevent_initial_call=True,
        )
        app.clientside_callback(
            function("png"),
            Output(f"{name}-png", "title"),
            Input(f"{name}-png", "n_clicks"),
            State(f"{name}-graph", "id"),
            prevent_initial_call=True,
        )


def _answered(app: dash.Dash, read: Reader, workers: Workers) -> None:
    newest = Newest()

    def asked(part: str, settings: dict[str, Any]) -> Outcome:
        """The outcome of one part for what the page's controls say, while that is wanted."""
        wanted = newest.wanted(str(settings["page"])[:40], int(settings["serial"]))
        outcome = _outcome(part, settings["values"], read, workers, wanted)
        if outcome.kind == "unwanted":
            raise dash.exceptions.PreventUpdate
        return outcome

    @app.callback(Output("answer", "data"), Input("settings", "data"), prevent_initial_call=True)
    def numbers(settings: dict[str, Any]) -> dict[str, Any]:
        shown = _shown(asked("numbers", settings), Settings.of(settings["values"]), workers.limit)
        return {"key": settings["key"], **shown}

    def picture(part: str, answer: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        if answer["key"] != settings["key"]:
            raise dash.exceptions.PreventUpdate
        figure, note = None, ""
        if answer["drawable"]:
            outcome = asked(part, settings)
            figure = None if outcome.answer is None else _figure(outcome.answer)
            note = _missing(part, outcome, workers.limit, bounded=answer["bounded"])
        return {"key": settings["key"], "figure": figure, "note": note, "csv": f"/csv/{part}?{settings['key']}"}

    @app.callback(
        Output("curves-data", "data"),
        Input("answer", "data"),
        Input("tab", "value"),
        State("settings", "data"),
        prevent_initial_call=True,
    )
    def curves(answer: dict[str, Any] | None, tab: str, settings: dict[str, Any]) -> dict[str, Any]:
        if answer is None:
            raise dash.exceptions.PreventUpdate
        return picture("one-round" if tab == "one-round" else "run", answer, settings)

    @app.callback(
        Output("growth-data", "data"), Input("answer", "data"), State("settings", "data"), prevent_initial_call=True
    )
    def growth(answer: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        return picture("growth", answer, settings)

    @app.callback(
        Output("elsewhere-data", "data"), Input("answer", "data"), State("settings", "data"), prevent_initial_call=True
    )
    def elsewhere(answer: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        if answer["key"] != settings["key"] or not answer["drawable"]:
            raise dash.exceptions.PreventUpdate
        found = asked("elsewhere", settings).answer
        return {"key": settings["key"], "children": None if found is None else components.at_another_size(*found)}


def _outcome(
    part: str, values: Mapping[str, object], read: Reader, workers: Workers, wanted: Callable[[], bool] = lambda: True
) -> Outcome:
    """One part of the answer to what was typed."""
    try:
        return workers.ask(part, read(Settings.of(values)), wanted)
    except NoisymeanError as fault:
        return Outcome("refused", message=in_symbols(fault))


def _shown(outcome: Outcome, settings: Settings, limit: float) -> dict[str, Any]:
    """Banner, numbers, what is to be said about them, and the command; `drawable` where pictures make sense."""
    answer: Account | None = None
    match outcome.kind:
        case "complete":
            answer = outcome.answer
            shown = account_banner(outcome.answer)
        case "slow":
            longer = f"This setting takes longer than {limit:g} seconds: run the command below."
            shown = Banner("slow", "unknown", "takes longer", longer)
        case "refused":
            shown = Banner("refused", "bad", "not possible", outcome.message)
        case _:
            below = "The command below shows it in full."
            shown = Banner("failed", "bad", "a fault of noisymean", outcome.message, below)
    return {
        "banner": components.banner(shown),
        "numbers": components.three_numbers(answer),
        "about": None if answer is None else components.about(answer),
        "command": None if outcome.kind == "refused" else components.command_line(settings),
        "drawable": outcome.kind in ("complete", "slow"),
        "bounded": answer is not None and answer.guarantee.epsilon is not None,
    }


def _missing(part: str, outcome: Outcome, limit: float, *, bounded: bool) -> str:
    """What a picture does not show, and why; `bounded`: a guarantee is known as a number."""
    match outcome.kind:
        case "complete":
            curve = outcome.answer
            if isinstance(curve, RunCurves) and curve.guarantee is None:
                return sentence(NO_CURVE_OF_IT if bounded else NO_UPPER_BOUND)
            return ""
        case "slow" if part == "one-round":
            return f"This picture takes longer than {limit:g} seconds: 'noisymean curve' takes the time that it needs."
        case "slow" if outcome.answer is None:
            return f"This picture takes longer than {limit:g} seconds: run the command above with --plot run.png."
        case "slow" if part == "growth":
            return f"Numbers of steps that took longer than {limit:g} seconds together are left out."
        case "slow":
            return f"The curve of the guarantee takes longer than {limit:g} seconds: run the command above with --plot run.png."
        case _:
            return outcome.message


def _figure(answer: RunCurves | Curves | Growth) -> dict[str, Any]:
    if isinstance(answer, Curves):
        answer = RunCurves(answer.alpha, answer.claimed, answer.leakage, answer.guarantee_tight)
    figure = figures.epsilon_against_steps(answer) if isinstance(answer, Growth) else figures.tradeoff_curves(answer)
    drawn: dict[str, Any] = figure.to_plotly_json()
    return drawn


# --- downloads ---------------------------------------------------------------------------------------------------------


def _downloads(server: flask.Flask, read: Reader, workers: Workers) -> None:
    @server.get("/csv/<part>")
    def table(part: str) -> flask.Response:
        if part not in ("run", "one-round", "growth"):
            flask.abort(404)
        outcome = _outcome(part, flask.request.args, read, workers)
        if outcome.kind == "complete":
            headers = {"Content-Disposition": f'attachment; filename="noisymean-{part}.csv"'}
            return flask.Response(_csv(outcome.answer), mimetype="text/csv", headers=headers)
        slow = f"this setting takes longer than {workers.limit:g} seconds"
        line = slow if outcome.kind == "slow" else outcome.message
        status = {"refused": 400, "slow": 503}.get(outcome.kind, 500)
        return flask.Response(f"{line}\n", status, mimetype="text/plain")


def _csv(answer: RunCurves | Curves | Growth) -> str:
    """A row for each point, numbers in full; empty where nothing is known."""
    first = "steps" if isinstance(answer, Growth) else "alpha"
    names = _ONE_ROUND if isinstance(answer, Curves) else _RUN
    columns = {name: getattr(answer, name) for name in (first, *names)}
    there = {name: values for name, values in columns.items() if values is not None}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(there)
    for row in zip(*there.values(), strict=True):
        writer.writerow([_cell(name, float(value)) for name, value in zip(there, row, strict=True)])
    return text.getvalue()


def _cell(name: str, value: float) -> str:
    if value != value:
        return ""
    return str(int(value)) if name == "steps" else repr(value)
