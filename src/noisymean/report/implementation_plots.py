"""Pictures of audited implementations: rows of numbers in, a figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisymean.report.plots import TEXT, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLES: tuple[tuple[str, str, str, float, Any], ...] = (
    ("claimed", "claimed (SGM)", "#000000", 2.4, "-"),
    ("audited", "audited, 95 % confidence", "#d55e00", 1.8, "-"),
    ("exact", "exact, for this pair", "#0072b2", 1.1, (0.0, (3.0, 2.0))),
)


def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A line of panels for each data set, a column for each method and rate."""
    matplotlib = load_matplotlib()
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    methods = list(dict.fromkeys((row["method"], row["sample_rate"]) for row in rows))
    with matplotlib.rc_context(TEXT):
        drawn: Figure = matplotlib.figure.Figure(
            figsize=(2.5 * max(len(methods), 2) + 0.5, 2.7 * len(datasets) + 0.9), layout="constrained"
        )
        drawn.suptitle("One step of real implementations, σ = 10: below the claim is a violation", fontsize=11)
        grid = drawn.subplots(len(datasets), len(methods), sharex=True, sharey=True, squeeze=False)
        for line, dataset in zip(grid, datasets, strict=True):
            for axes, (method, rate) in zip(line, methods, strict=True):
                mine = [
                    row
                    for row in rows
                    if row["dataset"] == dataset and row["method"] == method and row["sample_rate"] == rate
                ]
                alpha, first = [row["alpha"] for row in mine], mine[0]
                for column, label, colour, width, dashes in _STYLES:
                    axes.plot(alpha, [row[column] for row in mine], color=colour, lw=width, ls=dashes, label=label)
                axes.set(xlim=(-0.02, 1), ylim=(-0.02, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
                axes.set_title(
                    f"{method}, n = {first['dimension']:,}\n{first['mechanism'].upper()}, q = {first['sample_rate']:g}"
                )
                axes.text(
                    0.97,
                    0.95,
                    f"ε ≥ {first['epsilon_lower']:.2f}, claimed {first['epsilon_claimed']:.3f}\n{first['trials']:,} trials",
                    ha="right",
                    va="top",
                    fontsize=7.5,
                )
            line[0].set_ylabel(f"{dataset}\nfalse negative rate β")
        for axes in grid[-1]:
            axes.set_xlabel("false positive rate α")
        handles, labels = grid[0][0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, handlelength=3.4)
        return drawn
