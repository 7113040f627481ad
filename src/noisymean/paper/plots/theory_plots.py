"""Pictures of computed curves over several settings: rows of numbers in, a figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisymean.outward import at_least
from noisymean.report.plots import STYLES, TEXT, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]
_RDP = ("claimed_rdp", "claimed (RDP accountant)", "#cc79a7", 1.6, (0.0, (2.0, 1.2)))


def one_round_figure(rows: Rows) -> Figure:
    """A line of panels for each mechanism and dimension, a column for each number of records."""
    matplotlib = load_matplotlib()
    lines = list(dict.fromkeys((row["mechanism"], row["sample_rate"], row["dimension"]) for row in rows))
    sizes = list(dict.fromkeys(row["dataset_size"] for row in rows))
    with matplotlib.rc_context(TEXT):
        figure: Figure = matplotlib.figure.Figure(
            figsize=(2.3 * len(sizes) + 0.6, 2.35 * len(lines) + 0.9), layout="constrained"
        )
        figure.suptitle("One round, σ = 10: below the claim is a violation", fontsize=11)
        grid = figure.subplots(len(lines), len(sizes), sharex=True, sharey=True, squeeze=False)
        for line, key in zip(grid, lines, strict=True):
            for axes, size in zip(line, sizes, strict=True):
                mine = [
                    row
                    for row in rows
                    if (row["mechanism"], row["sample_rate"], row["dimension"]) == key and row["dataset_size"] == size
                ]
                _draw(axes, mine, [(s.name, s.label, s.colour, s.width, s.dashes) for s in STYLES])
                axes.set_title(f"N = {size:,}", loc="left")
            line[0].set_ylabel(f"{key[0].upper()}, q = {key[1]}\nn = {key[2]:,}\nfalse negative rate β")
        _finish(figure, grid)
        return figure


def many_rounds_figure(rows: Rows) -> Figure:
    """A panel for each dimension."""
    matplotlib = load_matplotlib()
    dimensions = list(dict.fromkeys(row["dimension"] for row in rows))
    styles = [(s.name, s.label, s.colour, s.width, s.dashes) for s in STYLES if s.name != "guarantee_tight"]
    with matplotlib.rc_context(TEXT):
        figure: Figure = matplotlib.figure.Figure(figsize=(4.0 * len(dimensions) + 0.4, 4.6), layout="constrained")
        steps = rows[0]["steps"]
        figure.suptitle(f"{steps} rounds of FEASGM, |D| = 140,199, q = 0.005, σ = 10", fontsize=11)
        grid = figure.subplots(1, len(dimensions), sharex=True, sharey=True, squeeze=False)
        for axes, dimension in zip(grid[0], dimensions, strict=True):
            mine = [row for row in rows if row["dimension"] == dimension]
            _draw(axes, mine, [*styles, _RDP])
            first = mine[0]
            axes.set_title(
                f"n = {dimension:,}: ε ≥ {at_least(first['epsilon_leakage'], '.4g')} at δ = 1e-5, RDP says"
                f" {first['epsilon_reported_rdp']:.3g}",
                loc="left",
            )
        grid[0][0].set_ylabel("false negative rate β")
        _finish(figure, grid)
        return figure


def _draw(axes: Axes, rows: Rows, styles: Sequence[tuple[str, str, str, float, Any]]) -> None:
    alpha = [row["alpha"] for row in rows]
    for column, label, colour, width, dashes in styles:
        label = "guarantee" if label == "guarantee (paper)" and "guarantee_tight" not in rows[0] else label
        axes.plot(alpha, [row[column] for row in rows], color=colour, lw=width, ls=dashes, label=label)
    axes.set(xlim=(-0.02, 1), ylim=(-0.02, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


def _finish(figure: Figure, grid: Any) -> None:
    for axes in grid[-1]:
        axes.set_xlabel("false positive rate α")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, handlelength=3.4)
