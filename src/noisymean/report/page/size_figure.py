"""What is lost against the number of records: where one record more moves the denominator the curve has teeth.

Only what was computed is drawn: a stem for each number of records that was looked at, and no line from one tooth to the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from noisymean.report.page.axes import SEEN, around, linear_axis, log_axis
from noisymean.report.page.figures import Values, said, styled
from noisymean.report.page.palette import colour
from noisymean.size_curves import SizeCurve
from noisymean.words import BEYOND_DOUBLES

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Numbers further apart than this by a factor are on a scale of powers.
_FAR = 8.0
# How a verdict looks beside the number of records at which it was reached.
_VERDICTS: dict[str, dict[str, Any]] = {
    "violated": {"symbol": "circle", "color": colour("leakage")},
    "holds": {"symbol": "circle-open", "color": colour("good")},
    "undetermined": {"symbol": "diamond-open", "color": colour("unknown")},
}


def against_size(found: SizeCurve) -> Figure:
    """The three numbers at each number of records that was looked at; the user's own is marked."""
    import plotly.graph_objects as go

    figure, answers = go.Figure(), [answer for _, answer in found.answers]
    sizes = np.array([size for size, _ in found.answers], dtype=np.float64)
    symbol = "ε" if answers[0].asked_delta else "δ"
    three = {
        name: np.array([_number(answer.value(getattr(answer, name))) for answer in answers])
        for name in ("claimed", "leakage", "guarantee")
    }
    scale, base, top = _heights(three)
    # what is beyond double precision is at the upper edge, zero on a scale of powers at the lower one
    heights = np.maximum(np.nan_to_num(three["leakage"], nan=top), base)
    if found.stepped:
        # between two teeth nothing was looked at: stems, and no line that would say something of them
        _thin(figure, x=np.repeat(sizes, 3), y=np.ravel([[base, height, math.nan] for height in heights]))
    else:
        _thin(figure, x=sizes, y=heights)
    _level(figure, "claimed", sizes, three["claimed"], symbol, width=2.0, size=18)
    _level(figure, "guarantee", sizes, three["guarantee"], symbol, width=2.5, size=11)
    for verdict, look in _VERDICTS.items():
        here = np.array([answer.verdict == verdict for answer in answers])
        if here.any():
            figure.add_scatter(
                x=sizes[here],
                y=heights[here],
                mode="markers",
                name=f"leakage, {verdict}",
                marker={**look, "opacity": 1.0, "size": np.where(sizes[here] == found.size, 15, 9)},
                text=[said(value, "≥") or BEYOND_DOUBLES for value in three["leakage"][here]],
                hovertemplate=f"N = %{{x:,}}: {verdict}<br>leakage: {symbol} ≥ %{{text}}<extra></extra>",
            )
    styled(figure, x="records N", y=symbol)
    margin = 0.06 * max(float(np.ptp(sizes)), 1.0)
    figure.update_xaxes(**linear_axis(float(sizes.min()) - margin, float(sizes.max()) + margin, 5))
    figure.update_yaxes(**scale)
    figure.add_vline(x=found.size, line={"color": colour("chance"), "dash": "dot", "width": 1})
    figure.add_annotation(
        x=found.size,
        y=1.0,
        yref="paper",
        yanchor="top",
        # towards the middle of the picture
        xanchor="left" if found.size <= sizes.mean() else "right",
        text=f" your N = {found.size:,} ",
        showarrow=False,
    )
    return figure


def _thin(figure: Figure, **where: Values) -> None:
    look = {"color": colour("leakage"), "width": 1.5}
    figure.add_scatter(**where, mode="lines", line=look, showlegend=False, hoverinfo="skip")


def _level(figure: Figure, name: str, sizes: Values, values: Values, symbol: str, *, width: float, size: int) -> None:
    """A short mark at each number of records that was looked at."""
    figure.add_scatter(
        x=sizes,
        y=values,
        mode="markers",
        name=name,
        marker={"symbol": "line-ew", "size": size, "line": {"color": colour(name), "width": width}},
        text=[said(value, "≤") for value in values],
        hovertemplate=f"N = %{{x:,}}<br>{name}: {symbol} ≤ %{{text}}<extra></extra>",
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _heights(three: Mapping[str, Values]) -> tuple[dict[str, Any], float, float]:
    """The axis of what is lost, what stems stand on and how far they reach: powers where the numbers are far apart."""
    values = np.concatenate(list(three.values()))
    positive = values[np.isfinite(values) & (values > SEEN)]
    if positive.size and positive.max() / positive.min() > _FAR:
        low, high = around(positive.tolist(), 0.12, 0.2)
        return log_axis(low, high, 5), low, high
    high = 1.25 * float(np.max(positive, initial=0.0)) or 1.0
    return linear_axis(0.0, high, 5), 0.0, high
