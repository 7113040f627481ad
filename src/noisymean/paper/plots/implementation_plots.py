"""Pictures of audited implementations: rows of numbers in, a figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisymean.outward import at_least
from noisymean.report.plots import TEXT, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: tuple[tuple[str, str, str, float, Any], ...] = (
    ("claimed", "claimed (SGM)", "#000000", 2.4, "-"),
    ("audited", "audited, 95 % confidence", "#d55e00", 1.8, "-"),
    ("exact", "exact, for this pair", "#0072b2", 1.1, (0.0, (3.0, 2.0))),
)


def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A line of panels for each data set, a column for each method and rate; one line of all sets if there is one method."""
    matplotlib = load_matplotlib()
    panels: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        panels.setdefault((row["dataset"], row["method"], row["sample_rate"]), []).append(row)
    across = len({key[1:] for key in panels})
    across = len(panels) if across == 1 else across
    with matplotlib.rc_context(TEXT):
        drawn: Figure = matplotlib.figure.Figure(
            figsize=(2.5 * max(across, 2) + 0.5, 2.7 * (len(panels) // across) + 0.9), layout="constrained"
        )
        drawn.suptitle("One step of real implementations, σ = 10: below the claim is a violation", fontsize=11)
        grid = drawn.subplots(len(panels) // across, across, sharex=True, sharey=True, squeeze=False)
        for axes, ((dataset, method, rate), mine) in zip(grid.flat, panels.items(), strict=True):
            _draw(axes, mine)
            axes.set_title(
                f"{method} on {dataset}\nn = {mine[0]['dimension']:,}\n{mine[0]['mechanism'].upper()}, q = {rate:g}",
                fontsize=8.5,
            )
        for line in grid:
            line[0].set_ylabel("false negative rate β")
        for axes in grid[-1]:
            axes.set_xlabel("false positive rate α")
        handles, labels = grid[0][0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, handlelength=3.4)
        return drawn


def _draw(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    alpha, first = [row["alpha"] for row in rows], rows[0]
    for column, label, colour, width, dashes in _STYLES:
        axes.plot(alpha, [row[column] for row in rows], color=colour, lw=width, ls=dashes, label=label)
    axes.set(xlim=(-0.02, 1), ylim=(-0.02, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.text(
        0.97,
        0.95,
        f"ε ≥ {at_least(first['epsilon_lower'], '.2f')}, claimed {first['epsilon_claimed']:.3f}\n{first['trials']:,} trials",
        ha="right",
        va="top",
        fontsize=7.5,
    )
