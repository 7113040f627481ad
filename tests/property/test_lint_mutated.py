"""Scripts that are cut up at random: whatever is left of them, the rules and the reader answer, and answer the same again."""

from __future__ import annotations

import io
import random
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest

from noisymean.lint.catalogue import RULES
from noisymean.lint.findings import Linted
from noisymean.lint.linter import lint
from noisymean.lint.text import Unreadable, parsed
from noisymean.probe.reading import read_modules

Mutate = Callable[[str, random.Random], str]
SCRIPTS = sorted((Path(__file__).parent.parent / "held_out" / "dev").glob("*.py"))
# What is put in between: halves of statements, and what rules look at.
PIECES = (
    "for x in loader:", "if len(batch) == 0:", "continue", "return", "lambda:", "noise", "grad", "/ len(batch)", "* (1 / n)", "self.", "()",
    "[0]", ", ", "=", "+= torch.randn_like(p.grad)", "**kwargs", "*args", "def f(x):", "class A:", "yield", "await x", "del x", "global noise",
    "key, _ = jax.random.split(key)", "with x as (y, *z):", "match x:", "case {'a': b, **c}:", "x: int", "(y := x)", "@property", "\\", "'''",
)  # fmt: skip


def by_lines(source: str, draw: random.Random) -> str:
    """Some lines are left out, doubled, moved or indented."""
    lines = source.split("\n")
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(len(lines))
        match draw.randrange(5):
            case 0:
                del lines[at : at + draw.randint(1, 6)]
            case 1:
                lines[at:at] = lines[at : at + draw.randint(1, 6)]
            case 2:
                lines.insert(draw.randrange(len(lines)), lines.pop(at))
            case 3:
                lines[at] = "    " + lines[at]
            case _:
                lines[at] = lines[at].replace("    ", "", 1)
        lines = lines or [""]
    return "\n".join(lines)


def by_tokens(source: str, draw: random.Random) -> str:
    """Some names and operators are exchanged for others of the same script, or for pieces of code."""
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(source).readline) if one.string.strip()]
    lines = source.split("\n")
    for _ in range(draw.randint(1, 12)):
        one, other = draw.choice(tokens), draw.choice(tokens)
        row, (start, end) = one.start[0] - 1, (one.start[1], one.end[1])
        put = draw.choice((other.string.partition("\n")[0], draw.choice(PIECES), ""))
        if one.start[0] == one.end[0] and lines[row][start:end] == one.string:
            lines[row] = lines[row][:start] + put + lines[row][end:]
    return "\n".join(lines)


def linted(folder: Path, source: str) -> Linted:
    file = folder / "train.py"
    file.write_text(source, encoding="utf-8")
    return lint([file])


def check(folder: Path, source: str) -> bool:
    """Whether it could be parsed; what is asked of it either way."""
    found = linted(folder, source)
    assert linted(folder, source) == found
    places = [one.place for one in found.findings]
    lines = source.split("\n")
    assert all(1 <= one.line <= one.end_line <= len(lines) and one.column >= 1 for one in places)
    assert [one.line for one in places] == sorted(one.line for one in places)
    assert all(one.source and lines[one.line - 1].strip().startswith(one.source[:200]) for one in places)
    assert all(RULES[one.rule.id] is one.rule for one in found.findings)

    below = linted(folder, "# one line more\n" + source)
    assert [(one.rule.id, one.place.line) for one in below.findings] == [
        (one.rule.id, one.place.line + 1) for one in found.findings
    ]
    assert len(below.not_read) == len(found.not_read)
    try:
        tree = parsed("train.py", source.encode(), notebook=False).tree
    except Unreadable:
        assert found.findings == ()
        return False
    read = read_modules([("train.py", tree)])
    assert all(1 <= one.line <= len(lines) for one in read.statements)
    assert read == read_modules([("train.py", tree)])
    return True


ROUNDS = [*range(12), *(pytest.param(one, marks=pytest.mark.slow) for one in range(12, 400))]


@pytest.mark.parametrize("seed", ROUNDS)
@pytest.mark.parametrize("mutate", [by_lines, by_tokens], ids=["lines", "tokens"])
def test_mutated(tmp_path: Path, mutate: Mutate, seed: int) -> None:
    """One round goes through all scripts."""
    draw = random.Random(seed)
    for script in SCRIPTS:
        check(tmp_path, mutate(script.read_text(encoding="utf-8"), draw))


def test_some_of_them_can_be_parsed(tmp_path: Path) -> None:
    """Else the rules are hardly asked."""
    draw = random.Random(1)
    changed = [by_lines(script.read_text(encoding="utf-8"), draw) for script in SCRIPTS for _ in range(3)]
    assert sum(check(tmp_path, one) for one in changed) >= 10
