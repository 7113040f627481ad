"""Pictures of the experiments: rows of numbers in, a figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisymean.report.plots import TEXT, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]
# From pale to dark with the rate; told apart by their markers as well.
_SHADES = ("#fdc086", "#f39b4c", "#e06f2c", "#bf4b1b", "#8f3212", "#5a1d0a")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DISTINGUISHERS = {
    "paper-ks": "the paper's vote, Kolmogorov–Smirnov",
    "paper-chi2": "the paper's vote, χ² of the norm",
    "likelihood-ratio": "likelihood ratio",
}
_CLAIMED, _AUDITED, _EXACT, _VOTE = "#000000", "#d55e00", "#0072b2", "#009e73"


def delta_figure(rows: Rows) -> Figure:
    """delta_L(0) against N: a row for each distinguisher, a column for each mechanism, the truth dashed."""
    matplotlib = load_matplotlib()
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in rows))
    with matplotlib.rc_context(TEXT):
        figure: Figure = matplotlib.figure.Figure(figsize=(8.6, 8.6), layout="constrained")
        trials = {name: next(row["trials"] for row in rows if row["distinguisher"] == name) for name in _DISTINGUISHERS}
        figure.suptitle("Audited δ at ε = 0, n = 100, σ = 10, 95 % confidence; dashed: the truth", fontsize=11)
        grid = figure.subplots(len(_DISTINGUISHERS), len(mechanisms), sharex=True, sharey=True, squeeze=False)
        for line, (name, label) in zip(grid, _DISTINGUISHERS.items(), strict=True):
            for axes, mechanism in zip(line, mechanisms, strict=True):
                _draw_delta(
                    axes, [row for row in rows if row["mechanism"] == mechanism and row["distinguisher"] == name]
                )
                axes.set_title(f"{mechanism.upper()}: {label}, {trials[name]:,} trials", loc="left")
            line[0].set_ylabel("δ(0)")
        for axes in grid[-1]:
            axes.set(xlabel="records N", xticks=sorted({row["dataset_size"] for row in rows}))
        for column, axes in enumerate(grid[0]):
            handles, labels = axes.get_legend_handles_labels()
            grid[-1][column].legend(
                handles,
                labels,
                title="sample rate q",
                ncols=3,
                frameon=False,
                loc="lower left" if column == 0 else "upper right",
            )
        return figure


def _draw_delta(axes: Axes, rows: Rows) -> None:
    for number, rate in enumerate(dict.fromkeys(row["sample_rate"] for row in rows)):
        mine = [row for row in rows if row["sample_rate"] == rate]
        sizes = [row["dataset_size"] for row in mine]
        colour = _SHADES[number]
        axes.plot(sizes, [row["exact"] for row in mine], color=colour, lw=1.0, ls=(0.0, (4.0, 2.0)), zorder=1)
        axes.plot(
            sizes,
            [row["delta_lower"] for row in mine],
            color=colour,
            lw=1.6,
            marker=_MARKERS[number],
            ms=5.0,
            label=f"{rate}",
        )
    axes.set(ylim=(-0.02, 1.02))


def dimension_figure(rows: Rows) -> Figure:
    """One panel for each mechanism and dimension."""
    matplotlib = load_matplotlib()
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in rows))
    dimensions = list(dict.fromkeys(row["dimension"] for row in rows))
    with matplotlib.rc_context(TEXT):
        figure: Figure = matplotlib.figure.Figure(
            figsize=(2.1 * len(dimensions) + 0.4, 2.35 * len(mechanisms) + 0.9), layout="constrained"
        )
        figure.suptitle(
            "Audited trade-off in n dimensions, N = 4, σ = 10, 95 % confidence: below the claim is a violation",
            fontsize=11,
        )
        grid = figure.subplots(len(mechanisms), len(dimensions), sharex=True, sharey=True, squeeze=False)
        for line, mechanism in zip(grid, mechanisms, strict=True):
            for axes, dimension in zip(line, dimensions, strict=True):
                mine = [row for row in rows if row["mechanism"] == mechanism and row["dimension"] == dimension]
                _draw_dimension(axes, mine)
                axes.set_title(f"{mechanism.upper()}, n = {dimension:,}", loc="left")
            line[0].set_ylabel("false negative rate β")
        for axes in grid[-1]:
            axes.set_xlabel("false positive rate α")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, handlelength=3.4)
        return figure


def _draw_dimension(axes: Axes, rows: Rows) -> None:
    alpha = [row["alpha"] for row in rows]
    styles: tuple[tuple[str, str, str, float, Any], ...] = (
        ("claimed", "claimed (SGM)", _CLAIMED, 2.4, "-"),
        ("paper_ks", "the paper's vote (KS), f of its ε_L", _VOTE, 1.4, (0.0, (6.0, 1.5, 1.2, 1.5))),
        ("paper_chi2", "the paper's vote (χ²), f of its ε_L", "#66c2a5", 1.6, (0.0, (1.2, 1.2))),
        ("likelihood_ratio", "likelihood ratio", _AUDITED, 1.8, "-"),
        ("exact", "exact", _EXACT, 1.1, (0.0, (3.0, 2.0))),
    )
    for column, label, colour, width, dashes in styles:
        axes.plot(alpha, [row[column] for row in rows], color=colour, lw=width, ls=dashes, label=label)
    axes.set(xlim=(-0.02, 1), ylim=(-0.02, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
