"""The likelihood of each denominator that a finished run could have had, and where the asked N and its neighbours are."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from noisymean.errors import Undefined
from noisymean.finished.found import FinishedRun, Size

BLUE, ORANGE, GREY = "#0b5fa5", "#c8500a", "#666666"
# Below this many powers of e there is nothing left to see.
_DEPTH = 30.0


def figure(run: FinishedRun) -> Figure:
    """One panel, of a size for a page."""
    made = Figure(figsize=(7.2, 3.9), layout="constrained")
    draw(made.add_subplot(), run)
    return made


def draw(axes: Axes, run: FinishedRun, title: str = "", ends: tuple[float, float] | None = None) -> None:
    """The panel by itself; from one end to the other, so that panels may share them."""
    interval = run.interval
    if interval is None:
        raise Undefined(
            "checkpoints", "noise that is not the same in all steps", "of one denominator", "nothing to draw"
        )
    low, high = interval
    sizes = [] if run.sure is None else [run.sure.smaller, run.sure.asked, run.sure.larger]
    marked = [one for one in sizes if one.denominator is not None]
    places = [float(one.denominator) for one in marked if one.denominator is not None]
    near = [one for one in places if abs(one - (low + high) / 2.0) < 12.0 * (high - low)]
    first, last = min([low, *near]), max([high, *near])
    pad = 0.18 * (last - first)
    grid = np.linspace(*(ends or (first - pad, last + pad)), 1201)
    likelihood = np.array([max(run.log_likelihood(float(c)), -_DEPTH) for c in grid])
    axes.axvspan(low, high, color=BLUE, alpha=0.10, lw=0)
    axes.plot(grid, likelihood, color=BLUE, lw=2.0)
    axes.axhline(-math.log(20.0), color=GREY, lw=0.8, ls=":")
    axes.text(grid[0], -math.log(20.0) + 0.4, "1 in 20", color=GREY, fontsize=8, va="bottom")
    for place, one in enumerate(sorted(marked, key=lambda one: one.records)):
        _mark(axes, run, one, place, (grid[0], grid[-1]))
    axes.set(
        xlabel="denominator", ylabel="log-likelihood", xlim=(grid[0], grid[-1]), ylim=(-_DEPTH, 14.0), yticks=(0, -10, -20, -30)
    )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title or f"{run.gradients:,} updates of {run.parameters:,} parameters", loc="left", fontsize=11)


def _mark(axes: Axes, run: FinishedRun, one: Size, place: int, ends: tuple[float, float]) -> None:
    """A line at the denominator of an N, with its name on a row of its own."""
    assert one.denominator is not None
    c = float(one.denominator)
    if not ends[0] <= c <= ends[1]:
        return
    asked = run.sure is not None and one is run.sure.asked
    axes.plot([c, c], [-_DEPTH, 2.0 + 4.0 * place], color=ORANGE if asked else GREY, lw=1.6 if asked else 1.0)
    right = c > (ends[0] + ends[1]) / 2.0
    axes.text(
        c, 2.0 + 4.0 * place, f" N = {one.records:,}: {c:g} ", color=ORANGE if asked else GREY,
        ha="right" if right else "left", va="center", fontsize=9, fontweight="bold" if asked else "normal",
    )  # fmt: skip
