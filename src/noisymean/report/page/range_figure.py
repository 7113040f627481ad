"""Ranges drawn with plotly: a bar from what certainly leaks to what is certainly not exceeded, a tick where the claim is.

The numbers and their words are `report.ranges`; here they are placed so that labels never lie on each other: the claim's above
its tick, the leakage's to the left of the bar, the guarantee's to its right. A bar whose end is not known runs to the edge as an
arrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from noisymean.report.page.axes import SEEN, around, linear_axis, log_axis
from noisymean.report.page.figures import styled
from noisymean.report.page.palette import colour
from noisymean.report.page.rendering import Block, figure_block
from noisymean.report.ranges import Range
from noisymean.written import unbroken

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Numbers further apart than this by a factor are on a scale of powers.
_FAR = 8.0
# On either side so many spans of the numbers are left for words.
_SIDE, _ARROW = 0.42, 0.65
# The tick of a claim, and in pixels how far it reaches, 1.4 times half of that: what is said stands above and below it.
_TICK, _REACH = 22, 16
_COLOURS = {"violated": "leakage", "holds": "guarantee", "undetermined": "unknown"}


@final
@dataclass(frozen=True)
class _Scale:
    """An axis, and where on it what has no number is drawn."""

    axis: dict[str, Any]
    start: float
    end: float
    powers: bool

    @classmethod
    def of(cls, ranges: Sequence[Range], greatest: float) -> _Scale:
        """Powers where the numbers are far apart; from zero where they are not."""
        positive = [value for one in ranges for value in one.numbers if value > SEEN]
        right = _ARROW if any(one.high is None for one in ranges) else _SIDE
        if positive and max(positive) / min(positive) > _FAR:
            start, end = around(positive, _SIDE, right)
            return cls(_upto(log_axis(start, end, 7), greatest), start, end, True)
        most = max(positive, default=1.0)
        start, end = -_SIDE * most, (1.0 + right) * most
        ticks = {**linear_axis(0.0, min(end, greatest), 5), "range": [start, end]}
        return cls(ticks, start, end, False)

    def inside(self, value: float | None) -> float:
        """What is not known, or beyond a double, is at the edge; zero on a scale of powers is at its start."""
        return self.end if value is None else min(max(value, self.start), self.end)

    def noted(self, place: float) -> float:
        """Where a note is put: plotly wants the logarithm there."""
        return math.log10(place) if self.powers else place


def _upto(axis: dict[str, Any], greatest: float) -> dict[str, Any]:
    """The ticks that the quantity can reach: no delta is above 1."""
    kept = [(tick, text) for tick, text in zip(axis["tickvals"], axis["ticktext"], strict=True) if tick <= greatest]
    return {**axis, "tickvals": [tick for tick, _ in kept], "ticktext": [text for _, text in kept]}


def range_bars(ranges: Sequence[Range], *, quantity: str) -> Figure:
    """One bar above the other, in the order that is given."""
    import plotly.graph_objects as go

    scale, figure = _Scale.of(ranges, 1.0 if quantity == "δ" else math.inf), go.Figure()
    named = any(one.label for one in ranges)
    for place, one in enumerate(ranges):
        # the name of a bar is above it: beside it there is no room on a phone
        _draw(figure, scale, -float(place), one, quantity)
        if one.label:
            figure.add_annotation(
                x=0.0,
                xref="paper",
                y=-float(place),
                text=_bold(one.label),
                showarrow=False,
                xanchor="left",
                yanchor="bottom",
                yshift=35,
            )
    styled(figure, x=f"{quantity} that is lost", y="")
    figure.update_xaxes(**scale.axis)
    figure.update_yaxes(range=[-len(ranges) + (0.42 if named else 0.25), 0.5 if named else 0.62], visible=False)
    figure.update_layout(showlegend=False, margin={"l": 12, "r": 12, "t": 8, "b": 48})
    return figure


def range_block(ranges: Sequence[Range], *, quantity: str, name: str, caption: str) -> Block:
    """The figure in a page: rows that have names are higher, and not made smaller on paper."""
    several = any(one.label for one in ranges)
    height = f"{5.0 + 6.6 * len(ranges) if several else 12.0:g}rem"
    return figure_block(
        range_bars(ranges, quantity=quantity),
        name=name,
        caption=caption,
        height=height,
        on_paper=0.9 if several else 0.74,
    )


def _draw(figure: Figure, scale: _Scale, place: float, one: Range, quantity: str) -> None:
    low, high, claimed = (scale.inside(value) for value in (one.low, one.high, one.claimed))
    tone, known = colour(_COLOURS[one.verdict]), one.high is not None
    hover = _hover(one, quantity)

    def mark(x: float, **marker: Any) -> None:
        figure.add_scatter(
            x=[x],
            y=[place],
            mode="markers",
            marker=marker,
            text=[hover],
            hovertemplate="%{text}<extra></extra>",
            cliponaxis=False,
        )

    if one.verdict == "violated":
        # what is lost and was not claimed
        _segment(figure, claimed, low, place, color=tone, width=2, dash="dot")
    _segment(figure, low, high, place, color=tone, width=14, dash="solid" if known else "2px,3px")
    mark(low, symbol="line-ns", size=16, line={"color": tone, "width": 5})
    if known:
        mark(high, symbol="line-ns", size=16, line={"color": tone, "width": 5})
    else:
        mark(high, symbol="triangle-right", size=18, color=tone)
    mark(claimed, symbol="line-ns", size=_TICK, line={"color": colour("claimed"), "width": 3})
    _label(figure, scale.noted(claimed), place, f"claimed {_bold(one.claimed_text)}", one.claimed is None, above=True)
    least, most = f"at least<br>{_bold(one.low_text)}", f"at most<br>{_bold(one.high_text)}"
    if one.low is None and not known:
        # both are beyond the edge, one line each
        both = f"at least {_bold(one.low_text)}<br>at most {_bold(one.high_text)}"
        _label(figure, scale.noted(low), place, both, True)
        return
    _label(figure, scale.noted(low), place, least, True)
    _label(figure, scale.noted(high), place, most, not known)


def _bold(text: str) -> str:
    return f"<b>{unbroken(text)}</b>"


def _segment(figure: Figure, start: float, end: float, place: float, **line: Any) -> None:
    figure.add_scatter(x=[start, end], y=[place, place], mode="lines", line=line, hoverinfo="skip")


def _label(figure: Figure, x: float, place: float, text: str, leftwards: bool, *, above: bool = False) -> None:
    """Words beside a mark: above it in the middle, or below it to one side; at the edge of the picture to the left."""
    anchor = "right" if leftwards else "center" if above else "left"
    figure.add_annotation(
        x=x,
        y=place,
        text=text,
        showarrow=False,
        xanchor=anchor,
        yanchor="bottom" if above else "top",
        xshift={"right": -5, "center": 0, "left": 5}[anchor],
        yshift=_REACH + 1 if above else -_REACH,
        align=anchor,
        font={"color": colour("ink")},
    )


def _hover(one: Range, quantity: str) -> str:
    """All three, under the pointer."""
    known = f"≤ {one.high_text}" if one.high is not None else one.high_text
    return (
        f"{f'{one.label}: ' if one.label else ''}{quantity}<br>claimed ≤ {one.claimed_text}"
        f"<br>leakage ≥ {one.low_text}<br>guarantee {known}"
    )
