"""A picture of releases and their mechanisms: rows in, a figure out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noisymean.report.plots import TEXT, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Told apart by their words as well.
_COLOURS = {
    "sgm": "#b9d9b0",
    "asgm": "#f3c98b",
    "easgm": "#a9cce8",
    "feasgm": "#c9b6e0",
    "opacus-loader": "#f0a58f",
    "not supported": "#dddddd",
}
_WORDS = {"opacus-loader": "loader", "": "–", "not in it": "–"}
_COLUMNS = (
    ("paper", "the paper"),
    ("mechanism", "run, mean"),
    ("mechanism_as_shipped", "as shipped"),
    ("mechanism_sum", "run, sum"),
)


def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A line for each release: the paper's mechanism, and what running shows under each option."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(TEXT):
        drawn: Figure = matplotlib.figure.Figure(figsize=(8.2, 0.27 * len(rows) + 1.5), layout="constrained")
        drawn.suptitle("What each release of Opacus is: said and found", fontsize=11)
        axes = drawn.subplots()
        for line, row in enumerate(rows):
            for column, (name, _) in enumerate(_COLUMNS):
                value = "not run" if row["fault"] and name != "paper" else str(row[name]).lower()
                axes.barh(line, 0.96, left=column + 0.02, height=0.86, color=_COLOURS.get(value, "#f2f2f2"))
                word = _WORDS.get(value, value)
                word = word if value in ("not supported", "not run", "unknown", *_WORDS) else word.upper()
                axes.text(column + 0.5, line, word, ha="center", va="center", fontsize=8.0)
        axes.set_yticks(range(len(rows)), [row["release"] for row in rows])
        axes.set_xticks([column + 0.5 for column in range(len(_COLUMNS))], [label for _, label in _COLUMNS])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.set(xlim=(0, len(_COLUMNS)), ylim=(len(rows) - 0.4, -0.6))
        axes.spines[:].set_visible(False)
        drawn.supxlabel(
            "loader: int(N/L) in floating point at rate 1/L, L = ⌈N/b⌉; FEASGM only where b does not divide N",
            fontsize=8.5,
        )
        return drawn
