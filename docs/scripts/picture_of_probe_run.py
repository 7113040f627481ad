"""Draw the picture of docs/probe-run.md: two runs of Opacus on MNIST, one image apart, told apart by their checkpoints.

    python docs/scripts/picture_of_probe_run.py [FILE] [--keep FOLDER]

50,000 and 50,001 images, batches of 500, 60 steps, sigma 2, C 1, learning rate 0.25 with momentum 0.9. Half a minute.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path

import matplotlib as mpl
import torch
from measure_probe_run import Settings, kept, probed

from noisymean.finished.picture import draw

mpl.use("agg")

import matplotlib.pyplot as plt

RUN = Settings(
    seed=500, dataset_size=50_000, batch_size=500, steps=60, noise_multiplier=2.0, learning_rate=0.25, momentum=0.9
)
ENDS = (491.0, 505.0)
ONE_MORE = dataclasses.replace(RUN, seed=501, dataset_size=50_001)


def main() -> None:
    """Two panels on one axis of denominators."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, nargs="?", default=Path("probe-run.png"))
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    figure, panels = plt.subplots(2, 1, figsize=(7.2, 6.0), sharex=True, layout="constrained")
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        for settings, axes in zip((RUN, ONE_MORE), panels, strict=True):
            true = kept(settings, folder)
            # both are asked about 50,000: the second one was trained on one image more
            found = probed(dataclasses.replace(settings, dataset_size=50_000), folder / f"{settings.seed}")
            low, high = found.interval or (float("nan"), float("nan"))
            print(f"{settings.dataset_size:,} images: {low:.2f} to {high:.2f}; Opacus divided by {true}")
            draw(axes, found, f"Trained on {settings.dataset_size:,} images", ENDS)
            axes.label_outer()
    figure.savefig(asked.file, dpi=130)


if __name__ == "__main__":
    main()
