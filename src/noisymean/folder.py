"""The folder of the user's in which everything is kept that was fetched, unpacked or computed once."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """NOISYMEAN_CACHE, or `noisymean` in the user's folder for caches."""
    if chosen := os.environ.get("NOISYMEAN_CACHE"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "noisymean"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "noisymean" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "noisymean"
