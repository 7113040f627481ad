"""Every colour of a page by its name, in light and in dark.

Curves are in the colours of Okabe and Ito, as in the other figures; in dark they are lightened until each has a contrast of at
least 4.5 to the background. A plotly figure is drawn with the light colours: the page's script exchanges them, value for value,
so every light colour is there once only.
"""

from __future__ import annotations

PALETTE: dict[str, tuple[str, str]] = {
    # the page
    "ink": ("#1b1e23", "#e7e9ec"),
    "muted": ("#5a626e", "#a3abb7"),
    "paper": ("#ffffff", "#15171b"),
    "panel": ("#f5f6f8", "#1e2127"),
    "line": ("#d8dce2", "#383e48"),
    "link": ("#0b5cad", "#7fb8f0"),
    # a verdict, and marked cells of a table
    "good": ("#177544", "#4fc98a"),
    "good-soft": ("#e7f5ed", "#14301f"),
    "bad": ("#b3261e", "#ff8a80"),
    "bad-soft": ("#fdecea", "#3d1a18"),
    "unknown": ("#8a5a00", "#f0b849"),
    "unknown-soft": ("#fff4dc", "#36290e"),
    # the curves
    "claimed": ("#000000", "#f4f4f4"),
    "leakage": ("#d55e00", "#ff9a57"),
    "guarantee": ("#0072b2", "#6cbcf0"),
    "exact": ("#009e73", "#4fd3ab"),
    "other": ("#aa3377", "#e58fc0"),
    "chance": ("#767676", "#9a9a9a"),
    # areas between curves
    "band": ("#d3e8f5", "#1d3a50"),
    "violated": ("#fbe6da", "#4a2a17"),
    "grid": ("#e6e9ed", "#2b3038"),
}


def colour(name: str) -> str:
    """The light colour of that name, as figures use it."""
    return PALETTE[name][0]


def exchange() -> dict[str, str]:
    """Light to dark."""
    return dict(PALETTE.values())


def variables(*, dark: bool) -> dict[str, str]:
    """The names of style.css: --ink and so on."""
    return {f"--{name}": pair[dark] for name, pair in PALETTE.items()}
