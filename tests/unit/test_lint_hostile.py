"""Trees that are made to do harm: one line for what is not read, bounded work, and nothing of them is ever run."""

from __future__ import annotations

import ast
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from command_line import run
from noisymean.cli.code_read import _modules
from noisymean.errors import InvalidInput
from noisymean.lint import linter, text, tree
from noisymean.lint.findings import Linted
from noisymean.lint.linter import lint
from noisymean.lint.rules import EACH
from noisymean.lint.rules.noise import noise_of
from noisymean.lint.script import Script
from noisymean.probe.conclusions import Denominator, read_verdict
from noisymean.probe.reading import Source, read_modules, read_source, syntax
from noisymean.probe.reading.candidates import Candidates
from noisymean.probe.reading.nodes import Division
from noisymean.probe.reading.source import Statement
from noisymean.probe.reading.work import Exhausted, Work

# Every script speaks of privacy, so that it is not left out for being about something else.
HEAD = "# DP-SGD: clip, add noise\nimport opacus\n"
FINDING = "delta = 1 / len(dataset)\n"
DEEP = 10_000


def read(place: Path) -> Source:
    """As `code-audit` reads divisions."""
    return read_modules(_modules([place], []))


def reasons(linted: Linted) -> dict[str, str]:
    """What was left out; each once."""
    found = {one.file: one.reason for one in linted.not_read}
    assert len(found) == len(linted.not_read)
    assert all("\n" not in one.reason for one in linted.not_read)
    return found


# --- one file ----------------------------------------------------------------------------------------------------------

UNREAD = {
    "parentheses": "x = " + "(" * DEEP + "1" + ")" * DEEP,
    "lists": "x = " + "[" * DEEP + "]" * DEEP,
    "attributes": "x = a" + ".b" * DEEP,
    "subscripts": "x = a" + "[0]" * DEEP,
    "calls": "x = f" + "()" * DEEP,
    "elif": "if a:\n    pass\n" + "".join(f"elif a{i}:\n    pass\n" for i in range(DEEP)),
    "divisions, 900": "update = noisy" + " / len(batch)" * 900,
    "sums, 100,000": "x = 1" + " + 1" * 100_000,
    "powers": "x = 1" + " ** 1" * DEEP,
    "lambdas": "x = " + "lambda: " * DEEP + "1",
    "minuses": "x = " + "-" * DEEP + "1",
    "nots": "x = " + "not " * DEEP + "1",
    "comparisons in parentheses": "x = " + "(1 < " * 180 + "1" + ")" * 180,
    "blocks": "".join(" " * i + "if a:\n" for i in range(120)) + " " * 120 + "pass",
    "strings of strings": "x = " + "f'{" * 200 + "1" + "}'" * 200,
    "a number of 10,000 digits": "x = " + "9" * 10_000,
    "NUL": "x = 1\0",
    "a cookie of no encoding": "# -*- coding: no-such-thing -*-",
    "Python 2": "print 'epsilon'",
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, name: str) -> None:
    """And the file beside it is read all the same, by the rules and by the reader; nothing is a constant then."""
    cookie = name.startswith("a cookie")
    (tmp_path / "a.py").write_text(
        UNREAD[name] + "\n" + HEAD if cookie else HEAD + UNREAD[name] + "\n", encoding="utf-8"
    )
    (tmp_path / "b.py").write_text(HEAD + FINDING, encoding="utf-8")
    linted = lint([tmp_path])
    assert list(reasons(linted)) == ["a.py"]
    assert [(one.place.file, one.rule.id) for one in linted.findings] == [("b.py", "NM005")]
    source = read(tmp_path)
    assert source.unreadable == ("a.py",)
    assert read_verdict(source) is Denominator.UNKNOWN
    assert read_source(tmp_path).unreadable == ("a.py",)


