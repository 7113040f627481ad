"""Which files are the checkpoints of a run, and in which order: by the number in their names, so that step-9 is before step-10.

The number is the last one in the name of the file, else the last one in that of its folder (checkpoint-100/model.safetensors).
Two neighbours whose numbers are not as far apart as most have a gap between them; across it nothing is computed. Files
that only unpickling could read are refused: that would execute what they hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import final

from noisymean.errors import InvalidInput
from noisymean.ordinary import is_there

READABLE = (".safetensors", ".npz")
PICKLED = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle")


@final
@dataclass(frozen=True)
class Gap:
    """Steps between two neighbours that have no checkpoint."""

    before: str
    after: str


@final
@dataclass(frozen=True)
class Checkpoints:
    """The files in order, where nothing is known between two of them, and those that have no part in it."""

    files: tuple[Path, ...]
    gaps: tuple[Gap, ...]
    # the first checkpoint after each gap, by its place among the files
    restarts: tuple[int, ...]
    left_out: tuple[str, ...]

    @property
    def segments(self) -> tuple[range, ...]:
        """Places of files that follow each other without a gap."""
        edges = [0, *self.restarts, len(self.files)]
        return tuple(range(first, last) for first, last in pairwise(edges))


def found(sources: Sequence[Path], every: int = 1) -> Checkpoints:
    """The checkpoints among `sources`, a folder or a list of files; each `every` steps after the one before."""
    listed = (
        _in_folder(sources[0]) if len(sources) == 1 and is_there(sources[0]) and sources[0].is_dir() else list(sources)
    )
    for one in listed:
        _check(one)
    numbers = [_number(one) for one in listed]
    if all(number is None for number in numbers):
        # a list is in the order in which it was typed
        return Checkpoints(tuple(listed), (), (), ())
    numbered = sorted((number, str(path)) for number, path in zip(numbers, listed, strict=True) if number is not None)
    left_out = tuple(str(path) for number, path in zip(numbers, listed, strict=True) if number is None)
    for (number, path), (again, other) in pairwise(numbered):
        if number == again:
            raise InvalidInput(
                "checkpoints", path, "one file for each step", f"{Path(other).name} has the same number {number}"
            )
    steps = [after[0] - before[0] for before, after in pairwise(numbered)]
    # the usual step; a last checkpoint at an odd place makes a gap and no new unit
    usual = Counter(steps)
    unit = min(usual, key=lambda step: (-usual[step], step), default=1)
    if every == 1 and unit != 1:
        raise InvalidInput(
            "every", 1, f"the steps from one checkpoint to the next, whose numbers go up by {unit}",
            f"--every {unit} if each is that many steps after the one before",
        )  # fmt: skip
    wide = [place for place, step in enumerate(steps) if step != unit]
    gaps = tuple(Gap(Path(numbered[i][1]).name, Path(numbered[i + 1][1]).name) for i in wide)
    return Checkpoints(tuple(Path(path) for _, path in numbered), gaps, tuple(i + 1 for i in wide), left_out)


def _in_folder(folder: Path) -> list[Path]:
    """The files of a folder that can be read; a complaint that helps if there are none."""
    inside = sorted(one for one in folder.iterdir() if one.is_file())
    readable = [one for one in inside if one.suffix in READABLE]
    if readable:
        return readable
    for one in inside:
        _check_not_pickled(one)
    below = next((one for one in sorted(folder.glob("*/*")) if one.suffix in READABLE), None)
    raise InvalidInput(
        "checkpoints", str(folder), f"a folder of {' or '.join(READABLE)} files",
        "one state dict for each step" if below is None else f"they are in folders below: give {folder.name}/*/{below.name}",
    )  # fmt: skip


def _check(path: Path) -> None:
    _check_not_pickled(path)
    if path.suffix not in READABLE:
        raise InvalidInput("checkpoints", str(path), f"a folder, or files {' or '.join(READABLE)}")
    if not path.is_file():
        remedy = "a folder is given by itself" if path.is_dir() else "or a folder of them"
        raise InvalidInput("checkpoints", str(path), "an ordinary file that exists", remedy)


def _check_not_pickled(path: Path) -> None:
    if path.suffix in PICKLED:
        raise InvalidInput(
            "checkpoints",
            path.name,
            f"{' or '.join(READABLE)}, which execute nothing when they are read",
            f'convert it: state = torch.load("{path.name}", weights_only=True); '
            f'safetensors.torch.save_file(state, "{path.stem}.safetensors")',
        )


def _number(path: Path) -> int | None:
    """The last number in the name of the file, else of its folder."""
    for name in (path.stem, path.absolute().parent.name):
        found = re.findall(r"[0-9]{1,18}", name)
        if found:
            return int(found[-1])
    return None
