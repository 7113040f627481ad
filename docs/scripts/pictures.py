"""Every picture of the documents, made again: `make pictures`, or for some of them

    python docs/scripts/pictures.py NAME ...

Each is the output of a command of noisymean, of a script beside this one, or a page seen in Chromium (`make browser`). Commands
run in out/pictures, where a reproduction that was interrupted goes on; a picture takes its place when it is finished.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
BUILD = ROOT / "out" / "pictures"
Maker = Callable[[Path], None]


def by_command(makes: str, *words: str) -> Maker:
    """What a command of noisymean leaves in the folder for results."""

    def make(target: Path) -> None:
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "noisymean", *words], cwd=BUILD, check=True, stdout=subprocess.DEVNULL)
        shutil.copyfile(BUILD / makes, target)

    return make


def by_script(name: str) -> Maker:
    """What a script beside this one draws into the file it is given."""

    def make(target: Path) -> None:
        subprocess.run([sys.executable, Path(__file__).with_name(name), target], check=True)

    return make


def of_page(name: str) -> Maker:
    """A page of noisymean in a browser."""

    def make(target: Path) -> None:
        # the browser is looked for when a page is wanted
        import screenshots

        getattr(screenshots, name)(target)

    return make


# One round of FEASGM where the floor moves: the setting of README.
_ROUND = ("--mechanism", "feasgm", "--dataset-size", "140199", "--dimension", "26010")
PICTURES: Mapping[str, Maker] = {
    "curve": by_command(
        "curve.png", "curve", *_ROUND, "--sample-rate", "0.005", "--noise-multiplier", "10", "--plot", "curve.png"
    ),
    "demo": by_command("demo.png", "demo", "--out", "."),
    "explore": of_page("explore"),
    "lift": by_script("picture_of_the_lift.py"),
    "probe-run": by_script("picture_of_probe_run.py"),
    "report": of_page("report"),
    "sampling": by_script("picture_of_sampling.py"),
    "synthetic-delta": by_command("synthetic-delta.png", "reproduce", "synthetic-delta", "--out", "."),
    "synthetic-dimension": by_command("synthetic-dimension.png", "reproduce", "synthetic-dimension", "--out", "."),
}


def main(names: list[str]) -> None:
    """Those that are named, or all."""
    if unknown := [name for name in names if name not in PICTURES]:
        sys.exit(f"no picture {', '.join(unknown)}; there are {', '.join(PICTURES)}")
    for name in names or PICTURES:
        start, target = time.perf_counter(), IMAGES / f"{name}.png"
        unfinished = BUILD / f"{name}.unfinished.png"
        BUILD.mkdir(parents=True, exist_ok=True)
        PICTURES[name](unfinished)
        shutil.move(unfinished, target)
        print(f"{target.relative_to(ROOT)}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