READ = {
    "decorators": "@a\n" * DEEP + "def f(): pass\n",
    "strings one after the other": "x = " + " ".join("'a'" for _ in range(DEEP)) + "\n",
    "a long line": "x = '" + "a" * 500_000 + "'\n",
    "powers of powers": "batch_size = 9 ** 9 ** 9 ** 9\nlot_size = 10 ** 20 ** 10\nexpected_batch_size = 2.5 ** 1e300\n",
    "shifts": "batch_size = 1 << 10 ** 12\nDataLoader(data, batch_size=1 << 10 ** 15)\n",
    "strings that are repeated": "x = 'a' * 10 ** 12\nDataLoader(data, batch_size=[0] * 10 ** 12)\n",
    "a number in hexadecimal": "engine.frobnicate(DataLoader(data, batch_size=0x" + "f" * 20_000 + "))\n",
    "floats without an end": "DataLoader(data, batch_size=1e400)\nint(1e400)\nround(-1e400 / 1e400)\n",
    "division by zero": "DataLoader(data, batch_size=1 // 0)\nDataLoader(data, batch_size=0 ** -1)\n",
    "stars": "from a import *\n" * 2000,
    "names that lead to each other": "a = b\nb = c\nc = a\nDataLoader(data, batch_size=a)\n",
    "functions that lead to each other": "def f(x): return g(x)\ndef g(x): return f(x)\nDataLoader(data, batch_size=f(1))\n",
    "a form feed": "x = 1\f\n",
    "the end of the line of old machines": "x = 1\r",
    "what a terminal obeys": "x = '\x1b[31m\x07'\n",
}


@pytest.mark.parametrize("name", READ)
def test_a_file_that_can_be_read_is_read(tmp_path: Path, name: str) -> None:
    """To its end: what stands below is found, at its line."""
    (tmp_path / "a.py").write_bytes((HEAD + READ[name] + FINDING).encode())
    linted = lint([tmp_path])
    assert reasons(linted) == {}
    last = (HEAD + READ[name] + FINDING).replace("\r", "\n").count("\n")
    assert [(one.rule.id, one.place.line) for one in linted.findings] == [("NM005", last)]
    assert read(tmp_path).unreadable == ()


@pytest.mark.parametrize("name", ["powers of powers", "shifts", "strings that are repeated", "a number in hexadecimal"])
def test_numbers_are_never_worked_out_when_they_are_huge(name: str) -> None:
    """What is worked out stays within a few digits."""
    script = Script(text.parsed("a.py", (HEAD + READ[name]).encode(), notebook=False))
    for node in script.nodes:
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
            value = script.constant(node, script.scope_of(node))
            assert not isinstance(value, str)
            assert value is None or abs(value) <= 1e300


def test_encodings(tmp_path: Path) -> None:
    """Source is read in the encoding that it says, if source is written in it; a codec that takes hours is not asked."""
    body = HEAD + "# é\n" + FINDING
    (tmp_path / "latin.py").write_bytes(("# coding: latin-1\n" + body).encode("latin-1"))
    (tmp_path / "mark.py").write_bytes(body.encode("utf-8-sig"))
    (tmp_path / "invalid.py").write_bytes(body.encode("latin-1"))
    (tmp_path / "punycode.py").write_bytes(("# coding: punycode\n" + HEAD + FINDING).encode())
    (tmp_path / "rot13.py").write_bytes(("# coding: rot13\n" + HEAD + FINDING).encode())
    (tmp_path / "utf16.py").write_bytes(body.encode("utf-16"))
    linted = lint([tmp_path])
    assert sorted(one.place.file for one in linted.findings) == ["latin.py", "mark.py"]
    # what is in utf-16 says nothing in the letters that are looked for
    assert sorted(reasons(linted)) == ["invalid.py", "punycode.py", "rot13.py"]


