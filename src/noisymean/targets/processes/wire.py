"""Two processes: frames of JSON over pipes, and arrays in memory that both have mapped.

A frame is its length in four bytes and that much UTF-8. An array lives in a file of the memory file system (or, where
there is none, of the temporary folder); its name travels in a frame, and it is unlinked as soon as both have mapped it, so
that nothing is left behind whatever happens to either. Neither side ever unpickles anything.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, final

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct(">I")
_LONGEST = 1 << 28
_MEMORY = Path("/dev/shm")


def send(stream: IO[bytes], message: Mapping[str, Any]) -> None:
    """Write one message as a frame, at once."""
    content = json.dumps(message, allow_nan=False).encode()
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next frame, or None at the end; and where what comes is no frame, after which nothing can be one."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    content = stream.read(length) if length <= _LONGEST else b""
    if len(content) < length:
        return None
    try:
        message = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


@final
class Lender:
    """Hands out mapped arrays, and the same memory again once nobody holds the array that was handed out."""

    def __init__(self) -> None:
        self._segments: list[_Segment] = []

    def paths(self) -> list[str]:
        """The files that may be named again."""
        return [str(segment.path) for segment in self._segments]

    def lend(self, shape: tuple[int, ...], dtype: str = "<f8") -> tuple[NDArray[Any], dict[str, Any]]:
        """An array, its content undefined, and how the other process finds it."""
        count = int(np.prod(shape, dtype=np.int64))
        size = max(1, count * np.dtype(dtype).itemsize)
        segment = next((one for one in self._segments if one.free() and len(one.memory) >= size), None)
        if segment is None:
            self._segments = [one for one in self._segments if not one.free()]
            segment = _Segment(size)
            self._segments.append(segment)
        flat = np.frombuffer(segment.memory, dtype, count=count)
        segment.lent = weakref.ref(flat)
        described = {"path": str(segment.path), "shape": list(shape), "dtype": dtype}
        return flat.reshape(shape), described

    def unlink(self) -> None:
        """Take the names away, once the other process has seen them; the memory stays as long as it is mapped."""
        for segment in self._segments:
            segment.path.unlink(missing_ok=True)


@final
class _Segment:
    """A file of the memory file system, mapped."""

    def __init__(self, size: int) -> None:
        folder = _MEMORY if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else None
        handle, name = tempfile.mkstemp(prefix="noisymean-", dir=folder)
        self.path = Path(name)
        self.lent: weakref.ref[NDArray[Any]] | None = None
        try:
            os.truncate(handle, size)
            self.memory = mmap.mmap(handle, size)
        except BaseException:
            self.path.unlink()
            raise
        finally:
            os.close(handle)

    def free(self) -> bool:
        return self.lent is None or self.lent() is None


@final
class Borrower:
    """The other side of a lender: maps a file when it is first named."""

    def __init__(self) -> None:
        self._mapped: dict[str, mmap.mmap] = {}

    def borrow(self, described: Mapping[str, Any]) -> NDArray[Any]:
        """The array that the other process has described."""
        path = str(described["path"])
        if path not in self._mapped:
            with open(path, "r+b") as file:
                self._mapped[path] = mmap.mmap(file.fileno(), 0)
        shape = tuple(int(size) for size in described["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._mapped[path], np.dtype(described["dtype"]), count=count).reshape(shape)

    def keep(self, paths: Sequence[str]) -> None:
        """Forget all files but these."""
        self._mapped = {path: memory for path, memory in self._mapped.items() if path in paths}
