"""Data decides, prose only tells: nothing in the package is recognised by its sentence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
# A constant with so many words is a sentence, whoever compares it.
FEWEST_WORDS = 4
# Names of things that are written for people.
TOLD = ("description", "note", "reason", "message", "sentence", "remark")
# What the command-line parser says of itself has no other form.
FOREIGN = {"noisymean/cli/faults.py"}


def is_sentence(node: ast.expr) -> bool:
    """A text of several words, or one that is put together of them."""
    if isinstance(node, ast.JoinedStr):
        return (
            sum(len(str(part.value).split()) for part in node.values if isinstance(part, ast.Constant)) >= FEWEST_WORDS
        )
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) >= FEWEST_WORDS


def is_told(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return not name.isupper() and name.rstrip("s").endswith(TOLD)


def compared(tree: ast.AST) -> Iterator[int]:
    """Lines on which a sentence decides something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            known = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
            if any(map(is_sentence, sides)) or (any(map(is_told, sides)) and not known):
                yield node.lineno
        if isinstance(node, ast.Dict) and any(key is not None and is_sentence(key) for key in node.keys):
            yield node.lineno
        if isinstance(node, ast.DictComp) and is_sentence(node.key):
            yield node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            looked_at = is_told(node.func.value) or any(map(is_sentence, node.args))
            if node.func.attr in ("startswith", "endswith", "removeprefix", "removesuffix") and looked_at:
                yield node.lineno


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_sentence_is_compared(file: Path) -> None:
    name = file.relative_to(SOURCE).as_posix()
    found = list(compared(ast.parse(file.read_text(encoding="utf-8"))))
    assert name in FOREIGN or not found, f"{name}: a sentence decides something on lines {found}"


@pytest.mark.parametrize(
    "line",
    [
        "note.endswith(unproved)",
        "pair.description == 'every gradient of D is zero'",
        "answer.reason.startswith('the bound')",
        "{'every gradient of D is zero': 1}[pair]",
        "'no guarantee is known here' in text",
        "'no guarantee' in answer.note",
        "pair.description == other.description",
        "{f'every gradient of D is {one}': one for one in Structure}",
    ],
)
def test_the_known_shapes_are_seen(line: str) -> None:
    assert list(compared(ast.parse(line)))
