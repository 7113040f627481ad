"""Plotly figures in the colours of the page. Text that a user supplied never enters one: plotly reads tags in its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisymean.outward import Rounding, at_least, at_most
from noisymean.report.account_words import ROUNDED
from noisymean.report.page.palette import colour
from noisymean.run_curves import Growth, RunCurves
from noisymean.words import NONE_KNOWN

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


Values: TypeAlias = NDArray[np.float64]


def styled(figure: Figure, *, x: str, y: str) -> Figure:
    """The look that every figure shares: colours that the page's script knows, the legend below, room for a phone."""
    axis = {
        "gridcolor": colour("grid"),
        "linecolor": colour("line"),
        "zerolinecolor": colour("grid"),
        "automargin": True,
        "ticks": "outside",
        "tickcolor": colour("line"),
        "tickfont": {"size": 12},
    }
    figure.update_layout(
        template="none",
        paper_bgcolor=colour("paper"),
        plot_bgcolor=colour("paper"),
        font={"family": "system-ui, sans-serif", "size": 13, "color": colour("ink")},
        hoverlabel={"bgcolor": colour("panel"), "bordercolor": colour("line"), "font": {"color": colour("ink")}},
        margin={"l": 56, "r": 16, "t": 16, "b": 56},
        legend={"orientation": "h", "yanchor": "top", "y": -0.2, "x": 0.0, "xanchor": "left", "traceorder": "normal"},
        hovermode="closest",
        dragmode=False,
        xaxis={**axis, "title": {"text": x, "standoff": 8}},
        yaxis={**axis, "title": {"text": y, "standoff": 8}},
    )
    return figure


# How each curve looks: apart from its colour, its dashes tell it on a grey print.
_LOOKS: dict[str, dict[str, Any]] = {
    "claimed": {"color": colour("claimed"), "dash": "solid", "width": 2.5},
    "leakage": {"color": colour("leakage"), "dash": "solid", "width": 2.5},
    "guarantee": {"color": colour("guarantee"), "dash": "dash", "width": 2.0},
    "audited": {"color": colour("leakage"), "dash": "solid", "width": 2.5},
    "exact": {"color": colour("exact"), "dash": "dash", "width": 2.0},
}
_ROUNDED: dict[str, Rounding] = {"≤": at_most, "≥": at_least, "=": format}
# On which side of each drawn curve the truth is.
_BETA = {"claimed": "≥", "leakage": "≤", "guarantee": "≥", "audited": "≤", "exact": "="}
# In a legend, after the curves themselves; they have plotly's 1000.
_LAST = 1001


def three_bars(values: Sequence[tuple[str, float | None]], *, quantity: str) -> Figure:
    """Claimed, leakage, guarantee as bars from zero, each with its number; what is not known has no bar."""
    import plotly.graph_objects as go

    names = [name for name, _ in values]
    lengths = [0.0 if value is None else value for _, value in values]
    texts = [NONE_KNOWN if value is None else ROUNDED[name](value, ".4g") for name, value in values]
    figure = go.Figure(
        go.Bar(
            x=lengths,
            y=names,
            orientation="h",
            text=texts,
            textposition="outside",
            cliponaxis=False,
            marker={"color": [_LOOKS[name]["color"] for name in names]},
            hovertemplate=f"%{{y}}: {quantity} = %{{text}}<extra></extra>",
        )
    )
    styled(figure, x=quantity, y="")
    top = max([*lengths, 1e-12])
    figure.update_xaxes(range=[0.0, 1.3 * top], nticks=6)
    figure.update_yaxes(autorange="reversed", showgrid=False, ticks="")
    figure.update_layout(showlegend=False, bargap=0.35)
    return figure


