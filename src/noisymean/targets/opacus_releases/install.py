"""A release of Opacus in a folder of the user's cache: the wheel without its dependencies, whose pins no current torch meets.

pip is called by package name with an argument list; wheels only, so that nothing is executed. What it unpacked is checked
against the wheel's own list of checksums, and the finished folder is renamed into place: it is whole or not there. A lock
keeps two processes from doing the same work; without locks (Windows) the slower one throws its copy away.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import importlib.metadata
import importlib.util
import tempfile
from pathlib import Path

from noisymean.errors import MissingDependency, NoisymeanError
from noisymean.folder import cache_folder
from noisymean.targets.opacus_releases.releases import Release
from noisymean.targets.processes.pip import InstallFailed, locked, run_pip

__all__ = ["InstallFailed", "installed", "installed_version", "is_installed", "verify"]


def installed_version() -> str:
    """The release that `import opacus` gives in this environment."""
    if importlib.util.find_spec("torch") is None:
        raise MissingDependency("torch", "audit")
    try:
        return importlib.metadata.version("opacus")
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependency("opacus", "audit") from None


def is_installed(release: Release) -> bool:
    """Whether `import opacus` gives this release."""
    try:
        return installed_version() == release.version
    except NoisymeanError:
        return False


def installed(release: Release) -> Path:
    """The folder to put on the path for this release, installed now if it is not there."""
    if importlib.util.find_spec("torch") is None:
        raise MissingDependency("torch", "audit")
    place = cache_folder() / "opacus" / release.version
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked(place.parent / f".{release.version}.lock"):
        if not place.is_dir():
            _install(release, place)
    return place


def _install(release: Release, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".installing-") as scratch:
        target = Path(scratch) / "opacus"
        failed = run_pip("install", [f"opacus=={release.version}"], "--no-compile", "--target", str(target))
        if failed is not None:
            reason = failed or "pip gave no reason"
            raise InstallFailed(f"opacus=={release.version}: {reason}; check the network and 'python -m pip --version'")
        verify(release, target)
        with contextlib.suppress(OSError):
            target.rename(place)
    if not place.is_dir():
        raise InstallFailed(
            f"opacus=={release.version}: {place} could not be written; choose a folder with NOISYMEAN_CACHE"
        )


def verify(release: Release, folder: Path) -> None:
    """The release is the one asked for, and every file has the checksum that its wheel lists."""
    found = [place for place in folder.glob("opacus-*.dist-info") if (place / "RECORD").is_file()]
    metadata = (
        (found[0] / "METADATA").read_text(encoding="utf-8", errors="replace").splitlines() if len(found) == 1 else []
    )
    if f"Version: {release.version}" not in metadata:
        raise InstallFailed(f"opacus=={release.version}: {folder} holds another release; delete it and try again")
    with (found[0] / "RECORD").open(encoding="utf-8", newline="") as record:
        for name, checksum, *_ in csv.reader(record):
            if checksum.startswith("sha256=") and name.startswith("opacus/"):
                digest = hashlib.sha256((folder / name).read_bytes()).digest()
                if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != checksum.removeprefix("sha256="):
                    raise InstallFailed(f"opacus=={release.version}: {name} was changed; delete {folder} and try again")
