"""Rows that are finished, in the cache: one file each, written beside its place and moved into it, whole or not there."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from noisymean.field.rows import Row
from noisymean.folder import own_folder
from noisymean.probe.prober import VERSION as PROBER

# Raise it when a row may change.
VERSION = 1


def place(name: str, version: str | None) -> Path:
    """Its file; what it was run with is part of the name."""
    plain = name.replace(":", "--")
    file = (
        f"{plain}-{version or 'none'}-prober{PROBER}-field{VERSION}-py{sys.version_info[0]}{sys.version_info[1]}.json"
    )
    return own_folder("field") / file


def keep(row: Row) -> None:
    """Write a row into the cache, where the next run finds it."""
    into = place(row.name, row.version)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".writing-") as scratch:
        written = Path(scratch) / into.name
        written.write_text(json.dumps(row.to_plain()), encoding="utf-8")
        written.replace(into)


def kept(name: str, version: str | None) -> Row | None:
    """The row of an earlier run; a damaged one counts as none."""
    try:
        return Row.from_plain(json.loads(place(name, version).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
