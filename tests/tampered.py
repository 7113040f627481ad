"""Inputs that somebody has tampered with: JSON of every kind of record, stores, pages; always the same ones, from a seed."""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from command_line import run

_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        1e308,
        10**400,
        "",
        "x",
        "1",
        "\x1b[31m\u202e\x07",
        "a" * 5_000,
        [],
        {},
        [1],
        {"a": 1},
    ),
    *([[[]]], "2020-01-01", "holds", "violated", -0.0, 5e-324, 10**18, "../../etc/passwd", "<script>alert(1)</script>"),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in it."""
    each = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, inner in each for deeper in _places(inner, (*path, key)))]


def tampered_json(random: Random, content: bytes) -> bytes:
    """A record with a value or two changed, or its text."""
    if random.random() < 0.25:
        return tampered_bytes(random, content)
    record = json.loads(content)
    for _ in range(random.choice((1, 1, 2, 5))):
        path = random.choice(_places(record)[1:] or [("a",)])
        holder = record
        for key in path[:-1]:
            holder = holder[key]
        if random.random() < 0.2:
            del holder[path[-1]]
        else:
            holder[path[-1]] = random.choice(_VALUES)
    text = json.dumps(record)
    if random.random() < 0.1:
        depth = random.choice((100, 10_000, 500_000))
        text = text.replace(":", ": " + "[" * depth + "]" * depth + ', "deep":', 1)
    return text.encode()


def tampered_bytes(random: Random, content: bytes) -> bytes:
    """Bits flipped, a part cut out, repeated or replaced by noise."""
    found = bytearray(content)
    at = random.randrange(max(1, len(found)))
    match random.choice(("flip", "flip", "cut", "repeat", "noise", "end", "nothing")):
        case "flip":
            for _ in range(random.choice((1, 3, 30))):
                found[random.randrange(len(found))] ^= 1 << random.randrange(8)
        case "cut":
            del found[at : at + random.randrange(200)]
        case "repeat":
            found[at:at] = found[at : at + 500] * random.choice((1, 20))
        case "noise":
            found[at : at + 50] = random.randbytes(50)
        case "end":
            del found[at:]
        case "nothing":
            found = bytearray(random.choice((b"", b"null", b"[]", b"{}", b"\xff\xfe", b"0" * 5_000, b"[" * 100_000)))
    return bytes(found)


_COLUMNS = {
    "audits": ("digest", "configuration"),
    "blocks": ("digest", "block", "smaller", "larger", "features", "checksum"),
}
_CELLS = (
    "null",
    "1",
    "-1",
    "1e308",
    "'x'",
    "x'00'",
    "zeroblob(1000000)",
    "'[]'",
    "'{}'",
    "'{\"seed\": []}'",
    "9223372036854775807",
    "''",
)
_SCHEMES = (
    "drop table blocks",
    "drop table audits",
    "alter table blocks add column more",
    "create trigger t after insert on blocks begin delete from blocks; end",
    "create view v as with recursive c(x) as (select 1 union all select x + 1 from c) select x from c",
    "drop table blocks; create view blocks as with recursive c(x) as (select 1 union all select x + 1 from c)"
    " select x as digest, x as block, x as smaller, x as larger, x as features, x as checksum from c",
    "pragma user_version = 7",
    "pragma application_id = 7",
    "create index i on blocks (block)",
    "update audits set configuration = '" + "[" * 100_000 + "'",
)


def tamper_with_store(random: Random, path: Path) -> None:
    """A store whose rows, tables or bytes are not as they were written."""
    if random.random() < 0.4:
        path.write_bytes(tampered_bytes(random, path.read_bytes()))
        return
    with closing(sqlite3.connect(path)) as database:
        if random.random() < 0.25:
            database.executescript(random.choice(_SCHEMES))
        else:
            table = random.choice(list(_COLUMNS))
            column, cell = random.choice(_COLUMNS[table]), random.choice(_CELLS)
            # a column may hold any type, whatever it was declared as
            database.execute(f"update or ignore {table} set {column} = {cell}")
        database.commit()


# --- run, in a process of its own with a limit on its memory ---------------------------------------------------------------------

_MEMORY = 2 << 30
_RUN = "--mechanism easgm --dataset-size 9 --dimension 3 --sample-rate 0.5 --noise-multiplier 5 --steps 3 --delta 1e-5"
_AUDIT = "audit synthetic --mechanism sgm --dataset-size 9 --dimension 2 --sample-rate 0.5 --noise-multiplier 1 --trials 300 --seed 1"
_STEP = """
def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    chosen = gradients[generator.random(len(gradients)) < sample_rate]
    noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
    return (chosen.sum(0) + noise) / (sample_rate * len(gradients))
