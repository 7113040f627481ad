"""Figures of inspections: one range, from what is certainly lost to what is certainly not exceeded, and where the claim is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisymean.integrations.opacus import Inspection
from noisymean.outward import lower_bound, upper_bound
from noisymean.report.plots import canvas
from noisymean.report.range_bars import as_losses, draw_range
from noisymean.report.ranges import Range, Scale
from noisymean.results import finite
from noisymean.words import BEYOND_DOUBLES, NONE_KNOWN
from noisymean.written import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def inspection_figure(found: Inspection) -> Figure:
    """The range of the run so far; where no leakage is known it begins at nothing, where no guarantee is known it is open."""
    one = _range(found)
    with canvas(8.0, 1.9) as figure:
        axes = figure.subplots()
        scale = Scale.of([one], left=0.3, right=0.35)
        draw_range(axes, scale, 0.0, one)
        axes.set_ylim(-0.6, 0.6)
        as_losses(axes, scale, f"epsilon at delta = {short(found.spent.delta)}")
        steps = f"{found.steps:,} step{'' if found.steps == 1 else 's'} {'so far' if found.taken else 'to come'}"
        axes.set_title(f"{found.name}, {steps}: {found.verdict}", loc="left")
        return figure


def _range(found: Inspection) -> Range:
    spent = found.spent
    claimed, high = finite(spent.claimed), spent.guarantee
    return Range(
        found.name,
        claimed,
        spent.leakage or 0.0,
        high,
        spent.verdict,
        BEYOND_DOUBLES if claimed is None else upper_bound(claimed),
        lower_bound(spent.leakage or 0.0),
        NONE_KNOWN if high is None else upper_bound(high),
    )
