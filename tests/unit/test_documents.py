"""Every command and every number that README and docs show is run and compared."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest
from test_cli import run

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def sessions() -> list[tuple[str, str, str]]:
    """(document, command, the output that it shows)."""
    found = []
    for path in DOCUMENTS:
        for block in _CONSOLE.findall(path.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                # a command may go on after a backslash
                joined = part.replace("\\\n", " ")
                command, _, output = joined.partition("\n")
                found.append((path.name, command, output))
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks(path: Path) -> None:
    failures, _ = doctest.testfile(str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failures == 0


@pytest.mark.parametrize(("document", "command", "expected"), sessions())
def test_console_blocks(
    document: str, command: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(command)
    assert words[0] == "noisymean", f"{document}: only noisymean commands are shown with their output"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs" / "images").mkdir(parents=True)
    result = run(*words[1:])
    assert result.code == 0
    if expected.strip():
        assert [line.rstrip() for line in result.out.splitlines() if line.strip()] == [
            line.rstrip() for line in expected.splitlines() if line.strip()
        ]


def test_something_is_shown() -> None:
    assert any(document == "README.md" for document, _, _ in sessions())
