"""Draw the picture of the lift in docs/theory.md.

    python docs/scripts/picture_of_the_lift.py [FILE]

One record: jumps of 0.75 at rate 0.6, and jumps of 1 at the rate that the lift gives them, by the defining sums.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

mpl.use("agg")

import matplotlib.pyplot as plt

A, OMEGA, KAPPA = 0.75, 1.0, 0.6
BLUE, ORANGE, GREY = "#0b5fa5", "#c8500a", "#777777"


def h(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The measure that jumps, over kappa: sums of G to the right, or to the left of the window."""
    steps = np.arange(1, 60)[:, None] * OMEGA

    def g(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(norm.pdf(x - A * OMEGA) - norm.pdf(x))

    return np.where(y >= -0.5 * OMEGA, g(y + steps).sum(axis=0), -g(y - steps + OMEGA).sum(axis=0))


def main(path: Path) -> None:
    """Two panels: the rate, and the two ways to the same density."""
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.5), layout="constrained")
    y = np.linspace(-4.0, 5.0, 901)
    before = norm.pdf(y)
    jumping, arriving = KAPPA * h(y), KAPPA * h(y - OMEGA)
    natural = (1.0 - KAPPA) * before + KAPPA * norm.pdf(y - A * OMEGA)

    seen = np.abs(y) <= 4.0
    left.plot(y[seen], h(y)[seen] / before[seen], color=BLUE, lw=1.8)
    left.axhline(1.0, color=GREY, lw=1.0, ls="--")
    left.text(-3.9, 1.02, "jumps of 0.75: always 1", color=GREY, va="bottom")
    left.annotate(
        "jumps of 1: ρ(y), rarer the\nfurther the noise has gone already",
        (1.6, float(np.interp(1.6, y, h(y) / before))),
        (-3.9, 0.3),
        color=BLUE,
        arrowprops={"arrowstyle": "-", "color": BLUE, "lw": 0.8},
    )
    left.set(xlabel="y, the noise along the gradient", ylabel="rate of a jump, over κ", ylim=(0.0, 1.15))
    left.set_title("The rate follows the state", loc="left", fontsize=11)

    stayed = before - jumping
    right.fill_between(y, 0.0, stayed, color=BLUE, alpha=0.20, lw=0.0)
    right.fill_between(y, stayed, stayed + arriving, color=ORANGE, alpha=0.25, lw=0.0)
    right.plot(y, natural, color="black", lw=1.8)
    right.plot(y, before, color=GREY, lw=1.0, ls="--")
    right.text(0.0, 0.09, "stayed", color=BLUE, ha="center")
    right.text(0.52, 0.255, "jumped\nby 1", color=ORANGE, ha="center")
    right.annotate(
        "before", (-1.1, float(norm.pdf(-1.1))), (-3.7, 0.3), color=GREY,
        arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.8},
    )  # fmt: skip
    right.annotate(
        "after jumps of 0.75 at rate κ:\nthe same law",
        (1.9, float(np.interp(1.9, y, natural))),
        (2.2, 0.31),
        arrowprops={"arrowstyle": "-", "color": "black", "lw": 0.8},
    )
    right.set(xlabel="position along the gradient", ylabel="density", ylim=(0.0, 0.42))
    right.set_title("Two ways to one law", loc="left", fontsize=11)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "images" / "lift.png")
