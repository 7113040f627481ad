"""Finished blocks on disk: whole or not there, and nothing of anybody else's is touched."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

import noisymean as nm
from noisymean.audit import Processes, Store, distinguisher, runner
from noisymean.audit.trials import Block, Plan, plan, run_block
from noisymean.errors import InvalidInput
from noisymean.targets.synthetic import Synthetic


def a_plan(seed: int = 1, trials: int = 1200, n: int = 30) -> Plan:
    mechanism = nm.EASGM(dataset_size=2, dimension=n, sample_rate="0.5", noise_multiplier=2.0)
    target = Synthetic(mechanism=mechanism)
    return plan(target, distinguisher(None, target), seed=seed, trials=trials)


def same(one: Block, other: Block) -> bool:
    return one.index == other.index and all(
        np.array_equal(a, b) for a, b in ((one.smaller, other.smaller), (one.larger, other.larger))
    )


def test_blocks_come_back_as_they_were(tmp_path: Path) -> None:
    what = a_plan(trials=1201)
    store = Store.at(tmp_path / "audit.sqlite")
    written = [run_block(what, index) for index in (2, 0)]
    for block in written:
        store.add(what, block)
        store.add(what, block)
    read = Store.at(tmp_path / "audit.sqlite").blocks(what)
    assert [block.index for block in read] == [0, 2]
    assert same(read[0], written[1])
    assert same(read[1], written[0])
    assert sorted(path.name for path in tmp_path.iterdir())[0] == "audit.sqlite"


def test_audits_are_kept_apart(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "s")
    store.add(a_plan(1), run_block(a_plan(1), 0))
    for other in (a_plan(2), a_plan(1, trials=1300), a_plan(1, n=31)):
        assert store.blocks(other) == []
    assert store.seeds() == {a_plan(1).digest(): 1}


def test_results_are_not_mixed_up_without_being_asked(tmp_path: Path) -> None:
    what, store = a_plan(), Store.at(tmp_path / "s")
    first = runner.run(what, Processes(), store=store)
    with pytest.raises(InvalidInput, match=r"3 of 3 blocks are there\); add --resume"):
        runner.run(what, Processes(), store=store)
    again = runner.run(what, Processes(), store=store, resume=True)
    assert all(same(a, b) for a, b in zip(first.blocks, again.blocks, strict=True))


FOREIGN = {
    "text": b"not a database, but a user's only copy of something\n" * 40,
    "empty": b"",
    "cut": b"SQLite format 3\x00",
}


@pytest.mark.parametrize("kind", [*FOREIGN, "sqlite"])
def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "precious"
    if kind == "sqlite":
        with closing(sqlite3.connect(path)) as database:
            database.executescript("create table mine (x); insert into mine values (1);")
    else:
        path.write_bytes(FOREIGN[kind])
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"must be a store written by `noisymean audit`; it was left as it is"):
        Store.at(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


def filled(path: Path) -> Plan:
    what, store = a_plan(), Store.at(path)
    for index in range(3):
        store.add(what, run_block(what, index))
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma wal_checkpoint(truncate)")
    return what


@pytest.mark.parametrize(
    "change",
    [
        "update blocks set features = zeroblob(length(features)) where block = 1",
        "update blocks set block = 7 where block = 1",
        "update blocks set smaller = smaller + 1, larger = larger - 1 where block = 1",
        "update blocks set checksum = zeroblob(32) where block = 1",
        "update blocks set features = x'00' where block = 1",
    ],
)
def test_a_block_that_was_changed_is_an_error(tmp_path: Path, change: str) -> None:
    path = tmp_path / "s"
    what = filled(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"must be an undamaged store .*nothing was overwritten"):
        runner.run(what, Processes(), store=Store.at(path), resume=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("position", [100, 5000, 9000, 14000, -3000])
def test_flipped_bytes_are_noticed_or_harmless(tmp_path: Path, position: int) -> None:
    path = tmp_path / "s"
    what = filled(path)
    expected = [run_block(what, index) for index in range(3)]
    data = bytearray(path.read_bytes())
    at = position % len(data)
    data[at : at + 64] = bytes(255 - byte for byte in data[at : at + 64])
    path.write_bytes(data)
    found = []
    with suppress(InvalidInput):
        found = Store.at(path).blocks(what)
    assert path.read_bytes() == data
    assert all(any(same(block, one) for one in expected) for block in found)


def test_a_truncated_store_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s"
    what = filled(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InvalidInput, match="store="):
        Store.at(path).blocks(what)


def test_places_that_do_not_work(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"create .* first"):
        Store.at(tmp_path / "nowhere" / "s")
    with pytest.raises(InvalidInput, match="store="):
        Store.at(tmp_path)


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    filled(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma user_version = 99")
    with pytest.raises(InvalidInput, match="a store of version 1, not 99"):
        Store.at(path)


@pytest.mark.parametrize(
    "change",
    [
        "update audits set configuration = '[]'",
        "update audits set configuration = 'null'",
        "update audits set configuration = '{\"seed\": []}'",
        "update audits set configuration = '" + "[" * 50_000 + "'",
        "update audits set configuration = replace(configuration, '\"seed\":1', '\"seed\":2')",
        "update audits set digest = 'x'",
        "update audits set digest = x'00'",
        "drop table blocks",
        "create trigger t after insert on blocks begin delete from blocks; end",
        "drop table blocks; create view blocks as with recursive c(x) as (select 1 union all select x + 1 from c)"
        " select x as digest, x as block, x as smaller, x as larger, x as features, x as checksum from c",
    ],
)
def test_a_plan_that_was_tampered_with_is_an_error(tmp_path: Path, change: str) -> None:
    path = tmp_path / "s"
    filled(path)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(change)
    with pytest.raises(InvalidInput, match=r"must be an undamaged store .*nothing was overwritten"):
        Store.at(path).seeds()


@pytest.mark.parametrize("cell", ["'x'", "1.5", "x'00'", "9223372036854775807", "-1"])
@pytest.mark.parametrize("column", ["block", "smaller", "larger", "features", "checksum"])
def test_a_block_of_other_types_is_an_error(tmp_path: Path, column: str, cell: str) -> None:
    path = tmp_path / "s"
    what = filled(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"update blocks set {column} = {cell} where block = 1")
    with pytest.raises(InvalidInput, match="must be an undamaged store"):
        Store.at(path).blocks(what)
