"""`noisymean demo`: what is claimed, guaranteed and leaked in one round of settings that people really use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, final

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from noisymean import __version__, curve
from noisymean.cli import options
from noisymean.cli.output import console, emit_json, folder, need_matplotlib, note, say, write_plot
from noisymean.curves import Curves
from noisymean.mechanisms import ASGM, EASGM, FEASGM, SGM, Mechanism
from noisymean.outward import Rounding, at_least, at_most
from noisymean.report import plots

ALPHA = 0.1
FIGURE = "demo.png"
_NAMES = ("claimed", "guarantee", "leakage")

SETTINGS: tuple[tuple[str, Mechanism], ...] = (
    ("MNIST CNN", EASGM(dataset_size=59_999, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0)),
    (
        "DP-FETA diffusion model",
        EASGM(dataset_size=59_999, dimension=1_485_217, sample_rate="0.005", noise_multiplier=10.0),
    ),
    (
        "MNIST CNN, Opacus 1.x",
        FEASGM(dataset_size=140_199, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0),
    ),
    ("MNIST CNN, large batches", ASGM(dataset_size=59_999, dimension=26_010, sample_rate="0.7", noise_multiplier=10.0)),
    ("control: the noisy sum", SGM(dataset_size=59_999, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0)),
)


@final
@dataclass(frozen=True, eq=False)
class Row:
    """One setting and what was found of the claim, the best guarantee and the best attack, each by its name."""

    title: str
    curves: Curves
    # the false negative rate at ALPHA: low promises less
    false_negative: dict[str, float]
    # the advantage, max(1 - alpha - beta): high promises less
    advantage: dict[str, float]

    @property
    def name(self) -> str:
        return self.curves.mechanism.name.upper()

    def record(self) -> dict[str, object]:
        return {
            "title": self.title,
            "mechanism": self.curves.mechanism.name,
            "settings": self.curves.mechanism.settings(),
            "alpha": ALPHA,
            "false_negative_rate": self.false_negative,
            "advantage": self.advantage,
            "verdict": self.curves.verdict,
        }


def command(
    out: Annotated[str, options.text("DIR", "Folder for the figure; made if need be.")] = "out",
    json: options.Json = False,
) -> None:
    """What is claimed, guaranteed and leaked in real settings.

    One round of five of them, as a table and a figure; the last is the control, whose claim is true.

    \b
    Example:
      noisymean demo --out out
    """
    need_matplotlib()
    target = folder(out) / FIGURE
    rows = []
    for number, (title, mechanism) in enumerate(SETTINGS, start=1):
        start = perf_counter()
        curves, at = curve(mechanism, plots.ALPHA), curve(mechanism, [ALPHA])
        false_negative = {name: float(_beta(at, name)[0]) for name in _NAMES}
        rows.append(Row(title, curves, false_negative, {name: _advantage(curves, name) for name in _NAMES}))
        note(f"[{number}/{len(SETTINGS)}] {mechanism.name.upper()}, {title}: {perf_counter() - start:.1f} s")
    write_plot("out", plots.comparison_figure([(f"{row.name}, {row.title}", row.curves) for row in rows]), target)
    if json:
        emit_json({"rows": [row.record() for row in rows], "figure": str(target), "version": __version__})
    else:
        _print(rows, target)


def _beta(curves: Curves, name: str) -> NDArray[np.float64]:
    """Claimed, leakage, or the best guarantee; where none is known, the one that promises nothing."""
    found: NDArray[np.float64] | None = getattr(curves, "guarantee_tight" if name == "guarantee" else name)
    return np.zeros_like(curves.alpha) if found is None else found


def _advantage(curves: Curves, name: str) -> float:
    """max of 1 - alpha - beta: concave in alpha, so the second look, around the best of the first, finds it."""
    alpha = curves.alpha
    best = int(np.argmax(1.0 - alpha - _beta(curves, name)))
    near = np.linspace(alpha[max(best - 1, 0)], alpha[min(best + 1, alpha.size - 1)], 201)
    return float(np.max(1.0 - near - _beta(curve(curves.mechanism, near), name)))


def _print(rows: list[Row], figure: Path) -> None:
    out = console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("one round of", "", *_NAMES):
        table.add_column(name, justify="right" if name in _NAMES else "left", no_wrap=True)
    for row in rows:
        style = "bold" if row.curves.verdict == "violated" else None
        # the claim and the guarantee are rounded to the side that promises less, the leakage to the one that shows less
        beta = _cells(row.false_negative, promise=at_least, attack=at_most)
        advantage = _cells(row.advantage, promise=at_most, attack=at_least)
        table.add_row(f"{row.name}, {row.title}", f"beta({ALPHA:g})", *beta, style=style)
        table.add_row(_compact(row.curves.mechanism), "advantage", *advantage, style=style, end_section=True)
    out.print(table, "")
    say(
        out,
        f"beta({ALPHA:g}): least false negative rate at false positive rate {ALPHA:g}, high is private;"
        " advantage: largest 1 - alpha - beta, low is private.",
    )
    say(out, _finding(rows))
    say(out, f"Figure: {figure}")


def _cells(found: dict[str, float], *, promise: Rounding, attack: Rounding) -> list[str]:
    return [(attack if name == "leakage" else promise)(value, ".6f") for name, value in found.items()]


def _compact(mechanism: Mechanism) -> str:
    """`N=59999 n=26010 q=0.005 sigma=10`: the columns of numbers need the room."""
    return mechanism.numbers(greek=False).replace(" = ", "=").replace(",", "").replace("  ", " ")


def _finding(rows: list[Row]) -> str:
    violated = [row for row in rows if row.curves.verdict == "violated"]
    held = ", ".join(row.name for row in rows if row.curves.verdict == "holds") or "none"
    if not violated:
        return f"No claim is violated; claims that hold: {held}."
    times = {row: row.advantage["leakage"] / row.advantage["claimed"] for row in violated}
    worst = max(violated, key=times.__getitem__)
    return (
        f"{len(violated)} of {len(rows)} claims are violated, worst by {worst.name} ({worst.title}), where an attacker's"
        f" advantage is {times[worst]:.3g} times the claimed one; claims that hold: {held}."
    )
