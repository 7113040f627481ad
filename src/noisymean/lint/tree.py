"""Which files are read: Python files and notebooks of whole trees, with limits on everything that a hostile tree can grow.

Nothing but ordinary files is opened, and no link is followed but one that is named on the command line: a loop of links, a pipe
and a device are passed over, and said to be. Folders of installed packages and of version control are left out. What a limit
leaves out is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import final

from noisymean.errors import InvalidInput
from noisymean.lint.findings import NotRead
from noisymean.ordinary import NOT_ORDINARY, opened

PYTHON, NOTEBOOK = ".py", ".ipynb"
# Of one file; generated source is longer, and so are notebooks with pictures in them.
MOST_BYTES = {PYTHON: 1 << 20, NOTEBOOK: 1 << 25}
# Of all files that are looked into, and entries of folders that are looked at.
MOST_BYTES_IN_ALL = 1 << 29
MOST_ENTRIES = 300_000
_INSTALLED = frozenset(
    {
        *("node_modules", "__pycache__", "site-packages", "dist-packages", "venv", ".venv", ".tox", ".nox", ".eggs"),
        *(".git", ".hg", ".svn", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints"),
    }
)


@final
@dataclass(frozen=True)
class Found:
    """One file: what to call it, and where it is."""

    name: str
    path: Path

    @property
    def is_notebook(self) -> bool:
        return self.path.suffix == NOTEBOOK


@final
@dataclass
class Tree:
    """The files below some paths; `not_read` fills up on the way."""

    paths: Sequence[Path]
    exclude: Sequence[str] = ()
    not_read: list[NotRead] = field(default_factory=list)
    _entries: int = 0
    _bytes: int = 0

    def files(self) -> Iterator[tuple[Found, bytes]]:
        """Each file once, with what is in it, in the order of their names."""
        seen: set[tuple[int, int]] = set()
        for root in self.paths:
            try:
                exists = root.exists()
            except OSError:
                exists = False
            if not exists:
                raise InvalidInput("path", str(root), "an existing file or folder", "check the spelling")
            if not (root.is_file() or root.is_dir()):
                raise InvalidInput("path", str(root), f"a file or folder; it is {NOT_ORDINARY}", "name a file")
            for found in self._below(root):
                data = self._content(found, seen)
                if data is not None:
                    yield found, data

    def _below(self, root: Path) -> Iterator[Found]:
        """Folder by folder; a stack of our own, since folders may be nested deeper than functions."""
        if not root.is_dir():
            yield Found(root.as_posix() if len(self.paths) > 1 else root.name, root)
            return
        prefix = root.as_posix().rstrip("/") + "/" if len(self.paths) > 1 else ""
        waiting = [(root, "")]
        while waiting:
            folder, name = waiting.pop()
            folders: list[tuple[Path, str]] = []
            for entry in self._entries_of(folder, prefix + name):
                called = name + _printable(entry.name)
                if self._is_excluded(called):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _INSTALLED:
                        folders.append((Path(entry.path), called + "/"))
                elif entry.is_symlink():
                    if Path(entry.name).suffix in MOST_BYTES or _leads_to_folder(entry):
                        self._leave_out(prefix + called, "a link, which is not followed", is_link=True)
                elif Path(entry.name).suffix in MOST_BYTES:
                    yield Found(prefix + called, Path(entry.path))
            waiting += reversed(folders)

    def _entries_of(self, folder: Path, name: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                found = []
                for entry in entries:
                    self._entries += 1
                    if self._entries > MOST_ENTRIES:
                        self._leave_out(
                            name or str(folder), f"more than {MOST_ENTRIES:,} files and folders; name a folder inside"
                        )
                        break
                    found.append(entry)
        except OSError as fault:
            self._leave_out(name or str(folder), fault.strerror or type(fault).__name__)
            return []
        if any(entry.name == "pyvenv.cfg" for entry in found) and name:
            # an environment, whatever it is called
            return []
        return sorted(found, key=lambda entry: entry.name)

    def _is_excluded(self, name: str) -> bool:
        return any(fnmatch(name, one) or fnmatch(name, f"{one.rstrip('/')}/*") for one in self.exclude)

    def _content(self, found: Found, seen: set[tuple[int, int]]) -> bytes | None:
        """What is in a file; None where it is left out."""
        most = MOST_BYTES.get(found.path.suffix, MOST_BYTES[PYTHON])
        try:
            with opened(found.path) as file:
                about = os.fstat(file.fileno())
                if (about.st_dev, about.st_ino) in seen:
                    return None
                seen.add((about.st_dev, about.st_ino))
                if self._bytes > MOST_BYTES_IN_ALL:
                    self._leave_out(found.name, f"beyond {MOST_BYTES_IN_ALL >> 20} MB in all; name a folder inside")
                    return None
                data = file.read(most + 1)
        except OSError as fault:
            self._leave_out(found.name, fault.strerror or type(fault).__name__)
            return None
        self._bytes += len(data)
        if len(data) > most:
            self._leave_out(found.name, f"larger than {most >> 20} MB")
            return None
        return data

    def _leave_out(self, name: str, reason: str, *, is_link: bool = False) -> None:
        self.not_read.append(NotRead(name, reason, is_link))


def _leads_to_folder(link: os.DirEntry[str]) -> bool:
    """Of a loop, or a link to nothing, it is not known."""
    try:
        return link.is_dir()
    except OSError:
        return False


def _printable(name: str) -> str:
    """A name as text: bytes that are none are written out."""
    return os.fsencode(name).decode("utf-8", errors="backslashreplace")
