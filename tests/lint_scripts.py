"""Scripts with their findings beside the lines: `# !NM001 !NM003` at the first line of what is to be found, nothing elsewhere."""

from __future__ import annotations

import re
import tempfile
import textwrap
from pathlib import Path

from noisymean.lint.linter import lint

_MARK = re.compile(r"!(NM\d\d\d)")
_EITHER = re.compile(r"\{-(.*?)-\|\+(.*?)\+\}", re.DOTALL)


def expected(script: str) -> list[tuple[int, str]]:
    """What the marks say."""
    lines = enumerate(script.split("\n"), 1)
    return sorted((number, rule) for number, line in lines for rule in _MARK.findall(line))


def found(script: str, name: str = "train.py") -> list[tuple[int, str]]:
    """What the rules find in a script, read without its marks: nothing may be found because of them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_text(re.sub(r"\s*# (!NM\d\d\d ?)+", "", script), encoding="utf-8")
        linted = lint([file])
    assert not linted.not_read
    return sorted((one.place.line, one.rule.id) for one in linted.findings)


def sides(script: str) -> tuple[str, str]:
    """A script with a fault and its right twin, out of one in which `{-wrong-|+right+}` stands for what they differ in."""
    wrong, right = _EITHER.sub(r"\1", script), _EITHER.sub(r"\2", script)
    # what is left out may leave spaces at the end of a line
    return re.sub(r" +(?=\n)", "", wrong), re.sub(r" +(?=\n)", "", right)


def both(script: str, name: str = "train.py") -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """What is found, and what is marked: line and rule."""
    script = textwrap.dedent(script).lstrip("\n")
    return found(script, name), expected(script)
