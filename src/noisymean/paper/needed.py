"""What an experiment needs that is not part of this package: sets of images, and releases of Opacus.

What of it is not on this machine is known before anything is fetched, with its size, so that a user can be told.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

from noisymean.errors import MissingDependency
from noisymean.paper import data
from noisymean.targets.opacus_releases.install import is_at_hand
from noisymean.targets.opacus_releases.releases import Release

# The largest wheel of Opacus, 1.6.0, has 308,911 bytes.
_WHEEL = 310_000
# A line is said to be as fast as this, bytes a second: 40 Mbit/s.
_SPEED = 5_000_000

# Has a set of images brought into the cache, by its name.
Fetch: TypeAlias = Callable[[str], object]


@final
@dataclass(frozen=True)
class Needs:
    """Sets of images by name, releases of Opacus by version, and whether it is torch that computes."""

    images: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    torch: bool = False


@final
@dataclass(frozen=True)
class Download:
    """One thing that is fetched: what it is called, and how large it is at most."""

    name: str
    bytes: int


def missing(needs: Iterable[Needs], data_dir: Path | str | None = None) -> list[Download]:
    """What has to be fetched for all of them, each once; images are not where the user has a folder of them."""
    every = list(needs)
    sets = [] if data_dir is not None else _absent_sets(every)
    downloads = [Download(one.title, one.bytes) for one in sets]
    releases = dict.fromkeys(version for one in every for version in one.releases)
    absent = [version for version in releases if not is_at_hand(Release(version))]
    return downloads + [Download(f"opacus {version}", _WHEEL) for version in absent]


def provide(needs: Needs, fetch: Fetch, data_dir: Path | str | None = None) -> None:
    """Have the images here. A release of Opacus is fetched by whoever runs it; without torch nothing is fetched in vain."""
    if needs.torch and importlib.util.find_spec("torch") is None:
        raise MissingDependency("torch", "audit")
    if data_dir is None:
        for one in _absent_sets([needs]):
            fetch(one.name)


def in_words(downloads: Sequence[Download]) -> str:
    """What is fetched, how large it is, and how long that takes.

    >>> in_words([Download("MNIST", 11_496_804), Download("opacus 0.15.0", 310_000)])
    'to be fetched, 12 MB in all, about 3 s at 5 MB/s: MNIST (11 MB), opacus 0.15.0 (0.3 MB)'
    """
    total = sum(one.bytes for one in downloads)
    each = ", ".join(f"{one.name} ({_megabytes(one.bytes)})" for one in downloads)
    seconds = max(1, -(-total // _SPEED))
    return f"to be fetched, {_megabytes(total)} in all, about {seconds} s at {_SPEED // 10**6} MB/s: {each}"


def _absent_sets(needs: Iterable[Needs]) -> list[data.Dataset]:
    names = dict.fromkeys(name for one in needs for name in one.images)
    return [one for one in map(data.named, names) if not data.is_cached(one)]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB" if size >= 950_000 else f"{size / 1e6:.1f} MB"
