"""Wheels unpacked side by side into a folder, and that folder as it is later: every file as its wheel records it, no file more.

A wheel lists the SHA-256 of each of its files. The wheel itself has one of the checksums that this package knows, so the list is
as good as those. Scripts, headers and data of a wheel are left out: nothing of them is imported.
"""

from __future__ import annotations

import base64
import csv
import io
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from noisymean import ordinary
from noisymean.targets.processes.pip import InstallFailed
from noisymean.targets.wheels.kept import sha256

_KINDS_OF_CODE = ("purelib", "platlib")


def unpack(wheels: Sequence[Path], into: Path) -> None:
    """Every file of code of the wheels, for its owner alone."""
    into.mkdir(mode=0o700)
    for wheel in wheels:
        with ordinary.opened(wheel) as stream, zipfile.ZipFile(stream) as archive:
            for name, place, _ in _recorded(wheel, archive):
                target = into / place
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # where two wheels have a file of the same name the later one has it, here and below
                target.unlink(missing_ok=True)
                with archive.open(name) as packed, open(target, "xb", opener=_for_its_owner) as file:
                    shutil.copyfileobj(packed, file)


def verify(wheels: Sequence[Path], folder: Path, what: str) -> None:
    """`InstallFailed` names the first file that is not as these wheels have it, that they do not have, or that is missing."""
    expected: dict[str, str] = {}
    for wheel in wheels:
        with ordinary.opened(wheel) as stream, zipfile.ZipFile(stream) as archive:
            expected |= {place: digest for _, place, digest in _recorded(wheel, archive)}
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if (fault := _fault(path, expected.pop(name, None))) is not None:
            raise InstallFailed(f"{what}: {path} {fault}, so it is not run; delete {folder.parent} and try again")
    if expected:
        raise InstallFailed(f"{what}: {folder / min(expected)} is missing; delete {folder.parent} and try again")


def _fault(path: Path, digest: str | None) -> str | None:
    mode = path.lstat().st_mode
    if digest is None:
        return "is not part of it"
    if not stat.S_ISREG(mode):
        return "is no ordinary file"
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "may be written by others"
    return None if base64.urlsafe_b64encode(sha256(path).digest()).rstrip(b"=").decode() == digest else "was changed"


def _files(folder: Path) -> Iterator[Path]:
    """All that is not a folder, and links to folders, which nobody follows."""
    for inside, folders, files in os.walk(folder, onerror=_raise):
        here = Path(inside)
        yield from (here / name for name in files)
        yield from (here / name for name in folders if (here / name).is_symlink())


def _raise(fault: OSError) -> None:
    raise fault


def _recorded(wheel: Path, archive: zipfile.ZipFile) -> Iterator[tuple[str, str, str]]:
    """Of each file of code: its name in the wheel, its place when it is unpacked, and its SHA-256 as the wheel writes it."""
    lists = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith(".dist-info/RECORD")]
    if len(lists) != 1:
        raise InstallFailed(f"{wheel.name}: it has {len(lists)} lists of its files; it must have one")
    for name, checksum, *_ in csv.reader(io.StringIO(archive.read(lists[0]).decode())):
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts:
            raise InstallFailed(f"{wheel.name}: {name} would be outside of it")
        if parts[0].endswith(".data"):
            if parts[1] not in _KINDS_OF_CODE:
                continue
            parts = parts[2:]
        if checksum.startswith("sha256="):
            yield name, "/".join(parts), checksum.removeprefix("sha256=")


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
