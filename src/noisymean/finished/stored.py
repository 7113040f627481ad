"""One file of tensors: what it holds is listed first, then pieces are read. Nothing in it is ever unpickled.

safetensors is a header and raw numbers. An .npz is a zip of arrays, each with a header of its own: that header is read before the
array, objects are refused, and so is an array that claims more numbers than its file can reasonably hold.
"""

from __future__ import annotations

import lzma
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np

from noisymean.errors import InvalidInput, MissingDependency
from noisymean.numerics.logs import Array

# The types that hold weights, and from one number to the next above 1.
RESOLUTION = {"F16": 2.0**-10, "F32": 2.0**-23, "F64": 2.0**-52}
# Weights do not become so much smaller when they are compressed; what does is made to fill the memory.
_MOST_EXPANSION, _ALWAYS_ALLOWED = 50, 2**24


@final
@dataclass(frozen=True)
class Entry:
    """A tensor by its shape and its type, in the words of safetensors."""

    shape: tuple[int, ...]
    kind: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        return self.kind in RESOLUTION


@final
@dataclass(frozen=True)
class Part:
    """From `start` to `stop` along one axis."""

    axis: int
    start: int
    stop: int


class Stored(Protocol):
    """A file that is open."""

    @property
    def entries(self) -> Mapping[str, Entry]:
        """What is in it."""

    # whether a part of a tensor can be read by itself
    splits: bool

    def read(self, name: str, part: Part | None) -> Array:
        """The numbers of a tensor, or of this part of it, one after the other."""


@contextmanager
def opened(path: Path) -> Iterator[Stored]:
    """The file, closed again afterwards; whatever is wrong with it is one complaint that names it."""
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                yield _Npz(path, archive)
        else:
            with _safetensors().safe_open(path, framework="numpy") as held:
                yield _Safetensors(held)
    except InvalidInput:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as fault:
        raise _broken(path, fault) from None
    except OSError as fault:
        raise InvalidInput("checkpoints", str(path), "a file that can be read", fault.strerror or str(fault)) from None
    except Exception as fault:
        # the package's own kind of error has no parent but this
        if type(fault).__name__ != "SafetensorError":
            raise
        raise _broken(path, fault) from None


def _safetensors() -> Any:
    try:
        return import_module("safetensors")
    except ImportError:
        raise MissingDependency("safetensors", "audit") from None


def _broken(path: Path, fault: object) -> InvalidInput:
    reason = " ".join(str(fault).split())[:80]
    return InvalidInput("checkpoints", path.name, f"a whole {path.suffix} file", f"this one is not ({reason})")


@final
class _Safetensors:
    splits = True

    def __init__(self, held: Any) -> None:
        self._held = held
        slices = {name: held.get_slice(name) for name in held.keys()}  # noqa: SIM118
        self.entries = {name: Entry(tuple(one.get_shape()), str(one.get_dtype())) for name, one in slices.items()}

    def read(self, name: str, part: Part | None) -> Array:
        if part is None:
            return np.asarray(self._held.get_tensor(name)).ravel()
        before = (slice(None),) * part.axis
        return np.asarray(self._held.get_slice(name)[(*before, slice(part.start, part.stop))]).ravel()


@final
class _Npz:
    # a compressed array has no parts
    splits = False

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path, self._archive = path, archive
        members = [one for one in archive.infolist() if not one.is_dir()]
        declared, on_disk = sum(one.file_size for one in members), path.stat().st_size
        if declared > _ALWAYS_ALLOWED + _MOST_EXPANSION * on_disk:
            raise InvalidInput(
                "checkpoints", path.name, f"at most {_MOST_EXPANSION} times as large when unpacked",
                f"{on_disk:,} bytes say that they are {declared:,}",
            )  # fmt: skip
        self.entries = {one.filename.removesuffix(".npy"): self._entry(one) for one in members}

    def _entry(self, member: zipfile.ZipInfo) -> Entry:
        with self._archive.open(member) as stream:
            try:
                version = np.lib.format.read_magic(stream)
                reader = (
                    np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                )
                shape, _, kind = reader(stream)
            except ValueError as fault:
                raise _broken(self._path, fault) from None
            held = member.file_size - stream.tell()
        if kind.hasobject:
            raise InvalidInput(
                "checkpoints", f"{self._path.name}: {member.filename}", "an array of numbers",
                "it holds Python objects, which only unpickling could read",
            )  # fmt: skip
        if math.prod(shape) * kind.itemsize != held:
            raise _broken(self._path, f"{member.filename} holds {held:,} bytes and says otherwise")
        return Entry(tuple(shape), f"{kind.kind.upper()}{8 * kind.itemsize}")

    def read(self, name: str, part: Part | None) -> Array:
        assert part is None, "an array of an .npz is read as a whole"
        held = self._archive.namelist()
        with self._archive.open(name if name in held else f"{name}.npy") as stream:
            array = np.lib.format.read_array(stream, allow_pickle=False)
        return np.ascontiguousarray(array).ravel()