def test_large_files(tmp_path: Path) -> None:
    """Ten megabytes on one line, and a notebook of fifty, are not taken into memory."""
    (tmp_path / "a.py").write_bytes(HEAD.encode() + b"x = '" + b"a" * 10_000_000 + b"'\n")
    with open(tmp_path / "b.ipynb", "wb") as file:
        file.truncate(50 << 20)
    (tmp_path / "c.py").write_text(HEAD + FINDING, encoding="utf-8")
    walk = tree.Tree([tmp_path])
    assert [(found.name, len(data)) for found, data in walk.files()] == [("c.py", len(HEAD + FINDING))]
    assert [(one.file, one.reason) for one in walk.not_read] == [
        ("a.py", "larger than 1 MB"),
        ("b.ipynb", "larger than 32 MB"),
    ]


# --- too much leads to too much ----------------------------------------------------------------------------------------


def doubling(levels: int) -> str:
    """Functions that call the one before twice: 2 to the power of their number ways to follow."""
    steps = (f"def f{i}(x):\n    return f{i - 1}(x) + f{i - 1}(-x)\n" for i in range(1, levels))
    return "def f0(x):\n    return torch.randn(3)\n" + "".join(steps) + f"grad = grad + f{levels - 1}(x)\n"


def many(line: str, count: int) -> str:
    return "".join(line.format(i=i) for i in range(count))


TOO_MUCH = {
    "functions": doubling(120),
    "assignments to one name": many("x = x / len(b{i}) + noise\n", 500),
    "names for names": many("noise{i} = torch.randn(3) + noise0 + noise{i}\n", 500) + "grad = grad + noise499\n",
    "additions": many("grad{i} = grad{i} + torch.randn(3) / len(batch)\n", 500),
    "clippings": many("grad{i} = grad{i} * min(1, C / grad{i}.norm(dim=1))\n", 500),
    "calls of one function": many("grad = grad + f(noise, {i}) / len(batch)\n", 500)
    + "def f(a, b): return a + torch.randn(3) * b\n",
    "methods": "class A:\n" + many("    def m{i}(self):\n        self.x = self.x / len(self.b) + self.noise\n", 300),
    "functions in a circle": many("def f{i}(x): return f{i}(g(x)) / len(x) + noise\n", 300)
    + "def g(x): return f0(g(x))\n",
    "engines": many("l{i} = DataLoader(d, batch_size=len(d))\nengine.make_private(module=m, data_loader=l{i})\n", 300),
    "seeds": "g = torch.Generator()\n"
    + "g.manual_seed(0)\n" * 150
    + "grad = grad + torch.randn(3, generator=g)\n" * 500,
    "dictionaries": "d = {}\n" + "d = dict(**d)\nd = {**d}\n" * 500 + "engine.make_private(module=m, **d)\n" * 300,
    "divisions in one statement": "x = [" + many("noise{i} / len(b{i}), ", 800) + "]\n",
    "parameters": "def f("
    + many("a{i}, ", 1500)
    + "):\n    return "
    + " + ".join(f"a{i} / len(b)" for i in range(100))
    + "\n",
    "loops": many("for b{i} in loader:\n    if len(b{i}) == 0: continue\n    opt.step()\n", 300),
    "permutations": many("i{i} = i{i}[np.random.permutation(3)]; y = X[i{i}]\n", 300) + "z = noise / len(X)\n" * 100,
    "aliases": "".join(f"a{i} = a{i - 1}.b or a{i - 2}.b\n" for i in range(2, 500))
    + "a499.make_private(module=m, data_loader=l)\n",
}
FEW = 4_000


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Work]]:
    """Files are followed for few steps only; the budgets that are handed out."""
    made: list[Work] = []

    def limited() -> Work:
        made.append(Work(FEW))
        return made[-1]

    monkeypatch.setattr(syntax, "Work", limited)
    yield made
    noise_of.cache_clear()


