"""The story on one slide: three runs as ranges, each as it runs and with constants, and the sawtooth that is behind the first.

The slide is read from some way off: words are large, every number stands beside what it is of, and there is no legend.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from noisymean.mechanisms import OpacusLoader
from noisymean.outward import lower_bound
from noisymean.report.plots import canvas
from noisymean.report.range_bars import as_losses, draw_range
from noisymean.report.ranges import Range, Scale
from noisymean.report.story import Loader, Story
from noisymean.written import exactly

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Sixteen to nine, in inches.
_WIDE, _HIGH = 12.8, 7.2
_WORDS, _SMALL = 11.5, 10.0
_GREY, _LINE, _MARKED = "#555555", "#0b5fa5", "#d55e00"
# Heights: a heading, the run, the run with constants, and room before the next.
_HEADING, _AS_RUN, _CONSTANT, _BLOCK = 0.0, 0.74, 1.36, 2.3
_KEY = (
    "tick: claimed by an accountant of the noisy sum · hatched: lost, and not claimed\n"
    "bar: from what is certainly lost to what is certainly not exceeded; often too thin to see both ends"
)


def story_figure(story: Story) -> Figure:
    """All of it; the title says what is to be seen."""
    with canvas(_WIDE, _HIGH) as figure:
        figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.15, wspace=0.04)
        figure.suptitle("What three private trainings promise, and what they lose", fontsize=19, weight="bold")
        left, right = figure.subplots(1, 2, width_ratios=(2.3, 1.0))
        _draw_runs(left, story)
        _draw_teeth(right, story.loader, story.runs[0].as_run.mechanism.dimension or 1)
        return figure


def _draw_runs(axes: Axes, story: Story) -> None:
    pairs = [
        (Range.of(told.as_run, "as it runs"), Range.of(told.with_constants, "with constants")) for told in story.runs
    ]
    scale = Scale.of([one for both in pairs for one in both], left=0.33, right=0.23)
    start: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center"}
    for number, (told, both) in enumerate(zip(story.runs, pairs, strict=True)):
        top = number * _BLOCK
        axes.text(0.0, top + _HEADING, told.title, fontsize=_WORDS + 1.5, weight="bold", **start)
        axes.text(0.0, top + _HEADING + 0.26, told.setting, fontsize=_SMALL - 0.5, color=_GREY, **start)
        for height, one in zip((_AS_RUN, _CONSTANT), both, strict=True):
            axes.text(0.0, top + height, one.label, fontsize=_SMALL, color=_GREY, **start)
            draw_range(axes, scale, top + height, one, size=_SMALL)
    axes.set_title(f"{story.verdicts}\n", fontsize=_WORDS + 1.5, weight="bold", loc="left")
    as_losses(axes, scale, f"ε of the whole run at δ = {exactly(story.delta)} (small is private)")
    key: dict[str, Any] = {"textcoords": "offset points", "va": "top", "fontsize": _SMALL, "color": _GREY}
    axes.annotate(_KEY, (0.0, 0.0), (0, -52), xycoords="axes fraction", linespacing=1.6, **key)
    axes.set_ylim(len(story.runs) * _BLOCK - 0.5, -0.35)
    axes.xaxis.label.set_fontsize(_WORDS)
    axes.tick_params(labelsize=_SMALL)


def _draw_teeth(axes: Axes, loader: Loader, coordinates: int) -> None:
    """The denominator of every number of records around the one that falls."""
    records, _, denominator = loader.before
    more, _, other = loader.after
    span = loader.batch_size
    sizes = range(records - span + 1, records + span + 1)
    divided = [
        OpacusLoader(
            dataset_size=size, batch_size=loader.batch_size, dimension=1, noise_multiplier=1.0
        ).run(size).expected_batch_size
        for size in sizes
    ]  # fmt: skip
    pieces = [0, *(place + 1 for place, (one, two) in enumerate(pairwise(divided)) if two < one), len(divided)]
    for first, last in pairwise(pieces):
        axes.step(sizes[first:last], divided[first:last], where="post", color=_LINE, lw=2.2)
    axes.plot([records, more], [denominator, other], color=_MARKED, marker="o", ms=8.0, lw=1.4, ls=":")
    words: dict[str, Any] = {"textcoords": "offset points", "fontsize": _WORDS, "color": _MARKED, "weight": "bold"}
    axes.annotate(f"{records:,}: {denominator:,}", (records, denominator), (0, 11), ha="center", **words)
    axes.annotate(f"{more:,}: {other:,}", (more, other), (0, -20), ha="center", **words)
    axes.set_title("One record more, and Opacus 1.x\ndivides by less", fontsize=_WORDS + 1.5, weight="bold", loc="left")
    ticks = [records - span, records, records + span]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    room = denominator - other
    axes.set_ylim(other - 0.35 * room, denominator + 0.35 * room)
    axes.tick_params(labelsize=_SMALL)
    axes.set_xlabel(f"records in the training set, batches of {loader.batch_size:,}", fontsize=_WORDS)
    more_noise = lower_bound(100.0 * (denominator / other - 1.0), ".2g")
    axes.annotate(
        f"the noise is divided by it too: {more_noise} % more in\nevery coordinate, and there are {coordinates:,} of them",
        (0.0, 0.0),
        (-40, -52),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        linespacing=1.6,
        fontsize=_SMALL,
        color=_GREY,
    )
    axes.set_ylabel("what the noisy sum is divided by", fontsize=_WORDS)
