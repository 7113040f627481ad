"""`noisymean demo`: what is claimed, guaranteed and leaked in one round of settings that people really use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, final

import numpy as np
import typer
from numpy.typing import ArrayLike
from rich import box
from rich.table import Table

from noisymean import __version__
from noisymean.cli import options
from noisymean.cli.output import console, emit_json, folder, need_matplotlib, note, say, write_plot
from noisymean.curves import Curves
from noisymean.leakage import leakage
from noisymean.mechanisms import ASGM, EASGM, FEASGM, SGM, Mechanism
from noisymean.noisy_sum import claimed
from noisymean.numerics.logs import Array
from noisymean.one_round import curve
from noisymean.outward import at_least, at_most
from noisymean.proofs import guarantee_tight
from noisymean.report import plots
from noisymean.words import rate_text

ALPHA = 0.1
FIGURE = "demo.png"
_NAMES = ("claimed", "guarantee", "leakage")

SETTINGS: tuple[tuple[str, Mechanism], ...] = (
    (
        "MNIST CNN",
        EASGM(dataset_size=59_999, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0),
    ),
    (
        "DP-FETA diffusion model",
        EASGM(dataset_size=59_999, dimension=1_485_217, sample_rate="0.005", noise_multiplier=10.0),
    ),
    (
        "MNIST CNN, Opacus 1.x",
        FEASGM(dataset_size=140_199, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0),
    ),
    (
        "MNIST CNN, large batches",
        ASGM(dataset_size=59_999, dimension=26_010, sample_rate="0.7", noise_multiplier=10.0),
    ),
    (
        "control: the noisy sum",
        SGM(dataset_size=59_999, dimension=26_010, sample_rate="0.005", noise_multiplier=10.0),
    ),
)


@final
@dataclass(frozen=True)
class Triple:
    """One quantity of the claim, the best guarantee and the best attack."""

    claimed: float
    guarantee: float
    leakage: float

    def record(self) -> dict[str, float]:
        """For JSON."""
        return dict(zip(_NAMES, (self.claimed, self.guarantee, self.leakage), strict=True))

    def shown(self, *, low_is_private: bool) -> list[str]:
        """For the table; the claim and the guarantee rounded to the side that promises less, the leakage that shows less."""
        promise, attack = (at_most, at_least) if low_is_private else (at_least, at_most)
        return [promise(self.claimed, ".6f"), promise(self.guarantee, ".6f"), attack(self.leakage, ".6f")]


@final
@dataclass(frozen=True)
class Row:
    """One setting and what was found: the false negative rate at ALPHA, and the advantage max(1 - alpha - beta)."""

    title: str
    curves: Curves
    false_negative: Triple
    advantage: Triple

    @property
    def name(self) -> str:
        """The mechanism's."""
        return self.curves.mechanism.name.upper()

    def record(self) -> dict[str, object]:
        """For JSON."""
        return {
            "title": self.title,
            "mechanism": self.curves.mechanism.name,
            "settings": self.curves.mechanism.settings(),
            "alpha": ALPHA,
            "false_negative_rate": self.false_negative.record(),
            "advantage": self.advantage.record(),
            "verdict": self.curves.verdict,
        }


def command(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for the figure; made if need be.")] = "out",
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
        rows.append(_measured(title, mechanism))
        note(f"[{number}/{len(SETTINGS)}] {mechanism.name.upper()}, {title}: {perf_counter() - start:.1f} s")
    write_plot("out", plots.comparison_figure([(f"{row.name}, {row.title}", row.curves) for row in rows]), target)
    if json:
        emit_json({"rows": [row.record() for row in rows], "figure": str(target), "version": __version__})
    else:
        _print(rows, target)


def _measured(title: str, mechanism: Mechanism) -> Row:
    curves = curve(mechanism, plots.ALPHA)
    bounds = (claimed(mechanism), guarantee_tight(mechanism).lower, leakage(mechanism).upper)
    false_negative = Triple(*(float(bound(np.array([ALPHA]))[0]) for bound in bounds))
    advantage = Triple(*(_advantage(bound, curves.alpha) for bound in bounds))
    return Row(title, curves, false_negative, advantage)


def _advantage(bound: Callable[[ArrayLike], Array], alpha: Array) -> float:
    """max of 1 - alpha - beta: concave in alpha, so the second look, around the best of the first, finds it."""
    best = int(np.argmax(1.0 - alpha - bound(alpha)))
    near = np.linspace(alpha[max(best - 1, 0)], alpha[min(best + 1, alpha.size - 1)], 201)
    return float(np.max(1.0 - near - bound(near)))


def _print(rows: list[Row], figure: Path) -> None:
    out = console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name in ("one round of", "", *_NAMES):
        table.add_column(name, justify="right" if name in _NAMES else "left", no_wrap=True)
    for row in rows:
        style = "bold" if row.curves.verdict == "violated" else None
        beta, advantage = row.false_negative.shown(low_is_private=False), row.advantage.shown(low_is_private=True)
        table.add_row(f"{row.name}, {row.title}", f"beta({ALPHA:g})", *beta, style=style)
        table.add_row(_numbers(row.curves.mechanism), "advantage", *advantage, style=style, end_section=True)
    out.print(table, "")
    say(
        out,
        f"beta({ALPHA:g}): least false negative rate at false positive rate {ALPHA:g}, high is private;"
        " advantage: largest 1 - alpha - beta, low is private.",
    )
    say(out, _finding(rows))
    say(out, f"Figure: {figure}")


def _numbers(mechanism: Mechanism) -> str:
    return (
        f"N={mechanism.dataset_size} n={mechanism.dimension}"
        f" q={rate_text(mechanism.rate)} sigma={mechanism.noise_multiplier:g}"
    )


def _finding(rows: list[Row]) -> str:
    violated = [row for row in rows if row.curves.verdict == "violated"]
    held = ", ".join(row.name for row in rows if row.curves.verdict == "holds") or "none"
    if not violated:
        return f"No claim is violated; claims that hold: {held}."
    worst = max(violated, key=lambda row: row.advantage.leakage / row.advantage.claimed)
    return (
        f"{len(violated)} of {len(rows)} claims are violated, worst by {worst.name} ({worst.title}), where an attacker's"
        f" advantage is {worst.advantage.leakage / worst.advantage.claimed:.3g} times the claimed one; claims that hold: {held}."
    )