def epsilon_against_steps(growth: Growth) -> Figure:
    """The truth is in the band between leakage and guarantee."""
    import plotly.graph_objects as go

    figure = go.Figure()
    known = np.isfinite(growth.guarantee) & (growth.leakage > 0.0)
    if known.any():
        low, high = growth.leakage[known], growth.guarantee[known]
        _area(figure, "the truth is in here", growth.steps[known], low, high, colour("band"))
    for name, relation in (("claimed", "≤"), ("leakage", "≥"), ("guarantee", "≤")):
        values = getattr(growth, name)
        there = np.isfinite(values) & (values > 0.0)
        if there.any():
            tooltip = f"after %{{x:,}} steps<br>{name}: ε"
            _line(figure, name, growth.steps[there], values[there], tooltip, relation, markers=True)
    styled(figure, x="steps T", y="ε")
    for update, drawn in (
        (figure.update_xaxes, [growth.steps]),
        (figure.update_yaxes, [growth.claimed, growth.leakage, growth.guarantee]),
    ):
        shown = np.concatenate(drawn)
        shown = shown[np.isfinite(shown) & (shown > 0.0)]
        decades = float(np.log10(shown.max() / shown.min())) if shown.size else 0.0
        # one label for each power of ten where there are several of them
        update(type="log", exponentformat="power", dtick=max(1, round(decades / 6)) if decades > 1.5 else None)
    return figure


def tradeoff_curves(curves: RunCurves) -> Figure:
    """False negative rate against false positive rate after all rounds; the violated part is filled."""
    drawn = {"claimed": curves.claimed, "leakage": curves.leakage, "guarantee": curves.guarantee}
    return _rates(curves.alpha, drawn, attack="leakage")


def audited_curve(
    alpha: Sequence[float], audited: Sequence[float], claimed: Sequence[float] | None, exact: Sequence[float] | None
) -> Figure:
    """What was shown by running, between what is claimed and what is true."""
    return _rates(np.asarray(alpha), {"claimed": claimed, "audited": audited, "exact": exact}, attack="audited")


def _rates(alpha: Values, curves: Mapping[str, ArrayLike | None], *, attack: str) -> Figure:
    """Curves of beta, those that there are; filled where an attacker is and the claim says that none can be."""
    import plotly.graph_objects as go

    figure = go.Figure()
    drawn = {name: np.asarray(values) for name, values in curves.items() if values is not None}
    claimed, attacked = drawn.get("claimed"), drawn[attack]
    if claimed is not None and bool((attacked < claimed - 1e-9).any()):
        low = np.minimum(attacked, claimed)
        _area(figure, "the claim is violated", alpha, low, claimed, colour("violated"))
    figure.add_scatter(
        x=[0.0, 1.0],
        y=[1.0, 0.0],
        mode="lines",
        line={"color": colour("chance"), "dash": "dot", "width": 1.0},
        name="blind guessing",
        legendrank=_LAST,
        hoverinfo="skip",
    )
    for name, values in drawn.items():
        tooltip = f"α = %{{x:.4g}}<br>{name}: β"
        _line(figure, name, alpha, values, tooltip, _BETA[name], markers=name == "audited")
    styled(figure, x="false positive rate α", y="false negative rate β")
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(range=[-0.02, 1.02], dtick=0.2, zeroline=False)
    return figure


def _line(figure: Figure, name: str, x: ArrayLike, y: ArrayLike, tooltip: str, relation: str, *, markers: bool) -> None:
    """A curve; its tooltip ends with the value, rounded to the side of the relation."""
    figure.add_scatter(
        x=np.asarray(x, dtype=np.float64),
        y=np.asarray(y, dtype=np.float64),
        name=name,
        mode="lines+markers" if markers else "lines",
        line=_LOOKS[name],
        marker={"color": _LOOKS[name]["color"], "size": 6},
        text=[_ROUNDED[relation](float(value), ".4g") for value in np.ravel(y)],
        hovertemplate=f"{tooltip} {relation} %{{text}}<extra></extra>",
    )


def _area(figure: Figure, name: str, x: Values, low: Values, high: Values, filled: str) -> None:
    """What lies between two curves, which are not drawn themselves."""
    for label, values in (("", low), (name, high)):
        figure.add_scatter(
            x=x,
            y=values,
            mode="lines",
            line={"width": 0},
            fill="tonexty" if label else None,
            fillcolor=filled,
            name=label,
            showlegend=bool(label),
            legendrank=_LAST,
            hoverinfo="skip",
        )
