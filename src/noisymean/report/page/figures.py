"""Plotly figures in the colours of the page. Text that a user supplied never enters one: plotly reads tags in its labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noisymean.outward import Rounding, at_least, at_most
from noisymean.report.page.axes import SEEN, around, linear_axis, log_axis
from noisymean.report.page.palette import colour
from noisymean.run_curves import Growth, RunCurves
from noisymean.written import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


Values: TypeAlias = NDArray[np.float64]


def styled(figure: Figure, *, x: str, y: str) -> Figure:
    """The look that every figure shares: colours that the page's script knows, the legend above, room for a phone."""
    axis = {
        "gridcolor": colour("grid"),
        "linecolor": colour("line"),
        "zerolinecolor": colour("grid"),
        "automargin": True,
        "ticks": "outside",
        "tickcolor": colour("line"),
    }
    figure.update_layout(
        template="none",
        paper_bgcolor=colour("paper"),
        plot_bgcolor=colour("paper"),
        font={"family": "system-ui, sans-serif", "size": 12, "color": colour("ink")},
        hoverlabel={"bgcolor": colour("panel"), "bordercolor": colour("line"), "font": {"color": colour("ink")}},
        margin={"l": 56, "r": 16, "t": 16, "b": 56},
        # above: below, it would lie on the axis where a picture is low
        legend={
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.02,
            "x": 0.0,
            "xanchor": "left",
            "traceorder": "normal",
        },
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
ROUNDED: dict[str, Rounding] = {"≤": at_most, "≥": at_least, "=": format, "≈": format}
# On which side of each drawn curve the truth is.
_BETA = {"claimed": "≥", "leakage": "≤", "guarantee": "≥", "audited": "≤", "exact": "="}
# A picture of rare rates reaches down so far at least, and at most.
_RARE, _RAREST = 1e-6, 1e-300
# Curves that are nowhere further from the claim than this are one line in a picture from 0 to 1.
# Less than this is no distance, and neither is this part of the claim's own distance from blind guessing.
_ALIKE, _ROUNDING, _PART = 0.02, 1e-6, 0.02
# In a legend, after the curves themselves; they have plotly's 1000.
_LAST = 1001


def grows(growth: Growth) -> bool:
    """Whether there is something to draw against steps: more than one number of them, and something that is lost."""
    values = np.concatenate([growth.claimed, growth.leakage, growth.guarantee])
    return growth.steps.size > 1 and bool((values[np.isfinite(values)] > SEEN).any())


def epsilon_against_steps(growth: Growth) -> Figure:
    """The truth is in the band between leakage and guarantee."""
    import plotly.graph_objects as go

    figure = go.Figure()
    known = np.isfinite(growth.guarantee) & (growth.leakage > SEEN)
    if known.any():
        low, high = growth.leakage[known], growth.guarantee[known]
        _area(figure, "the truth", growth.steps[known], low, high, colour("band"))
    for name, relation in (("claimed", "≤"), ("leakage", "≥"), ("guarantee", "≤")):
        values = getattr(growth, name)
        there = np.isfinite(values) & (values > SEEN)
        if there.any():
            tooltip = f"after %{{customdata}} steps<br>{name}: ε"
            counts = [f"{int(count):,}" for count in growth.steps[there]]
            line(figure, name, growth.steps[there], values[there], tooltip, relation, named=counts, markers=True)
    styled(figure, x="steps T", y="ε")
    figure.update_xaxes(**_powers([growth.steps], 6))
    figure.update_yaxes(**_powers([growth.claimed, growth.leakage, growth.guarantee], 6))
    return figure


def _powers(drawn: Sequence[Values], most: int) -> dict[str, Any]:
    """The axis of powers that all of these fit on; where nothing is lost there is nothing to draw, and any will do."""
    values = np.concatenate(drawn)
    values = values[np.isfinite(values) & (values > SEEN)]
    return log_axis(*around(values.tolist() or [1.0], 0.06, 0.06, 0.3), most)


def tradeoff_curves(curves: RunCurves) -> Figure:
    """False negative rate against false positive rate after all rounds; the violated part is filled."""
    drawn = {"claimed": curves.claimed, "leakage": curves.leakage, "guarantee": curves.guarantee}
    return _rates(curves.alpha, drawn, attack="leakage")


def rarely_wrong(curves: RunCurves) -> float | None:
    """A bound on both error rates of one attacker; None where it is beyond what a double holds."""
    return _meeting(curves.alpha, curves.leakage)


def violated(curves: RunCurves) -> bool:
    """Whether an attacker is somewhere where the claim says that none can be."""
    return bool((curves.leakage < curves.claimed - _ROUNDING).any())


def _meeting(alpha: Values, beta: Values) -> float | None:
    """Where the larger of the two error rates is least."""
    held = beta > 0.0
    return float(np.min(np.maximum(alpha, beta)[held])) if held.any() else None


def rare_tradeoff(curves: RunCurves) -> Figure:
    """The same on scales of powers, for curves that lie in the corner: claim and leakage.

    Down to where the two errors meet, and half as many powers more; where no double holds that, far enough to show the claim.
    """
    import plotly.graph_objects as go

    figure, wrong = go.Figure(), rarely_wrong(curves)
    deep = (_meeting(curves.alpha, curves.claimed) or 1.0) ** 3 if wrong is None else wrong**1.5
    least = min(max(deep, _RAREST), _RARE)
    if bool((curves.leakage < curves.claimed).any()):
        low = np.maximum(curves.leakage, 0.1 * least)
        _area(figure, "claim violated", curves.alpha, low, curves.claimed, colour("violated"))
    for name in ("claimed", "leakage"):
        values = getattr(curves, name)
        held = values > 0.0
        if held.any():
            _rate_line(figure, name, curves.alpha[held], values[held])
    styled(figure, x="false positive rate α", y="false negative rate β")
    axis = log_axis(least, 3.0 if least > 1e-20 else 1e3, 5)
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure


def alike(curves: RunCurves) -> bool:
    """Whether a picture from 0 to 1 shows one line only, although the curves are not the same."""
    furthest = max(float(np.max(np.abs(values))) for values in _distances(curves).values())
    told = float(np.max(1.0 - curves.alpha - curves.claimed))
    return max(_ROUNDING, _PART * told) < furthest < _ALIKE


def below_the_claim(curves: RunCurves) -> Figure:
    """By how much the false negatives of each curve are below those that are claimed; the violated part is filled."""
    import plotly.graph_objects as go

    figure, distances = go.Figure(), _distances(curves)
    leaked = distances["leakage"]
    if bool((leaked > _ROUNDING).any()):
        _area(
            figure, "claim violated", curves.alpha, np.zeros_like(leaked), np.maximum(leaked, 0.0), colour("violated")
        )
    alphas = [plain(f"{value:.4g}") for value in curves.alpha]
    for name, values in distances.items():
        # a difference of two bounds has no side to be rounded to
        tooltip = f"α = %{{customdata}}<br>{name}: claimed β − β"
        line(figure, name, curves.alpha, values, tooltip, "≈", named=alphas, markers=False)
    styled(figure, x="false positive rate α", y="claimed β − curve's β")
    low, high = (float(reach(list(distances.values()))) for reach in (np.min, np.max))
    room = 0.08 * (max(high, 0.0) - min(low, 0.0))
    figure.update_xaxes(range=[-0.02, 1.02], dtick=0.2, zeroline=False)
    figure.update_yaxes(**linear_axis(min(low, 0.0) - room, max(high, 0.0) + room, 5))
    figure.add_hline(y=0.0, line={"color": colour("claimed"), "width": 2})
    return figure


def _distances(curves: RunCurves) -> dict[str, Values]:
    drawn = {"leakage": curves.leakage, "guarantee": curves.guarantee}
    return {name: curves.claimed - values for name, values in drawn.items() if values is not None}


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
        _area(figure, "claim violated", alpha, low, claimed, colour("violated"))
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
        _rate_line(figure, name, alpha, values, markers=name == "audited")
    styled(figure, x="false positive rate α", y="false negative rate β")
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(range=[-0.02, 1.02], dtick=0.2, zeroline=False)
    return figure


def _rate_line(figure: Figure, name: str, alpha: Values, beta: Values, *, markers: bool = False) -> None:
    alphas = [plain(f"{value:.4g}") for value in alpha]
    tooltip = f"α = %{{customdata}}<br>{name}: β"
    line(figure, name, alpha, beta, tooltip, _BETA[name], named=alphas, markers=markers)


def line(
    figure: Figure,
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    tooltip: str,
    relation: str,
    *,
    named: Sequence[str],
    markers: bool,
) -> None:
    """A curve; its tooltip has the name of the point and ends with the value, rounded to the side of the relation."""
    figure.add_scatter(
        x=np.asarray(x, dtype=np.float64),
        y=np.asarray(y, dtype=np.float64),
        name=name,
        mode="lines+markers" if markers else "lines",
        line=_LOOKS[name],
        marker={"color": _LOOKS[name]["color"], "size": 6},
        customdata=list(named),
        text=[said(float(value), relation) for value in np.ravel(y)],
        hovertemplate=f"{tooltip} {relation} %{{text}}<extra></extra>",
    )


def said(value: float, relation: str) -> str:
    """Four digits, rounded to the side of the relation, as people write them; what is not known is not said."""
    return "" if math.isnan(value) else plain(ROUNDED[relation](value, ".4g"))


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
