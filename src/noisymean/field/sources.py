"""A statement in an installed source: told by its text, and looked for, so that the line that is named is the one that ran."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

_MOST_BYTES = 4_000_000


@final
@dataclass(frozen=True)
class Quote:
    """A file below a package's folder, and a part of one of its lines: of the first, or of the first after another."""

    file: str
    text: str
    after: str = ""

    def place(self, package: Path) -> str | None:
        """`file:line` where it is in this installed package; None if it is not there."""
        try:
            content = (package / self.file).read_bytes()[:_MOST_BYTES]
        except OSError:
            return None
        lines = content.decode("utf-8", errors="replace").splitlines()
        start = next((number for number, line in enumerate(lines) if self.after in line), len(lines))
        number = next((number for number, line in enumerate(lines[start:], start + 1) if self.text in line), None)
        return None if number is None else f"{self.file}:{number}"


@final
@dataclass(frozen=True)
class Found:
    """A statement that was found, with its line."""

    place: str
    text: str


def found(quotes: tuple[Quote, ...], package: Path) -> tuple[Found, ...]:
    """The statements that are in the installed package, each with its file and line."""
    return tuple(Found(place, one.text) for one in quotes if (place := one.place(package)) is not None)
