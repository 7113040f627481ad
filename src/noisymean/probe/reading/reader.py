"""Reading source code: the statements that divide gradients, noise or counts by a size, and where that size comes from.

Files are parsed, never imported. Every division is a candidate, however it is written (see `syntax`), until it is clear that it
has nothing to do with noise: what is divided is followed to noise or gradients (`flow`), what it is divided by through
assignments, parameters, attributes and returned values of the same package (`origins`):

    BATCH      the length of something at run time: len(x), x.shape[0], the sum of a mask
    DATASET    the number of records
    EXPECTED   a rate times a number of records
    FLOOR      a whole number made of such a product
    NUMBER     written down in the source
    CALLER     a number that the user fixes once, and that nobody in the package computes
    PASSED     a parameter that nobody in the package computes, perhaps another number at every call
    NORM       the length of a gradient; to divide by it before there is noise is to clip
    UNKNOWN    anything else

What is not clear is kept as UNCLEAR, so that nobody takes a line that was not understood for one that is not there. Names are
compared, not types: a reading is a pointer to the line, beside what running shows, and no proof.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from noisymean.probe.reading.candidates import Candidates
from noisymean.probe.reading.nodes import is_deeper, last_name
from noisymean.probe.reading.source import Poisson, Source
from noisymean.probe.reading.syntax import Syntax

# Part of the key of cached results.
VERSION = 4
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|docs?|examples?|benchmarks?|tutorials?|research)(/|$)|(^|/)(test_[^/]*|[^/]*_test|conftest|setup)\.py$"
)
# Releases are read by several threads, and CPython's parser counts how deep it is for all of them at once: two together may end
# in "SystemError: AST constructor recursion depth mismatch" (python/cpython#106905).
_ONE_AT_A_TIME = threading.Lock()


def read_source(folder: Path) -> Source:
    """What the Python files under `folder` divide by."""
    modules: list[tuple[str, ast.Module | None]] = []
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    for file in files:
        name = file.name if file == folder else file.relative_to(folder).as_posix()
        if file != folder and is_left_out(name):
            continue
        try:
            text = file.read_bytes()
            with _ONE_AT_A_TIME:
                module = ast.parse(text, filename=name)
        except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
            modules.append((name, None))
        else:
            modules.append((name, None if is_deeper(module) else module))
    return read_modules(modules)


def is_left_out(name: str) -> bool:
    """Tests and the like divide by what they like: they are no part of what is released."""
    return _LEFT_OUT.search(name) is not None


def read_modules(modules: Iterable[tuple[str, ast.Module | None]]) -> Source:
    """What these files divide by, all of them one package; None stands for one that could not be parsed."""
    library = Syntax()
    unreadable: list[str] = []
    count = 0
    for name, module in modules:
        count += 1
        if module is None:
            unreadable.append(name)
        else:
            library.add(name, module)
    statements = sorted(Candidates(library).statements(), key=lambda one: (one.file, one.line))
    unreadable += sorted(library.unfollowed)
    return Source(tuple(dict.fromkeys(statements)), _poisson(library), count, tuple(unreadable))


def _poisson(syntax: Syntax) -> Poisson:
    """Samplers by name, a switch by name, and whether a batch above a declared size is refused."""
    samplers: set[str] = set()
    switch, default, refuses = None, None, False
    for module in syntax.modules.values():
        for node in ast.walk(module):
            match node:
                case ast.ClassDef(name=name) if re.search(r"Poisson|WithReplacementSampler|DPDataLoader", name):
                    samplers.add(name)
                case ast.FunctionDef(name="__init__" | "make_private", args=arguments):
                    for name, value in _defaults(arguments):
                        if "poisson" in name:
                            switch, default = name, value
                case ast.If(test=ast.Compare(ops=[ast.Gt()], left=left, comparators=[right]), body=[ast.Raise(), *_]):
                    refuses = refuses or (last_name(left) == last_name(right) == "batch_size")
    return Poisson(tuple(sorted(samplers)), switch, default, refuses)


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, bool | None]]:
    """Parameters with a default that is True or False."""
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for parameter, default in pairs:
        if isinstance(default, ast.Constant) and isinstance(default.value, bool):
            yield parameter.arg, default.value