@pytest.mark.parametrize("name", TOO_MUCH)
def test_work_is_bounded(tmp_path: Path, few_steps: list[Work], name: str) -> None:
    """Beyond the limit at most what one look costs is spent, however much leads to however much, and it is said."""
    (tmp_path / "a.py").write_text(HEAD + TOO_MUCH[name], encoding="utf-8")
    linted = lint([tmp_path])
    source = read(tmp_path)
    assert len(few_steps) == 2
    for work in few_steps:
        # a look at all of some thousand calls is spent at once
        assert work.spent <= FEW + 4_000
    cut = [work.spent > FEW for work in few_steps]
    assert not cut[0] or list(reasons(linted)) == ["a.py"]
    assert source.unreadable == (("a.py",) if cut[1] else ())
    if cut[1]:
        assert read_verdict(source) is not Denominator.CONSTANT


@pytest.mark.parametrize("name", ["assignments to one name", "additions", "calls of one function", "methods"])
def test_the_limit_is_met(tmp_path: Path, few_steps: list[Work], name: str) -> None:
    """Else nothing above is tested."""
    (tmp_path / "a.py").write_text(HEAD + TOO_MUCH[name], encoding="utf-8")
    assert reasons(lint([tmp_path])) == {"a.py": "not followed to the end: too much leads to too much in it"}


def test_one_file_does_not_use_up_the_steps_of_another(tmp_path: Path, few_steps: list[Work]) -> None:
    """Files are read in the order of their names, the worst first."""
    (tmp_path / "a.py").write_text(HEAD + TOO_MUCH["calls of one function"], encoding="utf-8")
    (tmp_path / "b.py").write_text(
        HEAD + "def step(g, batch):\n    noisy = g.sum(0) + torch.randn(3)\n    return noisy / len(batch)\n",
        encoding="utf-8",
    )
    linted = lint([tmp_path])
    assert list(reasons(linted)) == ["a.py"]
    assert [one.rule.id for one in linted.findings if one.place.file == "b.py"] == ["NM021"]
    assert [one.line for one in read(tmp_path).statements if one.file == "b.py"] == [5]


def test_a_step_too_many() -> None:
    work = Work(2)
    work.spend(2)
    with pytest.raises(Exhausted):
        work.spend()
    work.begin("another")
    work.spend(2)
    work.begin("")
    with pytest.raises(Exhausted):
        work.spend()


def test_no_more_findings_than_people_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(HEAD + FINDING * 500, encoding="utf-8")
    linted = lint([tmp_path])
    assert [one.place.line for one in linted.findings] == list(range(3, 203))
    assert reasons(linted) == {"a.py": "more than 200 findings; the first are shown"}


# --- trees -------------------------------------------------------------------------------------------------------------


def test_what_is_no_file(tmp_path: Path) -> None:
    """Pipes, sockets, devices, loops of links and links out of the tree are neither opened nor followed."""
    root, outside = tmp_path / "tree", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.py").write_text(HEAD + FINDING, encoding="utf-8")
    (root / "z.py").write_text(HEAD + FINDING, encoding="utf-8")
    os.mkfifo(root / "pipe.py")
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(root)
        server.bind("socket.py")
        os.chdir(here)
        (root / "device.py").symlink_to("/dev/zero")
        (root / "loop.py").symlink_to("loop.py")
        (root / "around").symlink_to(root)
        (root / "out").symlink_to(outside)
        (root / "file.py").symlink_to(outside / "secret.py")
        (root / "nothing").symlink_to("nowhere")
        (root / "data.csv").symlink_to("/dev/zero")
        linted = lint([root])
    assert [one.place.file for one in linted.findings] == ["z.py"]
    assert linted.files == 1
    found = reasons(linted)
    assert sorted(found) == ["around", "device.py", "file.py", "loop.py", "out", "pipe.py", "socket.py"]
    assert {one for name, one in found.items() if name in ("around", "device.py", "file.py", "loop.py", "out")} == {
        "a link, which is not followed"
    }
    assert found["pipe.py"] == "not an ordinary file"


