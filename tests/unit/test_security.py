"""SECURITY.md: every statement names tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "SECURITY.md"


def statements() -> list[tuple[str, list[str]]]:
    """The rows of the table of statements: what is said, and the tests that are named for it."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index("| statement | tests |") + 2
    rows = [line for line in lines[start:] if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert all(len(one) == 2 for one in cells)
    return [(said, re.findall(r"`([^`]+)`", tests)) for said, tests in cells]


STATEMENTS = statements()


def test_the_table_is_read_to_its_end() -> None:
    assert len(STATEMENTS) >= 20
    assert len({said for said, _ in STATEMENTS}) == len(STATEMENTS)


@pytest.mark.parametrize(("said", "tests"), STATEMENTS, ids=[said for said, _ in STATEMENTS])
def test_what_is_said_has_tests_that_there_are(said: str, tests: list[str]) -> None:
    assert tests, said
    for one in tests:
        file, _, name = one.partition("::")
        module = ast.parse((HERE / file).read_text(encoding="utf-8"))
        functions = [node.name for node in module.body if isinstance(node, ast.FunctionDef)]
        assert name in functions, one
        assert name.startswith("test_")
