"""A release of Opacus in the user's cache: its wheel as published, without its dependencies, whose pins no current torch meets.

pip is called by package name with an argument list; wheels only, so that nothing is executed by installing. What it downloads has
the checksum that this package knows, then and each time before it is used: nothing in the cache vouches for itself. The wheel is
never unpacked to be run; the worker imports it out of the bytes that it has verified (`wheels.imported`).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from noisymean.errors import MissingDependency, NoisymeanError
from noisymean.targets.opacus_releases.releases import Release
from noisymean.targets.processes.pip import InstallFailed
from noisymean.targets.wheels.kept import content_of, is_kept, kept
from noisymean.targets.wheels.pins import Pin, pin_of

__all__ = ["InstallFailed", "digest_of", "installed", "installed_version", "is_at_hand", "is_installed", "source_of"]


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
    """The wheel of this release, downloaded now if it is not there, and verified."""
    if importlib.util.find_spec("torch") is None:
        raise MissingDependency("torch", "audit")
    return kept(_pin(release))


def is_at_hand(release: Release) -> bool:
    """Whether its wheel needs no download; it may still be refused."""
    return is_kept(_pin(release))


def digest_of(release: Release, wheel: Path) -> str:
    """The SHA-256 that this wheel of it has to have."""
    return _pin(release).files[wheel.name]


def source_of(release: Release) -> bytes:
    """The verified bytes of its wheel, to be read."""
    wheel = installed(release)
    return content_of(wheel, digest_of(release, wheel))


def _pin(release: Release) -> Pin:
    return pin_of(f"opacus=={release.version}")
