"""How the experiments draw: one canvas for all pictures, and panels of trade-off curves side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, final

from noisymean.paper.rows import Table
from noisymean.report.plots import TEXT, Style, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    # names for annotations: matplotlib is loaded when something is drawn
    Axes = Figure = Any

BETA = "false negative rate β"


@contextmanager
def canvas(width: float, height: float, title: str) -> Iterator[Figure]:
    """An empty figure of so many inches, to be drawn upon with the fonts that all figures share."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(TEXT):
        figure: Figure = matplotlib.figure.Figure(figsize=(width, height), layout="constrained")
        figure.suptitle(title, fontsize=11)
        yield figure


def unit_square(axes: Axes, edge: float = 0.0) -> None:
    """Both axes from 0 to 1; `edge` leaves room for a curve that runs along an axis."""
    axes.set(xlim=(-edge, 1), ylim=(-edge, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


@final
@dataclass(frozen=True)
class Panel:
    """The curves of one setting. `left` is written beside the axis if the panel is the first of its line."""

    rows: Table
    title: str
    left: str = BETA
    inside: str = ""


def curve_panels(
    title: str,
    lines: Sequence[Sequence[Panel]],
    styles: Sequence[Style],
    *,
    panel: tuple[float, float],
    legend_columns: int,
) -> Figure:
    """Trade-off curves, a panel for each setting, in inches of `panel`; the styles name the columns that are drawn."""
    across = len(lines[0])
    with canvas(panel[0] * max(across, 2) + 0.5, panel[1] * len(lines) + 0.9, title) as figure:
        grid = figure.subplots(len(lines), across, sharex=True, sharey=True, squeeze=False)
        for axes, one in zip(grid.flat, chain.from_iterable(lines), strict=True):
            _draw_curves(axes, one, styles)
        for axes, (first, *_) in zip(grid[:, 0], lines, strict=True):
            axes.set_ylabel(first.left)
        for axes in grid[-1]:
            axes.set_xlabel("false positive rate α")
        shown = grid[0][0].get_legend_handles_labels()
        figure.legend(*shown, loc="outside lower center", ncols=legend_columns, frameon=False, handlelength=3.4)
    return figure


def _draw_curves(axes: Axes, panel: Panel, styles: Sequence[Style]) -> None:
    alpha = panel.rows.numbers("alpha")
    for style in styles:
        curve = panel.rows.numbers(style.name)
        axes.plot(alpha, curve, color=style.colour, lw=style.width, ls=style.dashes, label=style.label)
    unit_square(axes, edge=0.02)
    axes.set_title(panel.title, loc="left", fontsize=8.5 if "\n" in panel.title else None)
    axes.text(0.97, 0.95, panel.inside, ha="right", va="top", fontsize=7.5)
