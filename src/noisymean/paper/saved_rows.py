"""Rows of finished experiments, saved beside their data: the same run again takes them from there.

The same run is: the same experiment, effort, seed and images, with the same code of ours and the same versions of the packages
that numbers depend on. Anything else is computed anew, trials of audits that are in the store excepted: those are keyed by their
own plans. How many processes work makes no difference to a number and is not part of the key.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, TypeAlias, final

from noisymean import __version__
from noisymean.paper.experiment import Effort
from noisymean.paper.rows import Table, Value
from noisymean.report.files import whole_file

Key: TypeAlias = Mapping[str, Any]
_PACKAGES = ("numpy", "scipy", "torch", "opacus", "dp-accounting")


@final
@dataclass(frozen=True)
class SavedRows:
    """Rows, and how many seconds it took to compute them."""

    table: Table
    seconds: float


def run_key(name: str, effort: Effort) -> Key:
    """Everything that the rows of an experiment depend on."""
    return {
        "experiment": name,
        "quick": effort.quick,
        "seed": effort.seed,
        "images": None if effort.data_dir is None else _contents(Path(effort.data_dir)),
        "noisymean": __version__,
        "code": _code(),
        "python": platform.python_version(),
        "packages": {package: _version(package) for package in _PACKAGES},
    }


def load_rows(path: Path, key: Key) -> SavedRows | None:
    """The rows of this run; a file of another run, or a damaged one, counts as none."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if plain["key"] != key:
            return None
        columns = plain["columns"]
        table = Table(dict(zip(columns, map(_from_plain, values), strict=True)) for values in plain["rows"])
        return SavedRows(table, float(plain["seconds"])) if table else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_rows(path: Path, key: Key, rows: SavedRows) -> None:
    """All rows, or no file."""
    columns = list(rows.table[0])
    plain = {
        "key": key,
        "seconds": rows.seconds,
        "columns": columns,
        "rows": [[_to_plain(row[name]) for name in columns] for row in rows.table],
    }
    with written_whole(path) as stream:
        json.dump(plain, stream, allow_nan=False)


@contextmanager
def written_whole(path: Path) -> Iterator[IO[str]]:
    """A text file that appears under its name when it is finished, or not at all."""
    # an unpaired surrogate, which a fault of somebody else's may hold, has no UTF-8
    with whole_file(path) as stream, TextIOWrapper(stream, "utf-8", errors="replace", newline="") as text:
        yield text


def _to_plain(value: Value) -> object:
    """JSON has no NaN and no infinity; Python's words for them are NaN, Infinity and -Infinity."""
    return {"float": json.dumps(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _from_plain(value: Any) -> Value:
    if isinstance(value, dict):
        return float(value["float"])
    if isinstance(value, str | int | float):
        return value
    raise TypeError(value)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@lru_cache(maxsize=1)
def _code() -> str:
    """A digest of our own source: an unreleased version changes under one number."""
    home = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        digest.update(f"{path.relative_to(home).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _contents(folder: Path) -> str:
    """A digest of the names, sizes and times of the files in a folder."""
    digest = hashlib.sha256(os.fsencode(folder.resolve()))
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            state = path.stat()
            name = f"{path.relative_to(folder).as_posix()}\0{state.st_size}\0{state.st_mtime_ns}\0"
            digest.update(os.fsencode(name))
    return digest.hexdigest()