"""
# How each is made, and what it is given to.
_RECORDS = {
    "account.json": f"account {_RUN} --json",
    "audit.json": f"{_AUDIT} --json",
    "probe.json": "probe step.py:step --seed 1 --json",
    "code.json": "code-audit step.py --json",
}
_GIVEN = {
    **dict.fromkeys(("audit.json", "probe.json", "code.json", "report.html"), ("report {} --out page.html",)),
    "account.json": ("report {} --out page.html", "statement --from {}"),
    "baseline.json": ("code-audit step.py --baseline {}",),
    "step.ipynb": ("code-audit {}", "check {}"),
    "store.sqlite": (f"{_AUDIT} --store {{}} --resume", f"{_AUDIT.removesuffix(' --seed 1')} --store {{}} --resume"),
}
_NOTEBOOK = {"cells": [{"cell_type": "code", "source": ["import opacus\n", "x = 1 / 3\n"]}], "nbformat": 4}


def prepare() -> None:
    """What is tampered with, as it is written, in this folder."""
    Path("step.py").write_text(_STEP)
    for name, line in _RECORDS.items():
        done = run(*line.split())
        assert done.code == 0, done
        Path(name).write_text(done.out)
    for line in (
        f"report {_RUN} --out report.html",
        "code-audit step.py --write-baseline baseline.json",
        f"{_AUDIT} --store store.sqlite",
    ):
        assert run(*line.split()).code == 0, line
    Path("step.ipynb").write_text(json.dumps(_NOTEBOOK))


def try_one(seed: int) -> int:
    """One input, and what the command makes of it: an answer, or one line and exit code 2."""
    random = Random(seed)
    name = random.choice(list(_GIVEN))
    # a tampered input is no answer that was there before
    path = Path(f"tampered.{name}")
    for one in Path().glob(f"{path}*"):
        one.unlink()
    content = Path(name).read_bytes()
    path.write_bytes(content)
    if name == "store.sqlite":
        try:
            tamper_with_store(random, path)
        except sqlite3.DatabaseError:
            path.write_bytes(tampered_bytes(random, content))
    elif name == "report.html":
        path.write_bytes(tampered_bytes(random, content))
    else:
        path.write_bytes(tampered_json(random, content))
    line = random.choice(_GIVEN[name]).format(path)
    done = run(*line.split())
    about = (seed, line, done.code, done.out[-300:], done.err[-500:])
    assert done.code in (0, 2), about
    assert all(one.isprintable() or one == "\n" for one in done.out + done.err), about
    if done.code == 2:
        assert done.out == "", about
        # which seed was drawn, or found in the store, is said before the store is read
        complaints = [one for one in done.err.splitlines() if not one.startswith("seed ")]
        assert len(complaints) == 1, about
        assert len(done.err) < 3_000, about
    assert not [one.name for one in Path().iterdir() if "unfinished" in one.name], about
    return done.code


def main(start: int, stop: int) -> None:
    """All of these, here; how often each exit code was seen."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    if not Path("store.sqlite").exists():
        prepare()
    print(json.dumps(Counter(map(try_one, range(start, stop)))))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
