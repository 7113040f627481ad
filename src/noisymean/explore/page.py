"""Which part of the page is filled by which answer: one address for each, and the settings in its query.

The three numbers are asked for first, the pictures once those are there. A request says which page asks (`_page`) and how many
requests it has made (`_serial`): one that is no longer its page's newest is given up by the workers, and answered with nothing.
Nothing is stored. A file that cannot be is one line: 400 for settings that cannot be, 503 for what takes too long, 500 for a
fault of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, final

import flask
from werkzeug.exceptions import HTTPException

from noisymean.curves import Curves
from noisymean.errors import NoisymeanError
from noisymean.explore import exports, shown
from noisymean.explore.settings import Commands, Settings
from noisymean.explore.workers import REPORT_SECONDS, Newest, Outcome, Workers
from noisymean.report import account_words
from noisymean.report.asked_run import AskedRun
from noisymean.report.page import figures
from noisymean.run_curves import Growth, RunCurves
from noisymean.words import NO_CURVE_OF_IT, NO_UPPER_BOUND, sentence

ASSETS = Path(__file__).parent / "assets"
PICTURES = tuple(exports.TITLES)


@final
@dataclass(frozen=True)
class _Made:
    """A request that makes a run."""

    settings: Settings
    run: AskedRun


@final
@dataclass(frozen=True)
class _Refused:
    """A request that makes none, and its settings as far as they could be read."""

    settings: Settings | None
    outcome: Outcome


_Asked: TypeAlias = _Made | _Refused


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
        return _Made(settings, commands.read(settings))
    except NoisymeanError as fault:
        return _Refused(settings, Outcome.refused(fault))


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
        if isinstance(asked, _Made):
            more = {"line": exports.line(asked.run), "file": exports.file_name("PART", asked.settings, "")[:-1]}
        return flask.jsonify({**shown.answer(found, asked.settings, workers.limit), **more})

    @app.get("/picture/<part>")
    def picture(part: str) -> Any:
        if part not in PICTURES:
            flask.abort(404)
        found = outcome(part, _asked(commands))
        if found.kind == "unwanted":
            return _nothing()
        figure = "null" if found.answer is None else _figure(found.answer)
        own = flask.request.args
        bounded, verdict = own.get("_bounded") == "true", own.get("_verdict", "")
        note = _note(part, found, workers.limit, bounded=bounded, verdict=verdict)
        words = flask.json.dumps({"note": note, "title": exports.TITLES[part]})
        # a figure has its own way of writing JSON
        body = f'{{"figure": {figure}, {words[1:]}'
        return flask.Response(body, mimetype="application/json")

    @app.get("/elsewhere")
    def elsewhere() -> Any:
        found = outcome("elsewhere", _asked(commands))
        return _nothing() if found.kind == "unwanted" else flask.jsonify({"text": shown.at_another_size(found.answer)})


def _outcome(part: str, asked: _Asked, workers: Workers, wanted: Callable[[], bool] = lambda: True) -> Outcome:
    """One part of the answer to what was asked."""
    match asked:
        case _Refused(outcome=refused):
            return refused
        case _Made(run=run):
            return workers.ask(part, run, wanted)


def _note(part: str, outcome: Outcome, limit: float, *, bounded: bool, verdict: str) -> str:
    """What a picture does not show, and why, and what it shows beside the verdict; `bounded`: a guarantee is a number."""
    match outcome.kind:
        case "complete":
            return _beside(outcome.answer, verdict, bounded=bounded) if isinstance(outcome.answer, RunCurves) else ""
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


def _beside(curves: RunCurves, verdict: str, *, bounded: bool) -> str:
    notes = []
    if curves.guarantee is None:
        notes.append(sentence(NO_CURVE_OF_IT if bounded else NO_UPPER_BOUND))
    if verdict in ("holds", "undetermined") and figures.violated(curves):
        notes.append(account_words.broken_elsewhere("what was asked", verdict))
    return " ".join(notes)


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
        if isinstance(asked, _Refused) or found.kind != "complete":
            return _failed(found, workers.limit)
        text = exports.table(part, found.answer, asked.settings, asked.run)
        return _file(text, "text/csv", exports.file_name(part, asked.settings, "csv"))

    @app.get("/json")
    def record() -> flask.Response:
        asked = _asked(commands)
        if isinstance(asked, _Refused):
            return _failed(asked.outcome, workers.limit)
        numbers, elsewhere = (_outcome(part, asked, workers) for part in ("numbers", "elsewhere"))
        for one in (numbers, elsewhere):
            if one.kind != "complete":
                return _failed(one, workers.limit)
        text = exports.record(commands, asked.run, numbers.answer, elsewhere.answer)
        return _file(text, "application/json", exports.file_name("account", asked.settings, "json"))

    @app.get("/report")
    def report() -> flask.Response:
        asked = _asked(commands)
        if isinstance(asked, _Refused):
            return _failed(asked.outcome, REPORT_SECONDS)
        found = workers.make_report(asked.run, " ".join(shown.report_parts(asked.settings)))
        if found.kind != "complete":
            return _failed(found, REPORT_SECONDS)
        return _file(found.answer, "text/html", exports.file_name("report", asked.settings, "html"))


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
