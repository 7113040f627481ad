"""A baseline: what it knows is known after code has moved, what is changed is new, and a file that is none is one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from command_line import Result, run
from noisymean.lint.catalogue import RULES
from noisymean.lint.findings import Finding, Linted, Place
from noisymean.report import lint_marks
from noisymean.report.lint_marks import BadBaseline, known, marked

CALL = "engine.make_private(data_loader=loader, poisson_sampling=False)"
SCRIPT = f"import opacus\n{CALL}\n"
KNOWN = "known.json"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    return tmp_path


def audit(*words: str) -> Result:
    return run("code-audit", *words)


def against(*words: str) -> dict[str, Any]:
    """What is found beside the baseline."""
    done = audit(*(words or (".",)), "--baseline", KNOWN, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def new(found: dict[str, Any]) -> list[tuple[str, int]]:
    return [(one["rule"], one["line"]) for one in found["findings"] if one["new"]]


@pytest.fixture
def baseline(here: Path) -> None:
    assert audit(".", "--write-baseline", KNOWN).code == 0


@pytest.mark.usefixtures("baseline")
def test_what_it_knows_is_not_new() -> None:
    assert new(against()) == []
    assert against()["baseline"] == {"file": KNOWN, "known": 2, "new": 0, "gone": 0}
    done = audit(".", "--baseline", KNOWN, "--fail-on", "note")
    assert done.code == 0
    assert "No new findings, 2 known to the baseline, 1 file checked." in done.out
    assert audit(".", "--fail-on", "note").code == 1


@pytest.mark.usefixtures("baseline")
@pytest.mark.parametrize(
    "text",
    [
        f"import opacus\n\n\n# more\nx = 1\n{CALL}\n",
        f"import opacus\nif True:\n        {CALL}\n",
        f"import opacus\n{CALL.replace(', ', ',  ')}\ny = 2\n",
    ],
)
def test_code_that_has_moved_is_known(text: str) -> None:
    Path("train.py").write_text(text)
    assert new(against()) == []


@pytest.mark.usefixtures("baseline")
def test_a_line_that_was_changed_is_new_and_the_old_one_is_gone() -> None:
    Path("train.py").write_text(SCRIPT.replace("loader=loader", "loader=other"))
    found = against()
    assert new(found) == [("NM001", 2), ("NM003", 2)]
    assert found["baseline"] == {"file": KNOWN, "known": 0, "new": 2, "gone": 2}
    done = audit(".", "--baseline", KNOWN, "--fail-on", "error")
    assert done.code == 1
    assert done.err.strip() == "failed: --fail-on error: 1 new finding: NM003"


@pytest.mark.usefixtures("baseline")
def test_the_same_line_once_more_is_new_once() -> None:
    Path("train.py").write_text(f"{SCRIPT}{CALL}\n")
    assert new(against()) == [("NM001", 3), ("NM003", 3)]


@pytest.mark.usefixtures("baseline")
def test_the_same_line_in_another_file_is_new() -> None:
    Path("other.py").write_text(SCRIPT)
    assert [one["file"] for one in against()["findings"] if one["new"]] == ["other.py", "other.py"]


@pytest.mark.usefixtures("baseline")
def test_what_is_silenced_is_neither_new_nor_gone() -> None:
    Path("train.py").write_text(f"import opacus\n{CALL}  # noisymean: ignore[NM001, NM003] shown only\n")
    # the comment is part of the line: another fingerprint, and nothing of it is open
    found = against()
    assert new(found) == []
    assert len(found["ignored"]) == 2


@pytest.mark.usefixtures("baseline")
def test_however_a_file_is_named_it_is_the_same(here: Path) -> None:
    for asked in (("train.py",), ("./train.py",), (str(here),), (str(here / "train.py"),), (".", "train.py")):
        assert new(against(*asked)) == [], asked


def test_a_baseline_of_nothing_and_an_old_one_that_is_written_over() -> None:
    Path("train.py").write_text("import opacus\n")
    assert audit(".", "--write-baseline", KNOWN).code == 0
    assert json.loads(Path(KNOWN).read_text())["findings"] == []
    Path("train.py").write_text(SCRIPT)
    assert len(new(against())) == 2
    assert audit(".", "--baseline", KNOWN, "--write-baseline", KNOWN).code == 0
    assert new(against()) == []


def test_it_has_a_line_for_each_finding_and_nothing_that_changes_by_itself(baseline: None) -> None:
    text = Path(KNOWN).read_text(encoding="ascii")
    found = json.loads(text)
    assert [(one["rule"], one["file"], one["source"]) for one in found["findings"]] == [
        ("NM001", "train.py", CALL),
        ("NM003", "train.py", CALL),
    ]
    assert len(text.splitlines()) == 2 + len(found["findings"])
    assert audit("train.py", "--write-baseline", "again.json").code == 0
    assert Path("again.json").read_text() == text


def test_a_fingerprint_is_what_it_was() -> None:
    """A baseline of today is read tomorrow: SHA-256 of what is written here, by hand, of version 1."""
    place = Place("src/train.py", 7, 7, 1, "  loss =  noisy / len(batch)")
    (one,) = marked(Linted((Finding(RULES["NM021"], place),), (), (), 1, ())).findings
    # printf '[1, "NM021", "src/train.py", "loss = noisy / len(batch)", 1]' | sha256sum
    assert one.fingerprint == "b258ab3e488b0c5997d54747f8b47a78"


BAD = {
    "empty": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe\x00",
    "a list": b"[]",
    "another file": b'{"package": "a", "findings": []}',
    "no findings": b'{"baseline": 1}',
    "findings that are none": b'{"baseline": 1, "findings": [1]}',
    "no fingerprint": b'{"baseline": 1, "findings": [{"rule": "NM001"}]}',
    "a fingerprint that is none": b'{"baseline": 1, "findings": [{"fingerprint": 3}]}',
    "a version to come": b'{"baseline": 2, "findings": []}',
    "a version that is none": b'{"baseline": true, "findings": []}',
    "deep": b"[" * 100_000,
    "a number without end": b'{"baseline": 1' + b"0" * 5_000 + b', "findings": []}',
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_what_is_no_baseline_is_one_line(content: bytes) -> None:
    Path(KNOWN).write_bytes(content)
    done = audit(".", "--baseline", KNOWN)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {KNOWN}: ")
    assert "--write-baseline" in done.err
    assert done.err.count("\n") == 1


def test_what_cannot_be_read_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no-such-file", ".", "\0", "a" * 5_000):
        done = audit(".", "--baseline", name)
        assert (done.code, done.out) == (2, ""), name
        assert done.err.count("\n") == 1
    monkeypatch.setattr(lint_marks, "MOST_BYTES", 100)
    Path(KNOWN).write_bytes(b" " * 101)
    with pytest.raises(BadBaseline, match="at most"):
        known(KNOWN)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_not_waited_for() -> None:
    os.mkfifo(KNOWN)
    done = audit(".", "--baseline", KNOWN)
    assert done.code == 2
    assert "not an ordinary file" in done.err


def test_a_name_that_means_harm_is_shown_as_text() -> None:
    Path("\x1b[31m::error::.json").write_text("{")
    done = audit(".", "--baseline", "\x1b[31m::error::.json")
    assert done.code == 2
    assert "\x1b" not in done.err
    assert done.err.startswith("error: ")
