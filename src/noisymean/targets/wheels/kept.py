"""A wheel in the cache: downloaded against its pins, whole or not there, and read no other way than verified.

A file that is not what was published is never used, and never taken away in silence: whoever put it there, its owner should know.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisymean import ordinary
from noisymean.folder import cache_folder, own_folder
from noisymean.targets.processes.pip import InstallFailed, locked, run_pip
from noisymean.targets.wheels.pins import Pin

_FOLDER = "wheels"
# No wheel that is read as a whole is near it.
_MOST_BYTES = 1 << 27
_PART = 1 << 20


def kept(pin: Pin) -> Path:
    """The wheel in the cache, downloaded now if it is not there, and verified now."""
    try:
        folder = own_folder(_FOLDER)
        found = _found(pin, folder)
        if found is None:
            with locked(folder / f".{pin.title}.lock"):
                found = _found(pin, folder) or _fetched(pin, folder)
        content_of(found, pin.files[found.name])
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise InstallFailed(
            f"{pin.title}: its wheel could not be kept ({reason}); choose a folder with NOISYMEAN_CACHE"
        ) from None
    return found


def is_kept(pin: Pin) -> bool:
    """Whether there is a wheel of it in the cache; whether it is the right one is seen when it is used."""
    return _found(pin, cache_folder() / _FOLDER) is not None


def content_of(wheel: Path, digest: str) -> bytes:
    """The bytes of a wheel, which are those with this SHA-256."""
    try:
        content = ordinary.content(wheel, _MOST_BYTES)
    except OSError as fault:
        raise InstallFailed(f"{wheel}: {fault.strerror or fault}; delete it and try again") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise InstallFailed(
            f"{wheel} is not what was published under its name, so it is not run; delete it and try again"
        )
    return content


def download(pins: Sequence[Pin], into: Path, what: str) -> list[Path]:
    """The wheel of each that fits this interpreter, in `into`; pip refuses whatever has none of the checksums, and so do we."""
    into.mkdir(mode=0o700)
    with tempfile.TemporaryDirectory(dir=into.parent) as scratch:
        listed = Path(scratch) / "requirements.txt"
        listed.write_text("".join(f"{pin.requirement}\n" for pin in pins), encoding="utf-8")
        failed = run_pip("download", [], "--require-hashes", "--requirement", str(listed), "--dest", str(into))
    if failed is not None:
        raise InstallFailed(
            f"{what}: {failed or 'pip gave no reason'}; check the network and 'python -m pip --version'"
        )
    return known(pins, into, what)


def known(pins: Sequence[Pin], folder: Path, what: str) -> list[Path]:
    """The wheels in a folder, in their order: one of each pin, with its checksum, and nothing else."""
    left = {name: pin for pin in pins for name in pin.files}
    found = []
    for wheel in sorted(folder.iterdir()):
        pin = left.get(wheel.name)
        if pin is None:
            raise InstallFailed(f"{what}: {wheel} is none of its wheels, so it is not run; delete it and try again")
        same = sha256(wheel).hexdigest() == pin.files[wheel.name]
        if not same:
            raise InstallFailed(
                f"{what}: {wheel} is not what was published under its name, so it is not run; delete it and try again"
            )
        # one wheel of each
        left = {name: one for name, one in left.items() if one is not pin}
        found.append(wheel)
    if left:
        absent = next(iter(left.values())).title
        raise InstallFailed(f"{what}: {folder} has no wheel of {absent}; delete it and try again")
    return found


def sha256(path: Path) -> Any:
    """The hash of an ordinary file, of whatever size."""
    found = hashlib.sha256()
    with ordinary.opened(path) as stream:
        while part := stream.read(_PART):
            found.update(part)
    return found


def _found(pin: Pin, folder: Path) -> Path | None:
    return next((folder / name for name in pin.files if os.path.lexists(folder / name)), None)


def _fetched(pin: Pin, folder: Path) -> Path:
    begun = f".downloading-{pin.title}-"
    # where there are locks we hold it, so nobody is at work on what is left of one that was killed
    for left in folder.glob(f"{begun}*") if os.name == "posix" else ():
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=begun) as scratch:
        (wheel,) = download([pin], Path(scratch) / "wheels", pin.title)
        place = folder / wheel.name
        with contextlib.suppress(OSError):
            wheel.replace(place)
    if not place.is_file():
        raise InstallFailed(f"{pin.title}: {place} could not be written; choose a folder with NOISYMEAN_CACHE")
    return place
