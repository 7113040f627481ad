r"""Finished blocks on disk: an audit that is killed goes on from where it was.

One SQLite file holds the blocks of any number of audits, each under the SHA-256 of its plan. A block is one transaction: it is
there whole, with its own checksum, or not at all. A new file is prepared under another name and linked into place, so that a
store which exists is complete. A file that is not a store of ours is never opened for writing, nor replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np

from noisymean import ordinary
from noisymean.audit.trials import Block, Plan, canonical
from noisymean.errors import InvalidInput
from noisymean.legible import shortened
from noisymean.numerics.logs import Array

# "nmau" in the header of the file, at the place that SQLite leaves for it.
_APPLICATION_ID = 0x6E6D6175
_VERSION = 1
_MAGIC = b"SQLite format 3\x00"
# What SQLite puts beside a database.
_BESIDE = ("-wal", "-shm", "-journal")
_SCHEMA = f"""
pragma application_id = {_APPLICATION_ID};
pragma user_version = {_VERSION};
create table audits (digest text primary key, configuration text not null);
create table blocks (
    digest text not null references audits (digest),
    block integer not null,
    smaller integer not null,
    larger integer not null,
    features blob not null,
    checksum blob not null,
    primary key (digest, block)
);
pragma journal_mode = wal;
"""


@final
@dataclass(frozen=True)
class Store:
    """A file of finished blocks."""

    path: Path

    @classmethod
    def at(cls, path: Path) -> Store:
        """The store in that file; if there is none, the first block makes it, so that a refused audit leaves nothing."""
        if not path.parent.is_dir():
            raise InvalidInput("store", str(path), "a file in an existing folder", f"create {path.parent} first")
        store = cls(path)
        if not path.exists():
            if not os.access(path.parent, os.W_OK):
                raise InvalidInput("store", str(path), "a file that can be written", "choose another folder")
            return store
        _check_header(path)
        with store._open() as database:
            _check_tables(path, database)
            (version,) = database.execute("pragma user_version").fetchone()
            (health,) = database.execute("pragma quick_check(1)").fetchone()
        if version != _VERSION:
            raise InvalidInput(
                "store", str(path), f"a store of version {_VERSION}, not {version}", "choose another file"
            )
        if health != "ok":
            raise _damaged(path, health)
        return store

    def blocks(self, plan: Plan) -> list[Block]:
        """What is there of this plan; a block that is not as it was written is an error, not a gap."""
        if not self.path.exists():
            return []
        with self._open() as database:
            rows = database.execute(
                "select block, smaller, larger, features, checksum from blocks where digest = ? order by block",
                (plan.digest(),),
            )
            return [self._read(plan, *row) for row in rows]

    def add(self, plan: Plan, block: Block) -> None:
        """Keep a finished block; once this returns it survives a kill."""
        features = np.vstack([part for part in (block.smaller, block.larger) if part.size])
        data = np.ascontiguousarray(features, dtype="<f8").tobytes()
        runs = block.smaller.shape[0], block.larger.shape[0]
        row = (plan.digest(), block.index, *runs, data, _checksum(plan, block.index, *runs, data))
        if not self.path.exists():
            _create(self.path)
            _check_header(self.path)
        with self._open() as database, database:
            database.execute(
                "insert or ignore into audits values (?, ?)", (plan.digest(), canonical(plan.configuration()))
            )
            database.execute("insert or ignore into blocks values (?, ?, ?, ?, ?, ?)", row)

    def seeds(self) -> dict[str, int]:
        """The seed of every audit in here, by its digest."""
        if not self.path.exists():
            return {}
        with self._open() as database:
            rows = database.execute("select digest, configuration from audits").fetchall()
        return {digest: self._seed_of(digest, configuration) for digest, configuration in rows}

    def _seed_of(self, digest: object, configuration: object) -> int:
        """The seed of a plan that is as it was written: its digest is that of its text."""
        try:
            seed = json.loads(str(configuration))["seed"]
        except (ValueError, TypeError, KeyError, RecursionError):
            seed = None
        written = hashlib.sha256(str(configuration).encode(errors="replace")).hexdigest()
        if written != digest or isinstance(seed, bool) or not isinstance(seed, int):
            raise _damaged(self.path, f"the plan of audit {shortened(str(digest), 12)} is not as it was written")
        return seed

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            # mode=rw never creates
            with closing(
                sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=rw", uri=True, timeout=60.0)
            ) as database:
                database.execute("pragma synchronous = full")
                yield database
        except sqlite3.OperationalError as fault:
            raise InvalidInput("store", str(self.path), "a file that can be read and written", str(fault)) from None
        except sqlite3.DatabaseError as fault:
            raise _damaged(self.path, str(fault)) from None

    def _read(self, plan: Plan, index: Any, smaller: Any, larger: Any, data: Any, checksum: Any) -> Block:
        # a column of SQLite may hold anything
        known = isinstance(index, int) and 0 <= index < plan.blocks and isinstance(data, bytes)
        sound = known and plan.runs(index) == (smaller, larger)
        if not sound or checksum != _checksum(plan, index, smaller, larger, data):
            raise _damaged(self.path, f"block {shortened(repr(index), 20)} is not as it was written")
        rows = smaller + larger
        if rows == 0 or len(data) % (8 * rows):
            raise _damaged(self.path, f"block {index} is not as it was written")
        features: Array = np.frombuffer(data, dtype="<f8").reshape(rows, -1).astype(np.float64)
        return Block(index, features[:smaller], features[smaller:])


def _checksum(plan: Plan, index: int, smaller: int, larger: int, data: bytes) -> bytes:
    return hashlib.sha256(plan.digest().encode() + struct.pack("<3q", index, smaller, larger) + data).digest()


def _damaged(path: Path, reason: str) -> InvalidInput:
    return InvalidInput(
        "store", str(path), f"an undamaged store ({reason})", "nothing was overwritten; choose another file"
    )


def _check_tables(path: Path, database: sqlite3.Connection) -> None:
    """Refuse what has other tables than ours: a view may never come to an end, and a trigger changes what is written."""
    found = database.execute("select type, name, sql from sqlite_master where sql is not null order by name").fetchall()
    if [(kind, name, sql) for kind, name, sql in found] != [("table", name, sql) for name, sql in _tables().items()]:
        raise _damaged(path, "its tables are not those of a store")


@lru_cache(maxsize=1)
def _tables() -> dict[str, str]:
    """The tables of a store as SQLite keeps their text, by name."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_SCHEMA)
        return dict(database.execute("select name, sql from sqlite_master where sql is not null order by name"))


