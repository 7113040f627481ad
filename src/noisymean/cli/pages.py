"""Where a page goes: refused before anything is computed if it could not be written, and written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from noisymean.cli.complaints import option
from noisymean.cli.output import in_a_folder, written
from noisymean.errors import InvalidInput
from noisymean.report.files import whole_file


def page_file(name: str, text: str) -> Path:
    """The file of option `name`."""
    path = Path(text)
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        raise InvalidInput(name, text, "a file named *.html", f"e.g. {option(name)} {name}.html")
    return in_a_folder(name, path)


def write_page(name: str, path: Path, content: str) -> None:
    """Write the page; a failure names the option and leaves nothing behind."""
    with written(name, path), whole_file(path) as stream:
        # an unpaired surrogate, which JSON may hold, has no UTF-8
        stream.write(content.encode("utf-8", errors="replace"))
