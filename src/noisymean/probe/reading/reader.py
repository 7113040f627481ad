"""Reading source code: the statements that divide gradients, noise or counts by a size, and where that size comes from.

Files are parsed, never imported. A statement counts if what it divides is named like a gradient, noise or a count, and what it
divides by like a size; its origin is followed through assignments, parameters and returned values of the same package:

    BATCH      the length of something at run time: len(x), x.shape[0]
    EXPECTED   a rate times a number of records
    FLOOR      int() of such a product
    CALLER     a parameter that nobody in the package computes: the user's number
    UNKNOWN    anything else

Names are compared, not types: a reading is a pointer to the line, beside what running shows, and no proof.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from noisymean.probe.reading.origins import DEPTH, NOT_SIZES, Origins
from noisymean.probe.reading.source import Origin, Poisson, Role, Source, Statement
from noisymean.probe.reading.syntax import Division, Scope, Syntax, Value, last_name, names_in

# Part of the key of cached results.
VERSION = 1
_DIVIDED = re.compile(r"grad|noise|noisy|summed|clipped|stddev|update|unclipped", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"^[gvx]$")
_SIZE = re.compile(
    r"batch|bsize|bsz|normalize_by|normalizer|denominator|sample_size|num_(samples|examples|records)", re.IGNORECASE
)
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|docs?|examples?|benchmarks?|tutorials?|research)(/|$)|(^|/)(test_[^/]*|[^/]*_test|conftest|setup)\.py$"
)


def read_source(folder: Path) -> Source:
    """What the Python files under `folder` divide by."""
    library = Syntax()
    unreadable, count = [], 0
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    for file in files:
        name = file.name if file == folder else file.relative_to(folder).as_posix()
        if _LEFT_OUT.search(name):
            continue
        count += 1
        try:
            library.add(name, ast.parse(file.read_bytes(), filename=name))
        except (SyntaxError, ValueError, OSError, RecursionError):
            unreadable.append(name)
    statements = sorted(_statements(library), key=lambda one: (one.file, one.line))
    return Source(tuple(dict.fromkeys(statements)), _poisson(library), count, tuple(unreadable))


def _statements(syntax: Syntax) -> Iterator[Statement]:
    """The divisions that matter."""
    origins = Origins(syntax)
    for one in syntax.divisions:
        role = _role(one)
        if role is None or not any(_SIZE.search(name) and not NOT_SIZES.search(name) for name in names_in(one.by)):
            continue
        found = origins.of(Value(one.by, one.scope), DEPTH, set()) or {Origin.UNKNOWN}
        ordered = sorted(found, key=lambda origin: origin.value)
        text = " ".join(ast.unparse(one.statement).split())
        line = getattr(one.statement, "lineno", 0)
        if isinstance(one.statement, ast.FunctionDef | ast.ClassDef | ast.With | ast.For | ast.If) or len(text) > 200:
            text = f"{ast.unparse(one.divided)} / {ast.unparse(one.by)}"
            line = one.divided.lineno
        yield Statement(one.scope.module, line, text, role, tuple(ordered), one.guards)


def _role(division: Division) -> Role | None:
    names = names_in(division.divided)
    if any("unclipped" in name for name in names):
        return Role.COUNT
    divided = [name for name in names if _DIVIDED.search(name)]
    placeholder = any(_PLACEHOLDER.match(name) for name in names)
    if placeholder and not divided:
        divided = [name for name in names_in(division.statement) if _DIVIDED.search(name)]
        divided += [] if divided else _function_names(division.scope)
    if not divided:
        return None
    bare = all(re.search(r"noise|stddev", name) and "grad" not in name for name in divided)
    return Role.NOISE if bare and not placeholder else Role.GRADIENT


def _function_names(scope: Scope) -> list[str]:
    """What the function around a placeholder, and the one around that, work on."""
    found: list[str] = []
    at: Scope | None = scope
    for _ in range(2):
        if at is not None and at.function is not None:
            found += [name for name in at.parameters() if _DIVIDED.search(name)]
            if isinstance(at.function, ast.FunctionDef) and _DIVIDED.search(at.function.name):
                found.append(at.function.name)
            at = at.parent
    return found


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
                case _:
                    pass
    return Poisson(tuple(sorted(samplers)), switch, default, refuses)


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, bool | None]]:
    """Parameters with a default that is True or False."""
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for parameter, default in pairs:
        if isinstance(default, ast.Constant) and isinstance(default.value, bool):
            yield parameter.arg, default.value