def _create(path: Path) -> None:
    unfinished = path.with_name(f".{secrets.token_hex(8)}.unfinished")
    try:
        with closing(sqlite3.connect(unfinished)) as database:
            database.executescript(_SCHEMA)
        # unlike a rename, a link never replaces what another process has put there meanwhile
        with suppress(FileExistsError):
            os.link(unfinished, path)
    except (OSError, sqlite3.Error) as fault:
        raise InvalidInput("store", str(path), "a file that can be written", f"choose another ({fault})") from None
    finally:
        for suffix in ("", *_BESIDE):
            with suppress(OSError):
                unfinished.with_name(unfinished.name + suffix).unlink()


def _check_header(path: Path) -> None:
    """Refuse what is not ours by its first bytes, before SQLite touches it; a pipe beside it would keep SQLite waiting."""
    for suffix in _BESIDE:
        beside = path.with_name(path.name + suffix)
        if not ordinary.is_free(beside):
            raise InvalidInput(
                "store", str(path), f"without {beside.name}, which is {ordinary.NOT_ORDINARY}", "remove it"
            )
    try:
        header = ordinary.content(path, 99)
    except OSError as fault:
        raise InvalidInput("store", str(path), "a file that can be read", fault.strerror or str(fault)) from None
    ours = header[:16] == _MAGIC and len(header) == 100 and struct.unpack(">I", header[68:72])[0] == _APPLICATION_ID
    if not ours:
        raise InvalidInput(
            "store", str(path), "a store written by `noisymean audit`", "it was left as it is; choose another file"
        )
