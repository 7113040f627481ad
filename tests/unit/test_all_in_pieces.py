"""What `make test-all` runs: every test once, in pieces that resume, and nothing that failed counts as done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import all_in_pieces

NAMES = [f"tests/unit/test_made_up.py::test_one[{number}]" for number in range(250)]


class Ran:
    """Stands in for pytest: what was run, and what becomes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
        self.pieces: list[list[str]] = []
        self.fails, self.code, self.out = "", "one", out
        monkeypatch.setattr(all_in_pieces, "collected", lambda: NAMES)
        monkeypatch.setattr(all_in_pieces, "digest", lambda: self.code)
        monkeypatch.setattr(all_in_pieces, "run", self.run)
        self.monkeypatch = monkeypatch

    def run(self, piece: list[str], processes: int) -> dict[str, Any]:
        self.pieces.append(piece)
        failures = [name for name in piece if name == self.fails]
        return {"counts": {"passed": len(piece) - len(failures), "failure": len(failures)}, "failures": failures}

    def again(self, *words: str) -> int:
        self.pieces.clear()
        self.monkeypatch.setattr(sys, "argv", ["all_in_pieces.py", "--out", str(self.out), *words])
        return all_in_pieces.main()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ran:
    return Ran(monkeypatch, tmp_path / "out" / "told.jsonl")


def test_every_test_is_run_once(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran.again() == 0
    assert [name for piece in ran.pieces for name in piece] == NAMES
    assert "250 passed; 0 of 3 pieces left" in capsys.readouterr().out.replace("0 failure, ", "")


def test_what_has_passed_is_not_run_again_unless_the_code_has_changed(ran: Ran) -> None:
    assert ran.again() == 0
    assert ran.again() == 0
    assert ran.pieces == []
    ran.code = "two"
    assert ran.again() == 0
    assert len(ran.pieces) == 3


def test_a_failure_is_told_and_its_piece_run_again(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    ran.fails = NAMES[120]
    assert ran.again() == 1
    assert NAMES[120] in capsys.readouterr().out
    ran.fails = ""
    assert ran.again() == 0
    assert ran.pieces == [NAMES[100:200]]


def test_what_is_left_is_no_success(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran.again("--for", "0") == all_in_pieces.LEFT
    assert "3 of 3 pieces left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "counts", "failures"),
    [
        ("def test_one(): pass\ndef test_two(): pass", {"passed": 2}, 0),
        ("def test_one(): pass\ndef test_two(): assert False", {"passed": 1, "failure": 1}, 1),
        # ended by the test: what was not run has not passed
        ("import os\ndef test_one(): pass\ndef test_two(): os._exit(0)", {}, 1),
    ],
)
def test_a_piece_says_what_became_of_each_test(
    body: str, counts: dict[str, int], failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_made_up.py").write_text(body + "\n", encoding="utf-8")

    def alone(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "-p", "no:cacheprovider", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    monkeypatch.setattr(all_in_pieces, "pytest", alone)
    told = all_in_pieces.run(["test_made_up.py::test_one", "test_made_up.py::test_two"], 0)
    assert told["counts"] == counts
    assert len(told["failures"]) == failures
