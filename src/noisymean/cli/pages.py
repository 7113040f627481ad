"""Where a page goes: refused before anything is computed if it could not be written, and written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from noisymean.cli.complaints import option
from noisymean.errors import InvalidInput


def page_file(name: str, text: str) -> Path:
    """The file of option `name`."""
    path = Path(text)
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        raise InvalidInput(name, text, "a file named *.html", f"e.g. {option(name)} {name}.html")
    if not path.parent.is_dir():
        raise InvalidInput(
            name, text, "a file in an existing folder that can be written", f"create {path.parent} first"
        )
    if not os.access(path.parent, os.W_OK):
        raise InvalidInput(name, text, "a file in a folder that can be written", "choose another folder")
    return path


def write_page(name: str, path: Path, content: str) -> None:
    """First beside its place under another name, then moved into it; a failure names the option."""
    unfinished: Path | None = None
    try:
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".writing-", delete=False) as file:
            unfinished = Path(file.name)
            # an unpaired surrogate, which JSON may hold, has no UTF-8
            file.write(content.encode("utf-8", errors="replace"))
        unfinished.chmod(0o644)
        unfinished.replace(path)
    except BaseException as fault:
        if unfinished is not None:
            unfinished.unlink(missing_ok=True)
        if isinstance(fault, OSError):
            raise InvalidInput(name, str(path), "a file that can be written", fault.strerror or str(fault)) from None
        raise
