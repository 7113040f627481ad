"""What the optimizer was handed at each step, in blocks of columns: each file is read once, and no run is ever held as a whole.

A block has all steps of some parameters, as many as fit into BLOCK_BYTES. What is no trained weight is left out and named:
integers, the running statistics of normalisation layers, a second name of the same numbers, tensors that never move; so is any
single coordinate that never moves.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import final

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.finished.checkpoints import Checkpoints
from noisymean.finished.optimizers import Descent
from noisymean.finished.stored import RESOLUTION, Entry, Part, opened
from noisymean.numerics.logs import Array

BLOCK_BYTES = 2**26
# What cannot be read in parts, such as an array of an .npz, is held as a whole, in all files: no more than this.
MOST_BYTES = 2**31
# Of fewer gradients in a row nothing is told: most of what they hold is slow.
LEAST_STEPS = 8
_RUNNING = ("running_mean", "running_var", "num_batches_tracked")
Progress = Callable[[int, int], None]


class Why(Enum):
    """Why a tensor has no part in it."""

    INTEGER = "no floating-point numbers"
    BUFFER = "a running statistic"
    SAME = "the same numbers under another name"
    ASKED = "as asked"
    STILL = "never changes"
    EMPTY = "empty"


@final
@dataclass(frozen=True)
class Block:
    """Gradients of some parameters of one tensor: a row for each step."""

    tensor: str
    gradients: Array
    # coordinates that never moved, and updates of the others that were exactly zero
    still: int
    zeros: int
    # the variance of the rounding of these weights, summed, in units of a gradient
    rounding: float


@final
@dataclass(frozen=True)
class _Piece:
    """Part of a tensor that is read together: a range of one axis, or all of it."""

    tensor: str
    part: Part | None
    size: int


@final
@dataclass
class Run:
    """The checkpoints of a run, and how its optimizer turns gradients into updates."""

    checkpoints: Checkpoints
    descent: Descent
    every: int = 1
    asked: tuple[str, ...] = ()
    left_out: dict[str, Why] = field(default_factory=dict)

    @property
    def series(self) -> tuple[int, ...]:
        """How many gradients each part without a gap tells."""
        return tuple(len(one) - 1 - self.descent.lost for one in self._long_enough)

    @property
    def too_short(self) -> int:
        """How many parts have too few checkpoints in a row to tell anything."""
        return len(self.checkpoints.segments) - len(self._long_enough)

    @property
    def _long_enough(self) -> list[range]:
        return [one for one in self.checkpoints.segments if len(one) - 1 - self.descent.lost >= LEAST_STEPS]

    def blocks(self, progress: Progress) -> Iterator[Block]:
        """All of it, block by block."""
        entries = self._entries()
        pieces = list(self._pieces(entries))
        total, done = sum(one.size for one in pieces), 0
        moved: Counter[str] = Counter()
        energy = np.zeros(len(self.checkpoints.files) - 1)
        width = max(1, BLOCK_BYTES // (8 * len(self.checkpoints.files)))
        for group in _groups(pieces, width):
            weights, resolution = self._read(group, entries)
            column = 0
            for piece in group:
                columns = slice(column, column + piece.size)
                column += piece.size
                made, moving = self._block(piece.tensor, weights[:, columns], resolution[piece.tensor])
                energy += moving
                moved[piece.tensor] += made.gradients.shape[1]
                if made.gradients.shape[1]:
                    yield made
                done += piece.size
                progress(done, total)
        self.left_out |= {one.tensor: Why.STILL for one in pieces if not moved[one.tensor]}
        self._check_moved(energy)

    def _check_moved(self, energy: Array) -> None:
        for place in np.flatnonzero(energy == 0.0):
            if not energy.any():
                raise InvalidInput("checkpoints", "no weight ever changes", "of a run that was trained")
            before, after = (self.checkpoints.files[place + i].name for i in (0, 1))
            raise InvalidInput(
                "checkpoints", f"{before}, {after}", "one for each step, and no two the same",
                "no noisy step lies between these: leave one of them out",
            )  # fmt: skip

    # --- which tensors -------------------------------------------------------------------------------------------------

    def _entries(self) -> Mapping[str, Entry]:
        """The trained tensors, which every file must have."""
        first: Mapping[str, Entry] | None = None
        for path in self.checkpoints.files:
            with opened(path) as stored:
                found = dict(stored.entries)
            if first is None:
                first = found
            _check_same(self.checkpoints.files[0], first, path, found)
        assert first is not None
        for name in self.asked:
            if name not in first:
                raise InvalidInput("leave_out", name, "the name of a tensor", f"e.g. {next(iter(first))}")
        self.left_out.update({name: why for name, one in first.items() if (why := self._why(name, one)) is not None})
        kept = {name: one for name, one in first.items() if name not in self.left_out}
        for name in self._second_names(kept):
            self.left_out[name] = Why.SAME
            del kept[name]
        if not kept:
            raise InvalidInput(
                "checkpoints", self.checkpoints.files[0].name, "a state dict with weights", "this one has none"
            )
        return kept

    def _why(self, name: str, entry: Entry) -> Why | None:
        if name in self.asked:
            return Why.ASKED
        if entry.size == 0:
            return Why.EMPTY
        if entry.kind.startswith(("BF", "F8")):
            raise InvalidInput(
                "checkpoints",
                f"{name} in {entry.kind}",
                "weights in single precision",
                "coarser ones round the noise away",
            )
        if not entry.is_float:
            return Why.INTEGER
        return Why.BUFFER if name.rpartition(".")[2] in _RUNNING else None

    def _second_names(self, entries: Mapping[str, Entry]) -> list[str]:
        """Tensors whose numbers another one has as well: they would count twice."""
        sizes = Counter(one.shape for one in entries.values() if one.size > 1)
        seen: dict[bytes, str] = {}
        again = []
        with opened(self.checkpoints.files[-1]) as stored:
            for name, entry in entries.items():
                if sizes[entry.shape] < 2:
                    continue
                if 8 * entry.size > MOST_BYTES:
                    continue
                numbers = stored.read(name, None)
                digest = hashlib.sha256(f"{entry}".encode() + numbers.tobytes()).digest()
                if digest in seen and numbers.min() != numbers.max():
                    again.append(name)
                seen.setdefault(digest, name)
        return again

    def _pieces(self, entries: Mapping[str, Entry]) -> Iterator[_Piece]:
        with opened(self.checkpoints.files[0]) as stored:
            splits = stored.splits
        width = max(1, BLOCK_BYTES // (8 * len(self.checkpoints.files)))
        for name, entry in entries.items():
            axis = int(np.argmax(entry.shape)) if entry.shape else 0
            long = entry.shape[axis] if splits and entry.shape and entry.size > width else 1
            each = entry.size // long
            if 8 * each * len(self.checkpoints.files) > MOST_BYTES:
                raise InvalidInput(
                    "checkpoints", f"{name} of {each:,} numbers, in {len(self.checkpoints.files)} files",
                    f"at most {MOST_BYTES >> 30} GB at once", "store it as .safetensors, or give fewer files",
                )  # fmt: skip
            if long == 1:
                yield _Piece(name, None, entry.size)
                continue
            rows = max(1, width // each)
            for start in range(0, long, rows):
                stop = min(start + rows, long)
                yield _Piece(name, Part(axis, start, stop), (stop - start) * each)

    # --- their numbers -------------------------------------------------------------------------------------------------

    def _read(self, group: Sequence[_Piece], entries: Mapping[str, Entry]) -> tuple[Array, dict[str, float]]:
        """These pieces in every file, and the relative resolution of their numbers."""
        weights = np.empty((len(self.checkpoints.files), sum(one.size for one in group)))
        for row, path in enumerate(self.checkpoints.files):
            with opened(path) as stored:
                column = 0
                for piece in group:
                    numbers = stored.read(piece.tensor, piece.part)
                    weights[row, column : column + piece.size] = numbers
                    column += piece.size
            if not np.isfinite(weights[row]).all():
                raise InvalidInput(
                    "checkpoints", path.name, "finite weights", "leave out what comes after the run broke"
                )
        return weights, {one.tensor: RESOLUTION[entries[one.tensor].kind] for one in group}

    def _block(self, tensor: str, weights: Array, resolution: float) -> tuple[Block, Array]:
        """The gradients of a piece, and how far it moved in each update."""
        updates = np.diff(weights, axis=0)
        energy = np.einsum("ij,ij->i", updates, updates)
        moving = updates.any(axis=0)
        if not moving.all():
            updates, weights = updates[:, moving], weights[:, moving]
        rows = []
        for one in self._long_enough:
            inside = slice(one.start, one.stop - 1)
            rows.append(self.descent.gradients(updates[inside], weights[inside]))
        gradients = np.concatenate(rows) if rows else np.empty((0, updates.shape[1]))
        # the last place of a number between 2^e and 2^(e+1) is worth 2^e times the resolution
        places = np.exp2(np.floor(np.log2(np.maximum(np.abs(weights).max(axis=0, initial=0.0), 1e-300)))) * resolution
        rounding = float(np.sum(places**2)) / 12.0 * self.descent.of_rounding / self.descent.learning_rate**2
        block = Block(
            tensor,
            gradients / math.sqrt(self.every),
            still=int((~moving).sum()),
            zeros=int((updates == 0.0).sum()),
            rounding=rounding / self.every,
        )
        return block, energy


@final
@dataclass
class Updates:
    """A run that is given as its updates: an array with a row w_t - w_{t-1} for each step."""

    updates: Array
    descent: Descent

    left_out: dict[str, Why] = field(default_factory=dict)
    too_short: int = 0

    @property
    def series(self) -> tuple[int, ...]:
        return (max(0, len(self.updates) - self.descent.lost),)

    def blocks(self, progress: Progress) -> Iterator[Block]:
        """All of it, block by block."""
        steps, wide = self.updates.shape
        still_rows = np.flatnonzero(~self.updates.any(axis=1))
        if still_rows.size:
            raise InvalidInput("updates", f"row {still_rows[0]} is zero", "noisy in every step", "leave it out")
        width = max(1, BLOCK_BYTES // (8 * steps))
        for start in range(0, wide, width):
            part = np.asarray(self.updates[:, start : start + width], dtype=np.float64)
            if not np.isfinite(part).all():
                raise InvalidInput("updates", "not finite", "finite numbers")
            moving = part.any(axis=0)
            part = part[:, moving]
            zeros, still = int((part == 0.0).sum()), int((~moving).sum())
            # of the numbers themselves; what was lost when they were made is not in them
            finest = np.spacing(np.abs(self.updates[:, start : start + width][:, moving])).astype(np.float64)
            rounding = float(np.sum(np.mean(finest**2, axis=0))) / 12.0 * self.descent.of_rounding
            gradients = self.descent.gradients(part, None)
            yield Block("updates", gradients, still, zeros, rounding / self.descent.learning_rate**2)
            progress(min(start + width, wide), wide)


def array_in(path: Path) -> Array | None:
    """The one array of updates in a file: the only one, or the one of that name; None if the file is something else."""
    with opened(path) as stored:
        names = list(stored.entries)
        name = names[0] if len(names) == 1 else "updates" if "updates" in names else None
        if name is None:
            return None
        entry = stored.entries[name]
        if len(entry.shape) != 2 or not entry.is_float:
            return None
        if 8 * entry.size > MOST_BYTES:
            raise InvalidInput(
                "checkpoints", f"{entry.size:,} updates in one array", f"at most {MOST_BYTES >> 30} GB at once",
                "give checkpoints, which are read in parts",
            )  # fmt: skip
        return stored.read(name, None).reshape(entry.shape)


def _groups(pieces: Sequence[_Piece], width: int) -> Iterator[list[_Piece]]:
    """Pieces that fit into a block together."""
    group: list[_Piece] = []
    for piece in pieces:
        if group and sum(one.size for one in group) + piece.size > width:
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _check_same(first: Path, wanted: Mapping[str, Entry], path: Path, found: Mapping[str, Entry]) -> None:
    """The same tensors, of the same shapes, in all files."""
    for name in wanted.keys() ^ found.keys():
        has, lacks = (first, path) if name in wanted else (path, first)
        raise InvalidInput(
            "checkpoints", path.name, "a state dict of the same model", f"{has.name} has {name}, {lacks.name} has not"
        )
    for name, entry in wanted.items():
        if found[name] != entry:
            shapes = (f"{list(one.shape)} in {one.kind}" for one in (entry, found[name]))
            raise InvalidInput(
                "checkpoints", f"{path.name}: {name}", "the same in all files", " and then ".join(shapes)
            )
