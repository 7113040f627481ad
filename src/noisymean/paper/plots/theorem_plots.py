"""A picture of statements with two sides: rows of numbers in, a figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisymean.report.plots import TEXT, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 6
_SIGNS = {"<=": "≤", "=": "="}
_HOLDS, _FAILS = "#0072b2", "#d55e00"


def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel for each statement: what is said to be smaller against what is said to be larger, and the diagonal."""
    matplotlib = load_matplotlib()
    names = list(dict.fromkeys(row["theorem"] for row in rows))
    lines = -(-len(names) // _COLUMNS)
    with matplotlib.rc_context(TEXT):
        drawn: Figure = matplotlib.figure.Figure(figsize=(1.9 * _COLUMNS, 2.0 * lines + 0.8), layout="constrained")
        drawn.suptitle(
            "Each dot is one evaluation: blue, as stated (≤: on or below the diagonal; =: on it); orange cross, not",
            fontsize=11,
        )
        grid = drawn.subplots(lines, _COLUMNS, squeeze=False)
        for axes, name in zip(grid.flat, names, strict=False):
            mine = [row for row in rows if row["theorem"] == name]
            _draw(axes, mine)
            sign = _SIGNS[mine[0]["relation"]]
            axes.set_title(f"{name}\nleft {sign} right", fontsize=7.5, loc="left")
        for axes in grid.flat[len(names) :]:
            axes.set_axis_off()
        drawn.supxlabel("right side", fontsize=9.5)
        drawn.supylabel("left side", fontsize=9.5)
        return drawn


def _draw(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.plot([0.0, 1.0], [0.0, 1.0], color="#767676", lw=0.8, zorder=1)
    for fails, colour, marker in ((False, _HOLDS, "o"), (True, _FAILS, "X")):
        mine = [row for row in rows if _fails(row) == fails]
        axes.scatter(
            [row["right"] for row in mine],
            [row["left"] for row in mine],
            s=12.0 if fails else 6.0,
            marker=marker,
            color=colour,
            linewidths=0.0,
            zorder=3 if fails else 2,
            clip_on=False,
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


def _fails(row: Mapping[str, Any]) -> bool:
    difference = row["left"] - row["right"]
    return bool((abs(difference) if row["relation"] == "=" else difference) > row["tolerance"])
