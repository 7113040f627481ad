"""Figures of probes: what a release was divided by, at every setting that was run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisymean.probe import Finding
from noisymean.report.plots import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def finding_figure(found: Finding) -> Figure:
    """A bar for each setting, from the smallest to the largest denominator that was seen there."""
    shown = [(one.run, one.least, one.most) for one in found.evidence if one.least is not None and one.most is not None]
    with canvas(6.4, 1.2 + 0.28 * max(len(shown), 3)) as figure:
        axes = figure.subplots()
        axes.set_title(f"{found.target}: {found.kind.value.upper()}\ndivides by {found.denominator}", loc="left")
        for place, (_, least, most) in enumerate(reversed(shown)):
            axes.plot([least, most], [place, place], color="#d55e00", lw=3.0, marker="|", ms=9.0)
        axes.set_yticks(range(len(shown)), [run for run, _, _ in reversed(shown)])
        axes.set(xlabel="denominator that was seen")
        return figure
