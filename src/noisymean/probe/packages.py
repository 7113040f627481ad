"""Source code to read: a folder, the release that is installed, or a wheel from the index, unpacked into the cache.

Wheels only: a source distribution would run its own build to be opened. Nothing that is unpacked is ever imported.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.folder import own_folder
from noisymean.targets.opacus_releases import install
from noisymean.targets.opacus_releases.releases import Release
from noisymean.targets.processes.pip import run_pip

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(==[A-Za-z0-9.!+*_-]+)?")
_MOST_BYTES = 1 << 30


class DownloadFailed(NoisymeanError):
    """A package could not be obtained as a wheel."""


def source_of(text: str) -> Path:
    """The folder of a path, or of a package by its name on the index (NAME or NAME==VERSION)."""
    path = Path(text)
    if path.exists():
        return path
    if "/" in text or "\\" in text or text.endswith(".py"):
        raise InvalidInput(
            "package", text, "an existing file or folder, or the name of a package", f"there is no {text}"
        )
    if not _NAME.fullmatch(text):
        raise InvalidInput(
            "package", text, "an existing folder or the name of a package", "e.g. noisymean code-audit optax"
        )
    place = own_folder("packages") / text.replace("==", "-").lower()
    if not place.is_dir():
        _download(text, place)
    return place


@contextlib.contextmanager
def opacus_source(release: Release) -> Iterator[Path]:
    """The package folder of a release of Opacus, found without importing it; of a wheel it is there as long as it is read."""
    spec = importlib.util.find_spec("opacus") if install.is_installed(release) else None
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent
        return
    content = install.source_of(release)
    with tempfile.TemporaryDirectory(prefix="noisymean-") as scratch:
        unpacked = Path(scratch) / "unpacked"
        _unpack(f"opacus {release.version}", io.BytesIO(content), unpacked)
        yield unpacked / "opacus"


def _download(name: str, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".unpacking-") as scratch:
        wheels, unpacked = Path(scratch) / "wheels", Path(scratch) / "unpacked"
        failed = run_pip("download", [name], "--dest", str(wheels))
        found = sorted(wheels.glob("*.whl")) if failed is None else []
        if len(found) != 1:
            reason = failed or "the index has no wheel of it"
            raise DownloadFailed(f"{name}: {reason}; unpack its source yourself and give the folder")
        with found[0].open("rb") as wheel:
            _unpack(found[0].name, wheel, unpacked)
        unpacked.rename(place)


def _unpack(name: str, wheel: IO[bytes], into: Path) -> None:
    """Python files only, none of them outside the folder."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            wanted = [one for one in archive.infolist() if one.filename.endswith(".py")]
            if sum(one.file_size for one in wanted) > _MOST_BYTES:
                raise DownloadFailed(f"{name}: more than {_MOST_BYTES >> 20} MB of source; unpack it yourself")
            into.mkdir()
            for one in wanted:
                parts = PurePosixPath(one.filename).parts
                if ".." not in parts and not PurePosixPath(one.filename).is_absolute():
                    archive.extract(one, into)
    except zipfile.BadZipFile as fault:
        raise DownloadFailed(f"{name}: {fault}; download it again") from None
