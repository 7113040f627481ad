"""The parts of the page: controls on one side, answers on the other."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from dash import dcc, html

from noisymean.accounts import Account
from noisymean.explore.settings import CONTROLS, DEFAULT_MECHANISM, Control, Settings, unused_controls
from noisymean.mechanisms import KINDS
from noisymean.report import account_words
from noisymean.report.page.banners import Banner
from noisymean.report.page.palette import exchange, variables
from noisymean.words import MEANINGS, sentence
from noisymean.written import power, typeset

# A verdict that changes is read out, when the reader has finished what it is saying.
_SPOKEN: Any = {"aria-live": "polite"}
_GRAPH: Any = {
    "displaylogo": False,
    "displayModeBar": "hover",
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    "responsive": True,
}


_SUBTITLE = "What is claimed for a run of DP-SGD, what it certainly leaks, and what is guaranteed."


def index() -> str:
    """The empty page: its language, and the colours of light and dark by their names."""
    light, dark = (
        " ".join(f"{name}: {value};" for name, value in variables(dark=scheme).items()) for scheme in (False, True)
    )
    style = f":root {{ {light} }} @media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head>{%metas%}<title>{%title%}</title>{%favicon%}{%css%}'
        f"<style>{style}</style></head>"
        "<body>{%app_entry%}<footer>{%config%}{%scripts%}{%renderer%}</footer></body></html>"
    )


def layout() -> html.Div:
    """Everything that is always there."""
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="controls", data=[{**asdict(control), "ends": control.ends} for control in CONTROLS]),
            dcc.Store(id="unused", data=unused_controls()),
            dcc.Store(id="palette", data=exchange()),
            dcc.Store(id="scheme"),
            dcc.Store(id="settings"),
            html.Header([html.H1("noisymean explore"), html.P(_SUBTITLE, className="subtitle")]),
            html.Main([html.Section(_controls(), className="controls"), html.Section(_results(), className="results")]),
        ]
    )


# --- controls ----------------------------------------------------------------------------------------------------------


def _controls() -> list[Any]:
    denominators = {name: html.Span(f" {typeset(kind.denominator)}", className="muted") for name, kind in KINDS.items()}
    return [
        html.H2("The run"),
        html.Div("The sum of the clipped gradients is divided by", className="label", id="mechanism-label"),
        dcc.RadioItems(
            id="mechanism",
            options=[
                {"value": name, "label": html.Span([html.B(name), shown])} for name, shown in denominators.items()
            ],
            value=DEFAULT_MECHANISM,
            className="mechanisms",
        ),
        *(_control(control) for control in CONTROLS),
        html.P(
            "A slider gives three digits; a box takes any exact value, q also as a fraction such as 1/200.",
            className="note",
        ),
    ]


def _control(control: Control) -> html.Div:
    low, high = control.ends
    every = max(1, math.ceil((high - low) / 6))
    marks = {power: _power(power) for power in range(math.ceil(low), math.floor(high) + 1, every)}
    named = [html.I(control.symbol), html.Span(f" {control.label}")]
    label = html.Label(named, htmlFor=f"box-{control.name}", className="label")
    box = dcc.Input(
        id=f"box-{control.name}",
        type="text",
        autoComplete="off",
        spellCheck="false",
        debounce=True,
        value=control.default,
        maxLength=60,
    )
    slider = dcc.Slider(
        id=f"slider-{control.name}",
        min=low,
        max=high,
        step=0.01,
        value=control.start,
        marks=marks,
        included=False,
        updatemode="mouseup",
        allow_direct_input=False,
        tooltip={"placement": "top", "transform": "whole" if control.whole else "decimal"},
    )
    return html.Div([label, box, slider], id=f"control-{control.name}", className="control")


def _power(exponent: int) -> str:
    return f"{10**exponent:g}" if -3 <= exponent <= 3 else power(exponent)


# --- answers -----------------------------------------------------------------------------------------------------------


def _results() -> list[Any]:
    said = html.Div(id="banner", role="status", **_SPOKEN)
    copy = dcc.Clipboard(target_id="command", title="copy the command", className="copy")
    tabs = [dcc.Tab(label="the whole run", value="run"), dcc.Tab(label="one round", value="one-round")]
    curves = _figure(
        "curves",
        "Trade-off curves",
        dcc.Tabs(id="tab", value="run", children=tabs, mobile_breakpoint=0),
        "Least false negative rate β of telling D' from D at false positive rate α: high is private.",
    )
    growth = _figure("growth", "ε against steps", None, "The truth is between leakage and guarantee.")
    return [
        _loading("numbers-loading", [said, html.Div(id="numbers", className="numbers"), dcc.Store(id="answer")]),
        html.Div([html.Code(id="command"), copy], className="command"),
        html.Div(id="about"),
        html.Div(id="elsewhere", className="about"),
        dcc.Store(id="elsewhere-data"),
        html.Div([curves, growth], className="side"),
    ]


def _figure(name: str, title: str, above: Any, caption: str) -> html.Div:
    graph = dcc.Graph(id=f"{name}-graph", config=_GRAPH, figure={"data": [], "layout": {}})
    note = html.P(id=f"{name}-note", className="warning")
    table = html.A("CSV", id=f"{name}-csv", href="#", download="")
    picture = html.Button("PNG", id=f"{name}-png", type="button", className="link")
    exports = html.Span([table, " · ", picture], className="exports")
    drawn = _loading(f"{name}-loading", [html.Div(graph, className="plot"), note, dcc.Store(id=f"{name}-data")])
    below = html.P([html.Span(caption + " ", className="note"), exports], className="below")
    return html.Div([html.H2(title), above, drawn, below], className="picture")


def _loading(name: str, children: list[Any]) -> dcc.Loading:
    return dcc.Loading(
        children,
        id=name,
        type="circle",
        delay_show=150,
        overlay_style={"visibility": "visible", "opacity": 0.45},
        color="var(--link)",
    )


def banner(shown: Banner) -> html.Div:
    """The verdict, or what is in its place."""
    text = html.P(shown.text) if shown.text else None
    return html.Div(
        [html.P(shown.label, className="tag"), html.P(shown.headline, className="headline"), text],
        className=f"banner {shown.kind}",
    )


def command_line(settings: Settings) -> list[Any]:
    """The command, never broken between an option and its value."""
    first, *options = settings.command_parts
    return [html.Span(first), *(part for option in options for part in (" ", html.Span(option)))]


def three_numbers(answer: Account | None) -> list[html.Div]:
    """Claimed, leakage, guarantee; dashes where there is no answer."""
    tiles = []
    for name, meaning in (MEANINGS if answer is None else account_words.meanings(answer)).items():
        text = "–" if answer is None else account_words.number(answer, name)
        # a number that is not there has its reason beside it
        why = account_words.why_no_guarantee(answer) if answer is not None and name == "guarantee" else None
        shown = [
            html.Div(f"{name} ε", className="name"),
            html.Div(text, id=f"number-{name}", className="value" if len(text) < 9 else "value long"),
            html.Div(meaning if why is None else f"{meaning}: {why}", className="meaning"),
        ]
        tiles.append(html.Div(shown, className=f"number {name}"))
    return tiles


def about(answer: Account) -> html.Div:
    """The pair that proves the leakage, and the notes."""
    pair = html.P([html.B("The pair that proves the leakage: "), html.Span(f"{answer.leakage.pair}.", id="pair")])
    bound = html.P("C is the clipping bound.", className="note")
    notes = html.Ul([html.Li(f"{note}.") for note in answer.remarks], id="notes") if answer.remarks else None
    return html.Div([pair, bound, notes], className="about")


def at_another_size(size: int, other: Account) -> html.Ul:
    """A result is for one N: what another would give."""
    leaked, claimed = (account_words.number(other, which) for which in ("leakage", "claimed"))
    return html.Ul([html.Li(sentence(account_words.at_another_size(f"{size:,}", leaked, claimed, other)))])
