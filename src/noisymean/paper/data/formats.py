"""Files of images -> arrays of bytes. Whatever a file holds, it is read as data and never executed.

idx       MNIST's format: 0, 0, type, number of axes, the axes as big-endian 32-bit numbers, then the bytes
strip     a PNG of (count, pixels) in RGB, a row for each image
batch     CIFAR-10's Python batches: a pickle, of which only the opcodes are scanned; no object is built from it
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import pickletools
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noisymean.errors import InvalidInput, MissingDependency

Bytes = NDArray[np.uint8]

_UNSIGNED_BYTE = 0x08
_CIFAR_PIXELS = 3 * 32 * 32
_OBTAIN = "fetch it again with 'noisymean data fetch NAME'"


def read_idx(path: Path) -> Bytes:
    """The array in an idx file, compressed (.gz) or not."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTE]):
        raise _broken(path, "an idx file of unsigned bytes")
    axes = content[3]
    start = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", content[4:start]) if len(content) >= start else ()
    if not shape or len(content) - start != int(np.prod(shape, dtype=np.int64)):
        raise _broken(path, "an idx file as long as its header says")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_strip(path: Path) -> Bytes:
    """The images of a PNG whose rows are 32x32 RGB images."""
    if importlib.util.find_spec("PIL") is None:
        raise MissingDependency("pillow", "audit")
    from PIL import Image

    with Image.open(path) as picture:
        if picture.format != "PNG" or picture.width != 32 * 32:
            raise _broken(path, "a PNG, 1024 pixels wide")
        return np.asarray(picture.convert("RGB"), np.uint8).reshape(-1, 32, 32, 3)


def read_labels(path: Path) -> Bytes:
    """A JSON list of labels."""
    labels = json.loads(path.read_bytes())
    if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 256 for label in labels):
        raise _broken(path, "a JSON list of labels")
    return np.asarray(labels, np.uint8)


def read_batch(path: Path) -> tuple[Bytes, Bytes]:
    """Images and labels of a CIFAR-10 batch: the longest byte string of the pickle, and the list that follows 'labels'."""
    pixels, labels, collecting = b"", list[int](), False
    try:
        for opcode, value, _ in pickletools.genops(path.read_bytes()):
            if "BINSTRING" in opcode.name or "BINBYTES" in opcode.name or "BINUNICODE" in opcode.name:
                # a string of Python 2 is bytes that pickletools shows as latin-1
                text = value if isinstance(value, bytes) else str(value).encode("latin-1", "replace")
                collecting = text == b"labels"
                pixels = max(pixels, text, key=len)
            elif collecting and opcode.name in ("BININT1", "BININT2", "BININT"):
                labels.append(int(value or 0))
    except ValueError:
        raise _broken(path, "a CIFAR-10 batch") from None
    if len(pixels) != _CIFAR_PIXELS * len(labels) or not labels:
        raise _broken(path, "a CIFAR-10 batch")
    planes = np.frombuffer(pixels, np.uint8).reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), np.asarray(labels, np.uint8)


def _broken(path: Path, expected: str) -> InvalidInput:
    return InvalidInput("file", path.name, expected, _OBTAIN)
