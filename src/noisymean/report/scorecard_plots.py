"""Figures of scorecards: a row for each pitfall, a column for each outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisymean.report.plots import canvas
from noisymean.scorecard.value import Outcome, Scorecard

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Told apart by people who do not see all colours, and by their column.
_COLOURS = {Outcome.PASSED: "#009e73", Outcome.FOUND: "#d55e00", Outcome.NOT_CHECKABLE: "#999999"}


def scorecard_figure(card: Scorecard) -> Figure:
    """A mark for each pitfall, in the column of its outcome."""
    with canvas(6.4, 1.2 + 0.28 * len(card.rows)) as figure:
        axes = figure.subplots()
        axes.set_title(card.last, loc="left")
        columns = list(Outcome)
        for place, one in enumerate(reversed(card.rows)):
            axes.plot([columns.index(one.outcome)], [place], color=_COLOURS[one.outcome], marker="s", ms=9.0)
        axes.set_yticks(range(len(card.rows)), [f"{one.pitfall.id} {one.pitfall.name}" for one in reversed(card.rows)])
        axes.set_xticks(range(len(columns)), [one.value for one in columns])
        axes.set_xlim(-0.5, len(columns) - 0.5)
        return figure
