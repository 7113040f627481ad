"""Files that are whole or not there."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream into a file beside `path`, which takes its place once all of it is written; a failure leaves what was there."""
    unfinished = path.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with unfinished.open("xb") as stream:
            yield stream
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
