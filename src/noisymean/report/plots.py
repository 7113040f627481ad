"""Figures of trade-off curves.

Matplotlib is imported when a figure is asked for, and only its object interface is used: no global figure, no window, no
backend to choose. Colours are those of Okabe and Ito, which the colour-blind tell apart; every curve also has its own dashes
and width, so that a grey print can be read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from noisymean.curves import Curves
from noisymean.errors import MissingDependency
from noisymean.report.files import whole_file
from noisymean.written import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Values: TypeAlias = NDArray[np.float64]

FORMATS = (".png", ".svg", ".pdf")
# False positive rates to draw at: dense at both ends, where the curves turn.
ALPHA: Values = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, 301)) ** 2
# Curves closer than this everywhere are one curve on paper.
_SAME = 1e-7


@final
@dataclass(frozen=True)
class Style:
    """How a curve looks in every figure."""

    name: str
    label: str
    colour: str
    width: float
    dashes: str | tuple[float, tuple[float, ...]]


# In drawing order: wide and pale first, thin and dashed last, so that curves that coincide all stay visible.
STYLES = (
    Style("guarantee", "guarantee (paper)", "#8ccbf0", 4.4, "-"),
    Style("claimed", "claimed (SGM)", "#000000", 2.6, "-"),
    Style("leakage", "leakage", "#d55e00", 1.9, "-"),
    Style("ceiling_clt", "ceiling (CLT estimate)", "#767676", 1.2, (0.0, (1.0, 1.6))),
    Style("ceiling", "ceiling", "#009e73", 1.3, (0.0, (7.0, 2.0, 1.2, 2.0))),
    Style("guarantee_tight", "guarantee (tight)", "#003a66", 1.1, (0.0, (4.0, 4.0))),
)
# In the order of a legend: from what is said to what is so.
_LEGEND = ("claimed", "leakage", "guarantee", "guarantee_tight", "ceiling", "ceiling_clt")
_VIOLATED = "claim violated"
_FALSE_POSITIVE, _FALSE_NEGATIVE = "false positive rate α", "false negative rate β"
TEXT = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "legend.fontsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    # words stay words in a vector file, and the same input gives the same file
    "svg.fonttype": "none",
    "svg.hashsalt": "noisymean",
    "pdf.fonttype": 42,
}


# Where an attacker is and the claim says that none can be: the same in every figure.
VIOLATED: dict[str, Any] = {"facecolor": "#fbe9df", "edgecolor": "#eab797", "hatch": "////", "linewidth": 0.0}

# A legend of the whole figure.
BELOW: Any = {"loc": "outside lower center", "ncols": 4, "frameon": False, "handlelength": 3.4}


def curve_figure(curves: Curves) -> Figure:
    """The curves of one mechanism: as they are, and how far each lies below the claim."""
    with canvas(9.2, 4.5) as figure:
        figure.suptitle(curves.mechanism.in_a_line(), fontsize=11)
        whole, below = figure.subplots(1, 2)
        if curves.violated.any():
            shade(whole, curves.alpha, curves.leakage, curves.claimed, curves.violated)
        for style, values in _drawn(curves):
            line(whole, style, curves.alpha, values)
        as_rates(whole)
        _draw_below(below, curves)
        whole.set_title("trade-off curves", loc="left")
        below.set_title("how far each lies below the claim", loc="left")
        below.set_ylabel("claimed β − curve's β")
        handles = _handles([whole, below])
        figure.legend(handles.values(), handles.keys(), **BELOW)
        return figure


def save(figure: Figure, path: Path) -> None:
    """Write `figure` to `path`, whole or not at all."""
    matplotlib = load_matplotlib()
    kind = path.suffix.lower().removeprefix(".")
    # a date would make two runs of the same input differ
    dateless: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with whole_file(path) as stream, matplotlib.rc_context(TEXT):
        figure.savefig(stream, format=kind, dpi=200, metadata=dateless.get(kind))


def load_matplotlib() -> Any:
    """Matplotlib with its object interface loaded; no pyplot, hence no global state."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError:
        raise MissingDependency("matplotlib", "plots") from None
    return matplotlib


@contextmanager
def canvas(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of so many inches, to be drawn upon with the fonts that all figures share."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(TEXT):
        yield matplotlib.figure.Figure(figsize=(width, height), layout="constrained")


def _drawn(curves: Curves) -> list[tuple[Style, Values]]:
    """The curves that exist for this mechanism, in drawing order."""
    found = ((style, getattr(curves, style.name)) for style in STYLES)
    return [(style, values) for style, values in found if values is not None and not np.isnan(values).all()]


def line(axes: Axes, style: Style, x: Values, y: Values, **more: Any) -> None:
    """One curve, in its style."""
    axes.plot(x, y, color=style.colour, lw=style.width, ls=style.dashes, label=style.label, **more)


def shade(axes: Axes, alpha: Values, low: Values, high: Values, where: NDArray[np.bool_]) -> None:
    """The area in which an attacker is and the claim says that none can be."""
    axes.fill_between(
        alpha,
        low,
        high,
        where=where.tolist(),
        interpolate=True,
        label=_VIOLATED,
        zorder=0,
        **VIOLATED,
    )


def as_rates(axes: Axes) -> None:
    """False negative against false positive rate."""
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel=_FALSE_POSITIVE, ylabel=_FALSE_NEGATIVE)


def powers_as_written(axis: Axis, low: float, high: float) -> None:
    """Ticks of a scale of powers: 0.1, 1, 10, 1,000 or 10⁷; two or five times a power where there are few powers."""
    from matplotlib.ticker import FixedLocator, NullLocator

    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    between = (1.0, 2.0, 5.0) if decades < 1.8 else (1.0,)
    powers = range(first, last + 1, max(1, math.ceil(decades / 9.0)))
    shown = [digit * 10.0**exponent for exponent in powers for digit in between]
    shown = [value for value in shown if low * (1.0 - 1e-9) <= value <= high * (1.0 + 1e-9)]
    axis.set_major_locator(FixedLocator(shown))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([plain(f"{value:.6g}") for value in shown])


def _draw_below(axes: Axes, curves: Curves) -> None:
    """claimed - beta against alpha: above 0 the attacker does better than is claimed."""
    drawn = [(style, curves.claimed - values) for style, values in _drawn(curves)]
    if curves.violated.any():
        shade(axes, curves.alpha, np.zeros_like(curves.alpha), curves.claimed - curves.leakage, curves.violated)
    for style, values in drawn:
        line(axes, style, curves.alpha, values)
    # the estimate by a central limit theorem can be far from everything else: it does not choose the scale
    exact = np.concatenate([values for style, values in drawn if style.name != "ceiling_clt"])
    low, high = float(exact.min()), float(exact.max())
    if high - low < _SAME:
        low, high = -1.0, 1.0
        axes.set_yticks([0.0])
        axes.text(0.5, 0.25, "all curves coincide", ha="center", color="#444444")
    margin = 0.06 * (high - low)
    axes.set(xlim=(0, 1), ylim=(low - margin, high + margin), xlabel=_FALSE_POSITIVE)


def _handles(axes: Sequence[Axes]) -> dict[str, Any]:
    """Every label once, the shading last."""
    found: dict[str, Any] = {}
    for place in axes:
        handles, labels = place.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    labels_of = {style.name: style.label for style in STYLES}
    order = [*(labels_of[name] for name in _LEGEND), _VIOLATED]
    return {label: found[label] for label in order if label in found}
