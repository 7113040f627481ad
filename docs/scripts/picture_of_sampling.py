"""Draw the picture of docs/sampling.md: what one epoch loses, by the number of its batches and by how they are drawn.

    python docs/scripts/picture_of_sampling.py [FILE]

Noise multiplier 1, delta 1e-5, a constant denominator. Shuffled: one record zeroed out; the others: that, or one record more.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

import noisymean as nm

mpl.use("agg")

import matplotlib.pyplot as plt

NOISE, DELTA = 1.0, 1e-5
BATCHES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 2_000, 3_000, 5_000, 10_000)
BLUE, ORANGE, GREY = "#0b5fa5", "#c8500a", "#555555"


def epsilons(sampling: str) -> list[tuple[float, float]]:
    """Leakage and guarantee of one epoch for each number of batches."""
    found = []
    for batches in BATCHES:
        run = nm.SGM(sample_rate=f"1/{batches}", noise_multiplier=NOISE, sampling=sampling)
        answer = nm.account(run, steps=batches, delta=DELTA)
        assert answer.guarantee is not None, "known for all of these"
        found.append((answer.leakage.epsilon, answer.guarantee.epsilon))
    return found


def main(path: Path) -> None:
    """One panel, a logarithm on either axis."""
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(figsize=(8.0, 4.2), layout="constrained")
    poisson = [high for _, high in epsilons("poisson")]
    allocated, shuffled = epsilons("balls-in-bins"), epsilons("shuffle")
    low, high = zip(*shuffled, strict=True)
    axes.fill_between(BATCHES, low, high, color=ORANGE, alpha=0.18, lw=0.0)
    axes.plot(BATCHES, high, color=ORANGE, lw=1.8)
    axes.plot(BATCHES, low, color=ORANGE, lw=1.8)
    axes.plot(BATCHES, poisson, color=GREY, lw=1.6, ls="--")
    for side in zip(*allocated, strict=True):
        axes.plot(BATCHES, side, color=BLUE, lw=1.4)
    axes.set(xscale="log", yscale="log", xlim=(1, 10_000), ylim=(0.01, 8.0))
    axes.set(xlabel="batches in an epoch", ylabel="ε of one epoch")
    axes.text(30, high[-1] * 1.06, "shuffled: guaranteed (cyclic: exactly this)", color=ORANGE, va="bottom")
    axes.text(2_600, 3.1, "open", color=ORANGE, va="center")
    axes.text(1_100, 2.05, "shuffled: certainly lost", color=ORANGE, va="top", ha="right")
    axes.text(240, 0.6, "claimed, for Poisson sampling", color=GREY, va="bottom")
    axes.text(95, 0.32, "random allocation:\nboth bounds", color=BLUE, va="top", ha="right")
    axes.set_yticks([0.01, 0.1, 1.0], ["0.01", "0.1", "1"])
    axes.set_xticks([1, 10, 100, 1_000, 10_000], ["1", "10", "100", "1,000", "10,000"])
    axes.set_title(f"One epoch, σ = {NOISE:g}, δ = 10⁻⁵", loc="left", fontsize=11)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "images" / "sampling.png")