def test_a_link_that_is_named_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text(HEAD + FINDING, encoding="utf-8")
    (tmp_path / "named.py").symlink_to("real.py")
    assert len(lint([tmp_path / "named.py"]).findings) == 1


def test_a_device_that_is_named() -> None:
    with pytest.raises(InvalidInput, match="it is not an ordinary file"):
        lint([Path("/dev/zero")])


def test_a_loop_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InvalidInput, match="an existing file or folder"):
        lint([tmp_path / "loop"])


def test_the_same_file_twice(tmp_path: Path) -> None:
    """By another name of it, and by being named twice."""
    (tmp_path / "a.py").write_text(HEAD + FINDING, encoding="utf-8")
    os.link(tmp_path / "a.py", tmp_path / "b.py")
    assert len(lint([tmp_path, tmp_path / "a.py"]).findings) == 1


class Refusing:
    """The module os, but for what it refuses to open."""

    def open(self, path: str, flags: int) -> int:
        if Path(path).name == "shut.py":
            raise PermissionError(13, "Permission denied", path)
        return os.open(path, flags)

    def scandir(self, path: Path) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        if path.name == "folder":
            raise PermissionError(13, "Permission denied", str(path))
        return os.scandir(path)

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def test_what_must_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and folders that the system refuses to open; as root everything opens, so the refusal is made up."""
    (tmp_path / "a.py").write_text(HEAD + FINDING, encoding="utf-8")
    (tmp_path / "shut.py").write_text(HEAD + FINDING, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("noisymean.lint.tree.os", Refusing())
    monkeypatch.setattr("noisymean.ordinary.os", Refusing())
    linted = lint([tmp_path])
    assert [one.place.file for one in linted.findings] == ["a.py"]
    assert reasons(linted) == {"shut.py": "Permission denied", "folder/": "Permission denied"}


def test_a_file_that_is_gone_or_grows(tmp_path: Path) -> None:
    """Between being listed and being opened one is removed, and one has become too large."""
    for name in "abc":
        (tmp_path / f"{name}.py").write_text(HEAD + FINDING, encoding="utf-8")
    walk = tree.Tree([tmp_path])
    files = walk.files()
    assert next(files)[0].name == "a.py"
    (tmp_path / "b.py").unlink()
    (tmp_path / "c.py").write_bytes(b"#" * (2 << 20))
    assert list(files) == []
    assert [(one.file, one.reason) for one in walk.not_read] == [
        ("b.py", "No such file or directory"),
        ("c.py", "larger than 1 MB"),
    ]


def test_names(tmp_path: Path) -> None:
    """Of any bytes; each is one name of one finding, and can be written in any output."""
    names = [b"a\nb.py", b"c\x1b[31m.py", b"d\xff.py", b" .py", "é.py".encode(), b"-n.py"]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_text(HEAD + FINDING, encoding="utf-8")
    linted = lint([tmp_path])
    found = [one.place.file for one in linted.findings]
    assert len(set(found)) == len(names)
    assert "d\\xff.py" in found
    for one in found:
        one.encode("utf-8")
    done = run("code-audit", str(tmp_path), "--json")
    assert len(json.loads(done.out)["findings"]) == len(names)
    done = run("code-audit", str(tmp_path), "--github")
    assert "\x1b" not in done.out


def deep_tree(place: Path, name: str, levels: int) -> None:
    """Made from inside, since the path may be longer than one may be."""
    here = os.getcwd()
    os.chdir(place)
    try:
        for _ in range(levels):
            os.mkdir(name)
            os.chdir(name)
        Path("a.py").write_text(HEAD + FINDING, encoding="utf-8")
    finally:
        os.chdir(here)


def test_folders_in_folders(tmp_path: Path) -> None:
    """300 levels are walked; where a path becomes too long for the system, that is said."""
    for name in ("shallow", "deep"):
        (tmp_path / name).mkdir()
    deep_tree(tmp_path / "shallow", "d", 300)
    linted = lint([tmp_path / "shallow"])
    assert len(linted.findings) == 1
    assert reasons(linted) == {}
    deep_tree(tmp_path / "deep", "d" * 200, 30)
    linted = lint([tmp_path / "deep"])
    assert linted.findings == ()
    assert list(reasons(linted).values()) == ["File name too long"]


@pytest.mark.parametrize("count", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_files(tmp_path: Path, count: int) -> None:
    """All are walked, in order; no more work than the sum of theirs."""
    for folder in range(count // 100):
        (tmp_path / f"{folder:04}").mkdir()
        for number in range(100):
            (tmp_path / f"{folder:04}" / f"{number:02}.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "z.py").write_text(HEAD + FINDING, encoding="utf-8")
    linted = lint([tmp_path])
    assert linted.files == count + 1
    assert [one.place.file for one in linted.findings] == ["z.py"]
    assert reasons(linted) == {}


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond the limit is said once for each folder, and what was seen before it is kept."""
    monkeypatch.setattr(tree, "MOST_ENTRIES", 10)
    for number in range(50):
        (tmp_path / f"{number:02}.py").write_text(HEAD + FINDING, encoding="utf-8")
    linted = lint([tmp_path])
    assert len(linted.findings) == 10
    assert list(reasons(linted).values()) == ["more than 10 files and folders; name a folder inside"]


