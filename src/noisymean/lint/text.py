"""A file or a notebook as parsed source, and the way back from a line of it to the place that people see.

Source is decoded here, by the few encodings that source is written in: some codecs of Python take hours for a megabyte. Nesting
is measured before anything walks down a tree, and code that is nested deeper than people write it is left out.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from noisymean.lint.findings import Place
from noisymean.probe.reading.nodes import DEEPEST, is_deeper

_ENCODINGS = re.compile(
    r"utf-8(-sig)?|ascii|latin-1|iso8859-\d+|iso-8859-\d+|cp125\d|gbk|gb2312|gb18030|big5|shift_jis|euc[-_]\w+|koi8-[ru]",
    re.IGNORECASE,
)
# `!ls`, `%matplotlib inline`, `x = !ls` and `help?` are not Python.
_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|[\w.]+\s*=\s*[%!].*|.*\?\s*)$")
_WHOLE_CELL = re.compile(r"%%(\w+)")
_PYTHON_CELLS = ("time", "timeit", "capture", "prun", "python", "python3")
_LONGEST_SHOWN = 300
# Of a notebook, which may be much larger for its pictures; a file of Python has the same limit.
MOST_CODE = 1 << 20


class Unreadable(Exception):
    """Source that cannot be parsed, and why, in a few words."""


@final
@dataclass(frozen=True)
class Line:
    """Where a line of source stands: in the file, and in a notebook in which code cell and where in it."""

    line: int
    text: str
    cell: int | None = None
    cell_line: int | None = None


@final
@dataclass(frozen=True, eq=False)
class Text:
    """One file, parsed; line i of the source is `lines[i - 1]`."""

    file: str
    tree: ast.Module
    lines: tuple[Line, ...]

    @property
    def source(self) -> str:
        """All of it, a notebook's code cells one after the other."""
        return "\n".join(one.text for one in self.lines)

    def place(self, node: ast.AST) -> Place:
        """Where a node begins and ends; of a loop and the like, its head."""
        first = self.lines[min(getattr(node, "lineno", 1), len(self.lines)) - 1]
        last = self.lines[min(_last_line(node), len(self.lines)) - 1]
        # the parser counts bytes
        column = len(first.text.encode()[: getattr(node, "col_offset", 0)].decode(errors="replace")) + 1
        shown = first.text.strip()
        shown = shown if len(shown) <= _LONGEST_SHOWN else shown[: _LONGEST_SHOWN - 3] + "..."
        return Place(self.file, first.line, max(last.line, first.line), column, shown, first.cell, first.cell_line)


def _last_line(node: ast.AST) -> int:
    body = getattr(node, "body", None) if isinstance(node, ast.stmt) else None
    if isinstance(body, list) and body:
        # what stands in a loop is not the loop: a comment there is about something else
        return max(getattr(node, "lineno", 1), getattr(body[0], "lineno", 1) - 1)
    return getattr(node, "end_lineno", None) or 1


def parsed(file: str, data: bytes, *, notebook: bool) -> Text:
    """A file as source; Unreadable where it is none."""
    lines = tuple(_of_notebook(data)) if notebook else tuple(_of_file(data))
    return Text(file, _tree([one.text for one in lines]), lines or (Line(1, ""),))


def _tree(lines: Sequence[str]) -> ast.Module:
    try:
        try:
            tree = _parse(lines)
        except SyntaxError:
            if not any(_MAGIC.match(line) for line in lines):
                raise
            # a notebook that was saved as a script keeps its magic
            tree = _parse(_as_python(lines))
    except SyntaxError as fault:
        where = "" if fault.lineno is None else f", line {fault.lineno}"
        raise Unreadable(f"not Python 3{where}") from None
    except ValueError:
        raise Unreadable("not Python 3") from None
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply to be parsed") from None
    if is_deeper(tree):
        raise Unreadable(f"nested more than {DEEPEST} levels deep")
    return tree


def _parse(lines: Sequence[str]) -> ast.Module:
    with warnings.catch_warnings():
        # of escape sequences in strings, which are none of our business
        warnings.simplefilter("ignore")
        return ast.parse("\n".join(lines))


def _as_python(lines: Sequence[str]) -> list[str]:
    """Without what only a notebook understands, line by line."""
    return [_MAGIC.sub(r"\1pass", line) if _MAGIC.match(line) and not _is_python(line) else line for line in lines]


def _of_file(data: bytes) -> Iterator[Line]:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if not _ENCODINGS.fullmatch(encoding):
            raise Unreadable("an unusual encoding")
        source = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        raise Unreadable("not text in the encoding that it says") from None
    # as the parser counts them: form feeds and the like end no line
    for number, line in enumerate(re.split("\r\n|\r|\n", source), 1):
        yield Line(number, line)


def _of_notebook(data: bytes) -> Iterator[Line]:
    """The code cells one after the other; each line knows where it stands in the file."""
    try:
        raw = data.decode("utf-8")
        found: Any = json.loads(raw)
        cells = found["cells"] if "cells" in found else found["worksheets"][0]["cells"]
        sources = [_source_of(cell) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        raise Unreadable("not a notebook") from None
    if sum(len(line) + 1 for source in sources for line in source) > MOST_CODE:
        raise Unreadable(f"more than {MOST_CODE >> 20} MB of code")
    physical = _Physical(raw)
    for number, source in enumerate(sources, 1):
        code = _without_magic(source)
        for at, (line, shown) in enumerate(zip(code, source, strict=True), 1):
            yield Line(physical.next(shown), line, number, at)


def _source_of(cell: Any) -> list[str]:
    source = cell.get("source", cell.get("input", ""))
    text = source if isinstance(source, str) else "".join(source)
    if not isinstance(text, str):
        raise TypeError(text)
    return re.split("\r\n|\r|\n", text)


def _without_magic(lines: list[str]) -> list[str]:
    """A cell as Python, line by line; one that is no Python at all is empty."""
    first = next((line for line in lines if line.strip()), "")
    whole = _WHOLE_CELL.match(first.strip())
    if whole and whole[1] not in _PYTHON_CELLS:
        return [""] * len(lines)
    code = _as_python(lines)
    try:
        _parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # people leave cells that do not run; the others are read
        return [""] * len(lines)
    return code


def _is_python(line: str) -> bool:
    """A line that ends in a question mark may be a comment or end a string."""
    return line.rstrip().endswith("?") and not re.fullmatch(r"\s*[\w.]+\?{1,2}\s*", line)


class _Physical:
    """Finds the lines of code cells in the file: a notebook has each on a line of its own, as a string of JSON."""

    def __init__(self, raw: str) -> None:
        self._at = 0
        self._of: dict[str, list[int]] = {}
        for number, line in enumerate(raw.split("\n"), 1):
            said = _string_of(line)
            if said is not None:
                self._of.setdefault(said, []).append(number)

    def next(self, wanted: str) -> int:
        """The number of the next line of the file that holds this one; where it was last if there is none."""
        there = self._of.get(wanted, [])
        at = bisect_right(there, self._at)
        if at < len(there):
            self._at = there[at]
        return max(self._at, 1)


def _string_of(line: str) -> str | None:
    """What a line of a notebook's file says, if it is one string."""
    start, end = line.find('"'), line.rfind('"')
    inner = line[start : end + 1]
    if inner.startswith('"source": '):
        inner = inner.removeprefix('"source": ').removeprefix("[")
    try:
        said = json.loads(inner)
    except (ValueError, RecursionError):
        return None
    return said.rstrip("\r\n") if isinstance(said, str) else None
