"""Ranges drawn with matplotlib: a bar from what certainly leaks to what is certainly not exceeded, a tick where the claim is.

Between a claim and a bar that begins beyond it lies what is lost and was not claimed: it is hatched, as under curves. Bounds
often meet within a fraction of a percent, so both ends of a bar have a width of their own on paper. Colours say what words beside
them say too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisymean.report.plots import VIOLATED, powers_as_written
from noisymean.report.ranges import Range, Scale
from noisymean.verdict import Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: dict[Word, str] = {"violated": "#d55e00", "holds": "#007a59", "undetermined": "#767676"}
# Points of paper: the width of a bar, of its ends and of the tick, and how far a text keeps from them.
_WIDTH, _END, _TICK, _GAP = 11.0, 4.0, 26.0, 9.0


def draw_range(axes: Axes, scale: Scale, place: float, one: Range, *, size: float = 9.0) -> None:
    """One range at the height `place`, its claim to the left and its numbers to the right of all that is drawn."""
    low, high, claimed = (scale.inside(value) for value in (one.low, one.high, one.claimed))
    colour = COLOURS[one.verdict]
    if one.verdict == "violated":
        axes.barh(place, low - claimed, left=claimed, height=0.34, zorder=0, **VIOLATED)
    axes.plot([low, high], [place, place], color=colour, lw=_WIDTH, solid_capstyle="butt")
    # a range can be thinner than any line
    axes.plot([low], [place], color=colour, marker="|", ms=_WIDTH + 1.0, mew=_END)
    end: dict[str, Any] = (
        {"marker": ">", "ms": _WIDTH + 4.0} if one.high is None else {"marker": "|", "ms": _WIDTH + 1.0}
    )
    axes.plot([high], [place], color=colour, mew=_END, clip_on=False, **end)
    axes.plot([claimed], [place], color="#000000", marker="|", ms=_TICK, mew=1.8)
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False, "fontsize": size}
    left, right = min(claimed, low), max(claimed, high)
    axes.annotate(f"claimed {one.claimed_text}", (left, place), (-_GAP, 0.0), ha="right", **beside)
    axes.annotate(known(one), (right, place), (_GAP + 3.0, 0.0), ha="left", color=colour, weight="bold", **beside)


def known(one: Range) -> str:
    """Both ends in words; nothing that is above the truth is said to be lost."""
    if one.high is None:
        return f"at least {one.low_text} lost"
    return f"{one.low_text} to {one.high_text} lost"


def as_losses(axes: Axes, scale: Scale, label: str) -> None:
    """The axis of the ranges, written as people write numbers."""
    axes.set(xscale="log", xlim=(scale.start, scale.end), yticks=[])
    powers_as_written(axes.xaxis, scale.start, scale.end)
    axes.set_xlabel(label)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.grid(visible=True, axis="x", which="major", lw=0.4, color="#dddddd", zorder=-1)
    axes.set_axisbelow(True)
