"""Which part of the page is filled by which answer: one address for each, and the settings in its query.

The three numbers are asked for first, the pictures once those are there. A request says which page asks (`_page`) and how many
requests it has made (`_serial`): one that is no longer its page's newest is given up by the workers, and answered with nothing.
No request has a body, and nothing is stored. What cannot be answered is one line: 400 for settings that cannot be, 503 for what
takes too long, 500 for a fault of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, final

import flask
from werkzeug.exceptions import HTTPException

from noisymean.curves import Curves
from noisymean.errors import NoisymeanError
from noisymean.explore import exports, shown
from noisymean.explore.settings import Commands, Settings, in_symbols
from noisymean.explore.workers import REPORT_SECONDS, Newest, Outcome, Workers
from noisymean.mechanisms import Adjacency
from noisymean.report.asked_run import AskedRun
from noisymean.report.page import figures
from noisymean.run_curves import Growth, RunCurves
from noisymean.words import NO_CURVE_OF_IT, NO_UPPER_BOUND, sentence

ASSETS = Path(__file__).parent / "assets"
PICTURES = tuple(exports.TITLES)


@final
@dataclass(frozen=True)
class _Asked:
    """What a request asks for, or why it asks for nothing."""

    settings: Settings | None
    run: AskedRun | None
    fault: str = ""

    @property
    def name(self) -> Settings:
        """The settings, where there are some that a run was made of."""
        if self.settings is None:
            raise NoisymeanError(self.fault)
        return self.settings


def build(commands: Commands, workers: Workers) -> flask.Flask:
    """The application; everything it needs is served by itself."""
    app = flask.Flask("noisymean", static_folder=str(ASSETS), static_url_path="/assets")
    app.register_error_handler(HTTPException, lambda fault: _line(f"{fault.code}: {fault.name}", fault.code))
    app.register_error_handler(Exception, _ours)
    app.add_url_rule("/", "page", shown.page)
    app.add_url_rule("/plotly.js", "plotly", _plotly)
    _answered(app, commands, workers)
    _downloads(app, commands, workers)
    return app


def _asked(commands: Commands) -> _Asked:
    """The settings of this request; its own names, which begin with _, are none."""
    typed = {name: texts for name, texts in flask.request.args.lists() if not name.startswith("_")}
    settings: Settings | None = None
    try:
        settings = Settings.of(typed)
        return _Asked(settings, commands.read(settings))
    except NoisymeanError as fault:
        return _Asked(settings, None, in_symbols(fault))


def _answered(app: flask.Flask, commands: Commands, workers: Workers) -> None:
    newest = Newest()

    def outcome(part: str, asked: _Asked) -> Outcome:
        """The outcome of one part, while the page wants it."""
        own = flask.request.args
        serial = own.get("_serial", "0")
        if not (serial.isascii() and serial.isdecimal() and len(serial) < 16):
            flask.abort(400)
        return _outcome(part, asked, workers, newest.wanted(own.get("_page", "")[:40], int(serial)))

    @app.get("/answer")
    def answer() -> Any:
        asked = _asked(commands)
        found = outcome("numbers", asked)
        if found.kind == "unwanted":
            return _nothing()
        more: dict[str, Any] = {}
        if asked.run is not None:
            more = {"line": exports.line(asked.run), "file": exports.file_name("PART", asked.name, "")[:-1]}
        return flask.jsonify({**shown.answer(found, asked.settings, workers.limit), **more})

    @app.get("/picture/<part>")
    def picture(part: str) -> Any:
        if part not in PICTURES:
            flask.abort(404)
        asked = _asked(commands)
        if asked.run is not None and part != "growth" and _replaced(asked.run):
            return flask.jsonify({"figure": None, "note": "Curves are not drawn for one record replaced."})
        found = outcome(part, asked)
        if found.kind == "unwanted":
            return _nothing()
        figure = "null" if found.answer is None else _figure(found.answer)
        note = _missing(part, found, workers.limit, bounded=flask.request.args.get("_bounded") == "true")
        body = f'{{"figure": {figure}, "note": {flask.json.dumps(note)}}}'
        return flask.Response(body, mimetype="application/json")

    @app.get("/elsewhere")
    def elsewhere() -> Any:
        found = outcome("elsewhere", _asked(commands))
        return _nothing() if found.kind == "unwanted" else flask.jsonify({"text": shown.at_another_size(found.answer)})


def _outcome(part: str, asked: _Asked, workers: Workers, wanted: Callable[[], bool] = lambda: True) -> Outcome:
    """One part of the answer to what was asked."""
    if asked.run is None:
        return Outcome("refused", message=asked.fault)
    return workers.ask(part, asked.run, wanted)


def _replaced(run: AskedRun) -> bool:
    return run.adjacency is Adjacency.REPLACE_ONE


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
            # no capital letter: it may begin with a symbol
            return f"{outcome.message}."


def _figure(answer: RunCurves | Curves | Growth) -> str:
    if isinstance(answer, Curves):
        answer = RunCurves(answer.alpha, answer.claimed, answer.leakage, answer.guarantee_tight)
    figure = figures.epsilon_against_steps(answer) if isinstance(answer, Growth) else figures.tradeoff_curves(answer)
    drawn: str = figure.to_json()
    return drawn


# --- files -------------------------------------------------------------------------------------------------------------


def _downloads(app: flask.Flask, commands: Commands, workers: Workers) -> None:
    @app.get("/csv/<part>")
    def table(part: str) -> flask.Response:
        if part not in PICTURES:
            flask.abort(404)
        asked = _asked(commands)
        found = _outcome(part, asked, workers)
        if found.kind != "complete" or asked.run is None:
            return _failed(found, workers.limit)
        text = exports.table(part, found.answer, asked.name, asked.run)
        return _file(text, "text/csv", exports.file_name(part, asked.name, "csv"))

    @app.get("/json")
    def record() -> flask.Response:
        asked = _asked(commands)
        found = {part: _outcome(part, asked, workers) for part in ("numbers", "elsewhere")}
        for one in found.values():
            if one.kind != "complete" or asked.run is None:
                return _failed(one, workers.limit)
        numbers, elsewhere = (one.answer for one in found.values())
        text = exports.record(commands, asked.run, numbers, elsewhere)  # type: ignore[arg-type]
        return _file(text, "application/json", exports.file_name("account", asked.name, "json"))

    @app.get("/report")
    def report() -> flask.Response:
        asked = _asked(commands)
        if asked.run is None:
            return _line(asked.fault, 400)
        found = workers.make_report(asked.run, " ".join(shown.report_parts(asked.name)))
        if found.kind != "complete":
            return _failed(found, REPORT_SECONDS)
        return _file(found.answer, "text/html", exports.file_name("report", asked.name, "html"))


def _file(text: str, kind: str, name: str) -> flask.Response:
    return flask.Response(text, mimetype=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _failed(outcome: Outcome, limit: float) -> flask.Response:
    said = f"this setting takes longer than {limit:g} seconds" if outcome.kind == "slow" else outcome.message
    return _line(f"{said}.", {"refused": 400, "slow": 503}.get(outcome.kind, 500))


# --- answers that are none ---------------------------------------------------------------------------------------------


def _line(text: str, status: int | None) -> flask.Response:
    return flask.Response(f"{' '.join(text.split())}\n", status or 500, mimetype="text/plain")


def _nothing() -> flask.Response:
    return flask.Response(status=204)


def _ours(fault: Exception) -> flask.Response:
    return _line(f"a fault of noisymean: {type(fault).__name__}: {fault}", 500)


def _plotly() -> flask.Response:
    """The bundle that reports have in them."""
    bundle = files("noisymean.report.page").joinpath("plotly_basic", "plotly-basic.min.js").read_bytes()
    return flask.Response(bundle, mimetype="text/javascript", headers={"Cache-Control": "max-age=3600"})