def test_too_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MOST_BYTES_IN_ALL", 3 * len(HEAD + FINDING))
    for number in range(8):
        (tmp_path / f"{number}.py").write_text(HEAD + FINDING, encoding="utf-8")
    linted = lint([tmp_path])
    assert len(linted.findings) == 4
    assert sorted(reasons(linted)) == ["4.py", "5.py", "6.py", "7.py"]


# --- notebooks ---------------------------------------------------------------------------------------------------------

CELL = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import opacus\n", "delta = 1 / len(dataset)"]}
NOT_NOTEBOOKS: dict[str, object] = {
    "a list": [],
    "a number": 1,
    "nothing": None,
    "a text": "cells",
    "no cells": {"nbformat": 4},
    "cells that are a number": {"cells": 1},
    "cells that are none": {"cells": None},
    "cells that are a dictionary": {"cells": {"a": 1}},
    "a cell that is a text": {"cells": ["code"]},
    "a cell that is a list": {"cells": [["code"]]},
    "a cell without a type": {"cells": [{"source": []}]},
    "a source that is a number": {"cells": [{**CELL, "source": 1}]},
    "a source of numbers": {"cells": [{**CELL, "source": [1, 2]}]},
    "a source that is none": {"cells": [{**CELL, "source": None}]},
    "a source of lists": {"cells": [{**CELL, "source": [["a"]]}]},
    "a source that is a dictionary of numbers": {"cells": [{**CELL, "source": {"a": 1, "b": [2]}}, 1]},
    "worksheets without cells": {"worksheets": [{}]},
    "no worksheets": {"worksheets": []},
    "worksheets that are a number": {"worksheets": 3},
}


@pytest.mark.parametrize("name", NOT_NOTEBOOKS)
def test_what_is_no_notebook(tmp_path: Path, name: str) -> None:
    """Malformed in whichever key: one line."""
    file = tmp_path / "a.ipynb"
    file.write_text(
        json.dumps({"noise": NOT_NOTEBOOKS[name]} if name == "nothing" else NOT_NOTEBOOKS[name]) + " " * 3,
        encoding="utf-8",
    )
    file.write_bytes(
        file.read_bytes().replace(b"}", b', "noise": 0}', 1) if b"}" in file.read_bytes() else b'["noise"]'
    )
    assert reasons(lint([tmp_path])) == {"a.ipynb": "not a notebook"}


