"""Plotly figures in the colours of the page. Text that a user supplied never enters one: plotly reads tags in its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisymean.report.page.palette import colour

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def styled(figure: Figure, *, x: str, y: str) -> Figure:
    """The look that every figure shares: colours that the page's script knows, the legend below, room for a phone."""
    axis = {
        "gridcolor": colour("grid"),
        "linecolor": colour("line"),
        "zerolinecolor": colour("grid"),
        "automargin": True,
        "ticks": "outside",
        "tickcolor": colour("line"),
        "title": {"standoff": 8},
    }
    figure.update_layout(
        template="none",
        paper_bgcolor=colour("paper"),
        plot_bgcolor=colour("paper"),
        font={"family": "system-ui, sans-serif", "size": 13, "color": colour("ink")},
        hoverlabel={"bgcolor": colour("panel"), "bordercolor": colour("line"), "font": {"color": colour("ink")}},
        margin={"l": 56, "r": 16, "t": 16, "b": 56},
        legend={"orientation": "h", "yanchor": "top", "y": -0.2, "x": 0.0, "xanchor": "left"},
        hovermode="closest",
        dragmode=False,
        xaxis={**axis, "title": {"text": x, "standoff": 8}},
        yaxis={**axis, "title": {"text": y, "standoff": 8}},
    )
    return figure
