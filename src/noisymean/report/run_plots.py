"""Figures of a whole run: epsilon against steps as a band, and the trade-off curves after all rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from noisymean.accounts import Account
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.report.plots import ALPHA, BELOW, STYLES, as_rates, canvas, line, load_matplotlib, shade
from noisymean.run_curves import Growth, RunCurves, growth, run_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Numbers of steps at which epsilon is drawn.
POINTS = 12
# By how much a curve must be below the claim for the area between them to be seen.
_SEEN = 1e-9
_LOOKS = {style.name: style for style in STYLES}
# The guarantee of a run is the best that is known: it looks like the tight one of a round.
_STYLES = (
    _LOOKS["claimed"],
    _LOOKS["leakage"],
    replace(_LOOKS["guarantee_tight"], name="guarantee", label="guarantee"),
)


def account_figure(
    mechanism: Mechanism,
    steps: int,
    delta: float,
    *,
    progress: Callable[[Account], None] = lambda _: None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Figure:
    """`run_figure` with everything worked out; `progress` is told after each number of steps."""
    load_matplotlib()
    # of the noisy sum a record that is zero and one that is not there are the same, and it was made of neighbours of one size
    growing = None if mechanism.is_poisson else adjacency
    grown = growth(mechanism, steps=steps, delta=delta, points=POINTS, progress=progress, adjacency=growing)
    return run_figure(mechanism, grown, run_curves(mechanism, ALPHA, steps=steps, adjacency=adjacency), delta=delta)


def run_figure(mechanism: Mechanism, growth: Growth, curves: RunCurves, *, delta: float) -> Figure:
    """Left: epsilon against steps, the truth between leakage and guarantee. Right: the curves after the last step."""
    with canvas(9.2, 4.5) as figure:
        steps = int(growth.steps[-1])
        figure.suptitle(f"{mechanism.in_a_line()}, T = {steps:,}, δ = {delta:g}", fontsize=11)
        left, right = figure.subplots(1, 2)
        _draw_growth(left, growth)
        _draw_curves(right, curves)
        right.set_title(f"trade-off curves after {steps:,} steps", loc="left")
        figure.legend(*left.get_legend_handles_labels(), **BELOW)
        return figure


def _draw_growth(axes: Axes, growth: Growth) -> None:
    known = np.isfinite(growth.guarantee)
    if known.any():
        axes.fill_between(
            growth.steps,
            growth.leakage,
            growth.guarantee,
            where=known.tolist(),
            color="#cfe6f5",
            lw=0.0,
            label="the truth is in here",
        )
    for style in _STYLES:
        line(axes, style, growth.steps, getattr(growth, style.name), marker=".", ms=4)
    # where nothing is lost there is nothing to draw on a scale of powers
    lost = any((getattr(growth, style.name) > 0.0).any() for style in _STYLES)
    axes.set(xscale="log", xlabel="steps T", ylabel="ε")
    if lost:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0.0, 1.0)
    axes.set_title("ε against steps" + ("" if known.any() else " (no guarantee is known)"), loc="left")
    axes.grid(visible=True, which="major", lw=0.3, color="#cccccc")


def _draw_curves(axes: Axes, curves: RunCurves) -> None:
    below = curves.leakage < curves.claimed - _SEEN
    if below.any():
        shade(axes, curves.alpha, curves.leakage, curves.claimed, below)
        axes.text(0.97, 0.97, "hatched: claim violated", ha="right", va="top", color="#a04000")
    for style in _STYLES:
        if (values := getattr(curves, style.name)) is not None:
            line(axes, style, curves.alpha, values)
    as_rates(axes)
