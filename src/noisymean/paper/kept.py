"""Rows of finished experiments, kept beside their data: the same run again takes them from there.

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
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, TypeAlias, final

from noisymean import __version__
from noisymean.paper.experiment import Effort
from noisymean.paper.statement import Row, Rows, Value

Key: TypeAlias = Mapping[str, Any]
_PACKAGES = ("numpy", "scipy", "torch", "opacus", "dp-accounting")


@final
@dataclass(frozen=True)
class Kept:
    """Rows, and how long they took when they were computed."""

    rows: list[Row]
    seconds: float


def key_of(name: str, effort: Effort) -> Key:
    """Everything that the rows depend on."""
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


def kept(path: Path, key: Key) -> Kept | None:
    """What is there of this run; a file of another run, or a damaged one, counts as none."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        if plain["key"] != key:
            return None
        rows: list[Row] = [
            {name: _back(value) for name, value in zip(plain["columns"], values, strict=True)}
            for values in plain["rows"]
        ]
        return Kept(rows, float(plain["seconds"])) if rows else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(path: Path, key: Key, rows: Rows, seconds: float) -> None:
    """All of it, or no file."""
    columns = list(rows[0])
    plain = {
        "key": key,
        "seconds": seconds,
        "columns": columns,
        "rows": [[_plain(row[name]) for name in columns] for row in rows],
    }
    with whole(path) as stream:
        json.dump(plain, stream, allow_nan=False)


@contextmanager
def whole(path: Path) -> Iterator[IO[str]]:
    """A text file that appears under its name when it is finished, or not at all."""
    unfinished = path.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with unfinished.open("x", encoding="utf-8", newline="") as stream:
            yield stream
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


# JSON has no NaN and no infinity.
_ODD = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _plain(value: Value) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": "NaN" if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"}
    return value


def _back(value: Any) -> Value:
    if isinstance(value, dict):
        return _ODD[value["float"]]
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
