"""What contributors rely on: short modules, a selection for `make check` that names what there is, hooks that run, one version."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import noisymean as nm

ROOT = Path(__file__).parents[2]
LONGEST_MODULE = 500


def test_no_module_is_long() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "src").rglob("*.py")}
    assert {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > LONGEST_MODULE} == {}


def defined(file: Path) -> set[str]:
    """Tests as pytest names them, without the file."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=owner, body=body):
                found |= {f"{owner}::{one.name}" for one in body if isinstance(one, ast.FunctionDef)}
    return found


def test_the_selection_of_make_check_is_of_tests_that_there_are() -> None:
    """One that has another name by now would be run all the same, and take its seconds."""
    lines = (ROOT / "tests" / "check.txt").read_text(encoding="utf-8").splitlines()
    left_out = [line.removeprefix("--deselect=").split("::", 1) for line in lines if line.startswith("--deselect=")]
    files = [line for line in lines if not line.startswith("--")]
    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert [one for one in left_out if one[0] not in files or one[1] not in defined(ROOT / one[0])] == []


def test_hooks_are_those_of_make_lint() -> None:
    pytest.importorskip("pre_commit")
    config = ROOT / ".pre-commit-config.yaml"
    subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", str(config)], check=True, capture_output=True
    )
    text = config.read_text(encoding="utf-8")
    hooks = re.findall(r"entry: \.venv/bin/(\S+(?: check| format)?)", text)
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert hooks == re.findall(r"\$\(BIN\)/(\S+(?: check| format)?)", lint[1])
    # nothing is fetched
    assert re.findall(r"repo: (\S+)", text) == ["local"]


def test_every_requirement_has_a_lowest_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for some in project["optional-dependencies"].values() for one in some)]
    assert [one for one in wanted if not re.fullmatch(r"[\w-]+>=[\d.]+|noisymean\[[\w,]+\]", one)] == []


def test_one_version() -> None:
    newest = re.search(r"^## \[(.*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert (newest[1], cited[1]) == (nm.__version__, nm.__version__)
