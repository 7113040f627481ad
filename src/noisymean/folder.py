"""The folder of the user's in which everything is kept that was fetched, unpacked or computed once."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from noisymean.errors import InvalidInput


def cache_folder() -> Path:
    """NOISYMEAN_CACHE, or `noisymean` in the user's folder for caches."""
    if chosen := os.environ.get("NOISYMEAN_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "noisymean"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "noisymean" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "noisymean"


def own_folder(*parts: str) -> Path:
    """A folder of the cache for what is run, or taken for an answer: nobody else may write to it, or above it in the cache.

    Made if it is not there, for its owner alone.
    """
    place = cache_folder()
    _own(place)
    for part in parts:
        place = place / part
        _own(place)
    return place


def _own(place: Path) -> None:
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        # another process may be faster
        place.mkdir(mode=0o700, exist_ok=True)
    if os.name != "posix":
        return
    found = place.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise InvalidInput("cache", str(place), "a folder of your own", "choose one with NOISYMEAN_CACHE")
    by_others = found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_ours_alone(found.st_gid))
    if by_others:
        raise InvalidInput(
            "cache",
            str(place),
            "a folder that nobody else may write to",
            f"run 'chmod go-w {place}' if you trust what is in it, or choose another with NOISYMEAN_CACHE",
        )


def _is_ours_alone(group: int) -> bool:
    """Whether it is the group of this user and of nobody else, as many systems make one for each: its folders are open to it."""
    import grp
    import pwd

    try:
        user, listed = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and listed.gr_name == user.pw_name and set(listed.gr_mem) <= {user.pw_name}
