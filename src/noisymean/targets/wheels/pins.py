"""Which wheels are known: for a release of a package the files that were published of it, each with its SHA-256.

The list is a file of this package. Nothing that is downloaded, and nothing in the cache, has a say in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, final

from noisymean.targets.processes.pip import InstallFailed

_FILE = "pinned.json"
RECORDED_BY = "docs/scripts/record_wheels.py records them"


@final
@dataclass(frozen=True)
class Pin:
    """One release, NAME==VERSION, and the SHA-256 of each of its wheels by the name of the file."""

    title: str
    files: Mapping[str, str]

    @property
    def requirement(self) -> str:
        """As pip reads it in a file of requirements: nothing but one of these."""
        return " ".join([self.title, *(f"--hash=sha256:{digest}" for digest in sorted(set(self.files.values())))])


@cache
def _pinned() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))
    return found


def pin_of(title: str) -> Pin:
    """The wheels of NAME==VERSION; one that is not known is not downloaded."""
    files = _pinned()["wheels"].get(title)
    if not files:
        raise InstallFailed(f"{title}: no checksums of its wheels are known here, so it is not run; {RECORDED_BY}")
    return Pin(title, files)


def pins_of(environment: str) -> tuple[Pin, ...]:
    """All that is installed in the environment of a library, NAME==VERSION."""
    titles = _pinned()["environments"].get(environment)
    if not titles:
        raise InstallFailed(f"{environment}: no versions are pinned for its environment here; {RECORDED_BY}")
    return tuple(pin_of(title) for title in titles)