RAW = {
    "brackets": b'{"noise": ' + b"[" * 100_000,
    "dictionaries": b'{"noise": ' * 100_000,
    "a number of 100,000 digits": b'{"noise": ' + b"9" * 100_000 + b"}",
    "bytes": b'\xff\xfe{"noise": 1}',
    "half of one": json.dumps({"cells": [CELL]}).encode()[:-10],
    "empty but for a word": b"noise",
}


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_json(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.ipynb").write_bytes(RAW[name])
    assert reasons(lint([tmp_path])) == {"a.ipynb": "not a notebook"}


def test_more_code_than_a_file_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook may be large for its pictures, and not for its code."""
    monkeypatch.setattr(text, "MOST_CODE", 1 << 20)
    picture = {**CELL, "outputs": [{"data": {"image/png": "A" * (3 << 20)}}]}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [picture]}), encoding="utf-8")
    long = {**CELL, "source": ["x = noise\n"] * 200_000}
    (tmp_path / "b.ipynb").write_text(json.dumps({"cells": [long]}), encoding="utf-8")
    linted = lint([tmp_path])
    assert [one.place.file for one in linted.findings] == ["a.ipynb"]
    assert reasons(linted) == {"b.ipynb": "more than 1 MB of code"}


# --- nothing is run ----------------------------------------------------------------------------------------------------

TRAP = """
import pathlib
pathlib.Path({path!r}).write_text("run")
import opacus, sitecustomize
raise SystemExit(3)
delta = 1 / len(dataset)
"""


def test_nothing_is_imported_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the files, nor a package around them, nor what configures tools that would run them."""
    mark = tmp_path / "ran"
    folder = tmp_path / "tree" / "package"
    folder.mkdir(parents=True)
    for name in ("__init__.py", "a.py", "conftest.py", "setup.py", "sitecustomize.py", "noisymean.py", "opacus.py"):
        (folder / name).write_text(TRAP.format(path=str(mark)), encoding="utf-8")
    source = TRAP.format(path=str(mark)).splitlines(keepends=True)
    (folder / "b.ipynb").write_text(json.dumps({"cells": [{**CELL, "source": source}]}), encoding="utf-8")
    monkeypatch.chdir(folder)
    read(folder)
    before, path = set(sys.modules), list(sys.path)
    linted = lint([folder.parent])
    read(folder)
    assert len(linted.findings) == 8
    assert not mark.exists()
    assert set(sys.modules) == before
    assert sys.path == path


def test_a_rule_that_goes_too_deep_keeps_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that cannot be followed says so; what other rules find is kept."""

    def deep(script: Script) -> Iterator[object]:
        yield from ()
        raise RecursionError

    monkeypatch.setattr(linter, "EACH", (deep, *EACH))
    (tmp_path / "a.py").write_text(HEAD + FINDING, encoding="utf-8")
    linted = lint([tmp_path])
    assert [one.rule.id for one in linted.findings] == ["NM005"]
    assert reasons(linted) == {"a.py": "nested too deeply to be followed to the end"}


def test_a_division_that_goes_too_deep_leaves_its_file_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader goes on with the next one, and nothing is a constant then."""
    body = "def step(g, n):\n    noisy = g.sum(0) + torch.randn(3)\n    return noisy / {by}\n"
    (tmp_path / "a.py").write_text(HEAD + body.format(by="256"), encoding="utf-8")
    (tmp_path / "b.py").write_text(HEAD + body.format(by="512"), encoding="utf-8")
    whole = Candidates._division

    def division(self: Candidates, one: Division, by: ast.expr) -> Iterator[Statement]:
        if isinstance(by, ast.Constant) and by.value == 256:
            raise RecursionError
        yield from whole(self, one, by)

    monkeypatch.setattr(Candidates, "_division", division)
    source = read(tmp_path)
    assert source.unreadable == ("a.py",)
    assert [one.file for one in source.statements] == ["b.py"]
    assert read_verdict(source) is Denominator.UNKNOWN
