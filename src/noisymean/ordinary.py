"""Ordinary files, and nothing else: a pipe waits for somebody to write into it, a device has no end, a socket is no file.

What is to be read is opened without waiting and looked at once it is open, so that nothing changes between. Every complaint is an
OSError with its reason, as of any other file that cannot be read. A place to write to is an ordinary file, or free.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

NOT_ORDINARY = "not an ordinary file"


@contextmanager
def opened(path: Path | str) -> Iterator[BinaryIO]:
    """The file, to be read; an OSError if it is none, or no ordinary one."""
    # before it is opened: to open a device may do something
    _check(os.stat(path).st_mode, path)
    with open(path, "rb", opener=_at_once) as stream:
        _check(os.fstat(stream.fileno()).st_mode, path)
        yield stream


def content(path: Path | str, most: int) -> bytes:
    """All of the file, or one byte more than that."""
    with opened(path) as stream:
        return stream.read(most + 1)


def is_there(path: Path) -> bool:
    """Whether something of that name is there; a name that no file can have is that of none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_free(path: Path) -> bool:
    """Whether a file may be put there: nothing is in its place but an ordinary file, or a link to one."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        # no name at all (a zero in it), or one that cannot be there
        return False
    return path.is_file()


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check(mode: int, path: Path | str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, NOT_ORDINARY, str(path))
