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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, final

# Part of the key of cached results.
VERSION = 1
_DIVIDED = re.compile(r"grad|noise|noisy|summed|clipped|stddev|update|unclipped", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"^[gvx]$")
_SIZE = re.compile(
    r"batch|bsize|bsz|normalize_by|normalizer|denominator|sample_size|num_(samples|examples|records)", re.IGNORECASE
)
_RATE = re.compile(r"rate|prob|^q$", re.IGNORECASE)
_COUNT = re.compile(r"size|len|num|count|samples|records|examples|dataset", re.IGNORECASE)
_NOT_SIZES = re.compile(r"accumulat|iteration|world|rank|epsilon|eps$|norm$|norms$", re.IGNORECASE)
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|docs?|examples?|benchmarks?|tutorials?|research)(/|$)|(^|/)(test_[^/]*|[^/]*_test|conftest|setup)\.py$"
)
_QUOTIENTS = ("div", "div_", "true_divide", "truediv", "divide", "div_no_nan")
_CASTS = ("cast", "float", "asarray", "array", "tensor", "maximum", "max", "float32", "convert_to_tensor", "abs")
_DEPTH = 60
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# a variable and its scope, or an attribute
_Key: TypeAlias = tuple[str, int | None]


class Origin(Enum):
    """Where a size comes from."""

    BATCH = "|B|"
    EXPECTED = "N q"
    FLOOR = "floor(N q)"
    CALLER = "a number of the caller's"
    UNKNOWN = "unknown"


class Role(Enum):
    """What is divided."""

    GRADIENT = "gradient"
    NOISE = "noise"
    COUNT = "count"


@final
@dataclass(frozen=True)
class Statement:
    """A statement that divides by a size."""

    file: str
    line: int
    text: str
    role: Role
    origins: tuple[Origin, ...]
    guards: tuple[str, ...]

    @property
    def place(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"


@final
@dataclass(frozen=True)
class Poisson:
    """What the source offers for Poisson sampling."""

    samplers: tuple[str, ...]
    switch: str | None
    default: bool | None
    refuses_larger: bool


@final
@dataclass(frozen=True)
class Source:
    """Everything that was read in a package."""

    statements: tuple[Statement, ...]
    poisson: Poisson
    files: int
    unreadable: tuple[str, ...]

    def dividing(self, role: Role = Role.GRADIENT) -> tuple[Statement, ...]:
        """The statements of one role."""
        return tuple(one for one in self.statements if one.role is role)


@final
@dataclass
class _Scope:
    """A function (or a module) and what is assigned in it."""

    function: _Function | None
    parent: _Scope | None
    module: str
    owner: str
    assigned: dict[str, list[_Value]] = field(default_factory=dict)

    def parameters(self) -> list[str]:
        if self.function is None:
            return []
        arguments = self.function.args
        return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


@final
@dataclass(frozen=True)
class _Value:
    """An expression in its scope; the index where a tuple was unpacked."""

    expression: ast.expr
    scope: _Scope
    index: int | None = None


def read_source(folder: Path) -> Source:
    """What the Python files under `folder` divide by."""
    library = _Library()
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
    statements = sorted(library.statements(), key=lambda one: (one.file, one.line))
    return Source(tuple(dict.fromkeys(statements)), library.poisson(), count, tuple(unreadable))


@final
class _Library:
    """All modules of a package: what is assigned under which name, what functions return, what is divided."""

    def __init__(self) -> None:
        self.modules: dict[str, ast.Module] = {}
        self.attributes: dict[str, list[_Value]] = {}
        self.keywords: dict[str, list[_Value]] = {}
        self.calls: dict[str, list[tuple[ast.Call, _Scope]]] = {}
        self.fields: set[str] = set()
        self.returned: dict[str, list[_Value]] = {}
        self.divisions: list[_Division] = []

    def add(self, name: str, module: ast.Module) -> None:
        """One parsed file."""
        self.modules[name] = module
        self._walk(module, _Scope(None, None, name, ""), (), module)

    # --- collecting ----------------------------------------------------------------------------------------------------

    def _walk(self, node: ast.AST, scope: _Scope, guards: tuple[str, ...], statement: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            here = child if isinstance(child, ast.stmt) else statement
            self._collect(child, scope, guards, here)
            if isinstance(child, ast.ClassDef):
                self.fields |= {
                    part.target.id
                    for part in child.body
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                }
                self._walk(child, _Scope(None, scope, scope.module, child.name), (), here)
            elif isinstance(child, _Function):
                inner = _Scope(child, scope, scope.module, scope.owner)
                self._walk(child, inner, guards if isinstance(child, ast.Lambda) else (), here)
            elif isinstance(child, ast.If):
                self._walk(child.test, scope, guards, here)
                test = ast.unparse(child.test)
                for part, said in ((child.body, test), (child.orelse, f"not ({test})")):
                    self._walk(ast.Module(body=part, type_ignores=[]), scope, (*guards, said), here)
            else:
                self._walk(child, scope, guards, here)

    def _call(self, call: ast.Call, scope: _Scope) -> None:
        self.calls.setdefault(_last(call.func), []).append((call, scope))
        for keyword in call.keywords:
            if keyword.arg is not None:
                self.keywords.setdefault(keyword.arg, []).append(_Value(keyword.value, scope))

    def _collect(self, node: ast.AST, scope: _Scope, guards: tuple[str, ...], statement: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self._call(node, scope)
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, _Value(value, scope), scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, _Value(value, scope), scope)
            case ast.AugAssign(target=target, op=operator, value=value):
                if isinstance(operator, ast.Add):
                    self._assign(target, _Value(value, scope), scope)
                elif isinstance(operator, ast.Div):
                    self.divisions.append(_Division(target, value, scope, guards, node))
                elif isinstance(operator, ast.Mult) and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
                    self.divisions.append(_Division(target, value.right, scope, guards, node))
            case ast.Return(value=ast.expr() as value) if isinstance(scope.function, ast.FunctionDef):
                self.returned.setdefault(scope.function.name, []).append(_Value(value, scope))
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                self.divisions.append(_Division(left, right, scope, guards, statement))
            case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[*arguments]) if name in _QUOTIENTS:
                if len(arguments) == 1:
                    self.divisions.append(_Division(owner, arguments[0], scope, guards, statement))
                elif len(arguments) == 2:
                    self.divisions.append(_Division(arguments[0], arguments[1], scope, guards, statement))
            case _:
                pass

    def _assign(self, target: ast.expr, value: _Value, scope: _Scope) -> None:
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                whole = value.expression
                same = isinstance(whole, ast.Tuple) and len(whole.elts) == len(parts)
                for index, part in enumerate(parts):
                    own = whole.elts[index] if same and isinstance(whole, ast.Tuple) else whole
                    self._assign(part, _Value(own, scope, None if same else index), scope)
            case ast.Name(id=name):
                scope.assigned.setdefault(name, []).append(value)
            case ast.Attribute(attr=name):
                self.attributes.setdefault(name, []).append(value)
            case _:
                pass

    # --- dividing ------------------------------------------------------------------------------------------------------

    def statements(self) -> Iterator[Statement]:
        """The divisions that matter."""
        for one in self.divisions:
            role = self._role(one)
            if role is None or not any(_SIZE.search(name) and not _NOT_SIZES.search(name) for name in _names(one.by)):
                continue
            found = self._origins(_Value(one.by, one.scope), _DEPTH, set()) or {Origin.UNKNOWN}
            origins = sorted(found, key=lambda origin: origin.value)
            text = " ".join(ast.unparse(one.statement).split())
            line = getattr(one.statement, "lineno", 0)
            if (
                isinstance(one.statement, ast.FunctionDef | ast.ClassDef | ast.With | ast.For | ast.If)
                or len(text) > 200
            ):
                text = f"{ast.unparse(one.divided)} / {ast.unparse(one.by)}"
                line = one.divided.lineno
            yield Statement(one.scope.module, line, text, role, tuple(origins), one.guards)

    def _role(self, division: _Division) -> Role | None:
        names = _names(division.divided)
        if any("unclipped" in name for name in names):
            return Role.COUNT
        divided = [name for name in names if _DIVIDED.search(name)]
        placeholder = any(_PLACEHOLDER.match(name) for name in names)
        if placeholder and not divided:
            divided = [name for name in _names(division.statement) if _DIVIDED.search(name)]
            divided += [] if divided else _function_names(division.scope)
        if not divided:
            return None
        bare = all(re.search(r"noise|stddev", name) and "grad" not in name for name in divided)
        return Role.NOISE if bare and not placeholder else Role.GRADIENT

    def _origins(self, value: _Value, depth: int, seen: set[_Key]) -> set[Origin]:
        """Where an expression's value comes from."""
        node = value.expression
        if depth == 0:
            return {Origin.UNKNOWN}
        if _is_product_of_rate_and_count(node):
            return {Origin.EXPECTED}
        match node:
            case ast.Call(func=function, args=[first, *_]) if _last(function) in ("int", "floor", "round"):
                inner = self._origins(_Value(first, value.scope), depth - 1, seen)
                return {Origin.FLOOR if one is Origin.EXPECTED else one for one in inner}
            case ast.BinOp(op=ast.FloorDiv(), left=left):
                inner = self._origins(_Value(left, value.scope), depth - 1, seen)
                return {Origin.FLOOR if one is Origin.EXPECTED else one for one in inner}
            case ast.Subscript(value=inner, slice=ast.Constant(value=0)) if "shape" in _names(inner):
                return {Origin.BATCH}
            case ast.Call(func=ast.Name(id="len")):
                return {Origin.BATCH}
            case ast.Call(func=function, args=arguments) if _last(function) in _CASTS:
                found = [
                    self._origins(_Value(one, value.scope), depth - 1, seen) for one in arguments if _is_value(one)
                ]
                return set().union(*found) or {Origin.UNKNOWN}
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(elt=element), *_]):
                return self._origins(_Value(element, value.scope), depth - 1, seen)
            case ast.Call(func=function):
                return self._returned(_last(function), value.index, depth, seen)
            case ast.BinOp(op=ast.Mult()):
                parts = [one for one in _factors(node) if not _NOT_SIZES.search(_last(one))]
                found = [self._origins(_Value(one, value.scope), depth - 1, seen) for one in parts]
                return set().union(*found) or {Origin.UNKNOWN}
            case ast.IfExp(body=body, orelse=other):
                both = (self._origins(_Value(one, value.scope), depth - 1, seen) for one in (body, other))
                return set().union(*both)
            case ast.Name(id=name):
                return self._named(name, value.scope, depth, seen)
            case ast.Attribute(attr=name):
                return self._attribute(name, depth, seen)
            case ast.Constant():
                return set()
            case _:
                return {Origin.UNKNOWN}

    def _named(self, name: str, scope: _Scope, depth: int, seen: set[_Key]) -> set[Origin]:
        """A variable: what is assigned to it where it is visible, or what is passed for it as a parameter."""
        at: _Scope | None = scope
        while at is not None:
            if name in at.assigned or name in at.parameters():
                break
            at = at.parent
        if at is None:
            return {Origin.UNKNOWN}
        key = (name, id(at))
        if key in seen:
            return set()
        seen.add(key)
        found = self._of_all(at.assigned.get(name, []), depth, seen)
        if name in at.parameters():
            found |= self._passed(name, at, depth, seen)
        return found

    def _attribute(self, name: str, depth: int, seen: set[_Key]) -> set[Origin]:
        """An attribute: what is assigned to one of that name anywhere, else what is passed under that keyword."""
        key = (name, None)
        if key in seen:
            return set()
        seen.add(key)
        found = self._of_all(self.attributes.get(name, []), depth, seen)
        if name in self.fields:
            found |= self._by_keyword(name, depth, seen) or ({Origin.CALLER} if not found else set())
        return found if name in self.fields or name in self.attributes else {Origin.UNKNOWN}

    def _of_all(self, values: Sequence[_Value], depth: int, seen: set[_Key]) -> set[Origin]:
        found: set[Origin] = set()
        for one in values:
            found |= self._origins(one, depth - 1, seen)
        return found

    def _passed(self, name: str, scope: _Scope, depth: int, seen: set[_Key]) -> set[Origin]:
        """What the package passes for a parameter; if it never does, the number is the caller's."""
        function = scope.function
        called = function.name if isinstance(function, ast.FunctionDef) else ""
        position = scope.parameters().index(name) - (scope.parameters()[0] in ("self", "cls"))
        values = [
            _Value(call.args[position], at)
            for call, at in self.calls.get(scope.owner if called == "__init__" else called, [])
            if 0 <= position < len(call.args) and not any(isinstance(one, ast.Starred) for one in call.args)
        ]
        again = (name, -1) in seen
        found = self._of_all(values, depth, seen) | self._by_keyword(name, depth, seen)
        # what was followed from elsewhere already is not the caller's for that
        return found or (set() if again else {Origin.CALLER})

    def _by_keyword(self, name: str, depth: int, seen: set[_Key]) -> set[Origin]:
        """What is passed under that keyword anywhere; every keyword is followed once."""
        if (name, -1) in seen:
            return set()
        seen.add((name, -1))
        return self._of_all(self.keywords.get(name, []), depth, seen)

    def _returned(self, name: str, index: int | None, depth: int, seen: set[_Key]) -> set[Origin]:
        """What functions of that name return, or one element of it."""
        key = (f"{name}()", index)
        if key in seen:
            return set()
        seen.add(key)
        found: set[Origin] = set()
        for one in self.returned.get(name, ()):
            expression = one.expression
            if index is not None:
                if not isinstance(expression, ast.Tuple) or index >= len(expression.elts):
                    continue
                expression = expression.elts[index]
            found |= self._origins(_Value(expression, one.scope), depth - 1, seen)
        return found if name in self.returned else {Origin.UNKNOWN}

    # --- Poisson -------------------------------------------------------------------------------------------------------

    def poisson(self) -> Poisson:
        """Samplers by name, a switch by name, and whether a batch above a declared size is refused."""
        samplers: set[str] = set()
        switch, default, refuses = None, None, False
        for module in self.modules.values():
            for node in ast.walk(module):
                match node:
                    case ast.ClassDef(name=name) if re.search(r"Poisson|WithReplacementSampler|DPDataLoader", name):
                        samplers.add(name)
                    case ast.FunctionDef(name="__init__" | "make_private", args=arguments):
                        for name, value in _defaults(arguments):
                            if "poisson" in name:
                                switch, default = name, value
                    case ast.If(
                        test=ast.Compare(ops=[ast.Gt()], left=left, comparators=[right]), body=[ast.Raise(), *_]
                    ):
                        refuses = refuses or (_last(left) == _last(right) == "batch_size")
                    case _:
                        pass
        return Poisson(tuple(sorted(samplers)), switch, default, refuses)


@final
@dataclass(frozen=True, eq=False)
class _Division:
    """Something divided by something."""

    divided: ast.expr
    by: ast.expr
    scope: _Scope
    guards: tuple[str, ...]
    statement: ast.AST


def _names(node: ast.AST) -> list[str]:
    """Identifiers in an expression."""
    found = []
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.append(one.id)
        elif isinstance(one, ast.Attribute):
            found.append(one.attr)
    return found


def _function_names(scope: _Scope) -> list[str]:
    """What the function around a placeholder, and the one around that, work on."""
    found: list[str] = []
    at: _Scope | None = scope
    for _ in range(2):
        if at is not None and at.function is not None:
            found += [name for name in at.parameters() if _DIVIDED.search(name)]
            if isinstance(at.function, ast.FunctionDef) and _DIVIDED.search(at.function.name):
                found.append(at.function.name)
            at = at.parent
    return found


def _last(node: ast.expr) -> str:
    """The last identifier of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _factors(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return [*_factors(left), *_factors(right)]
        case _:
            return [node]


def _is_value(node: ast.expr) -> bool:
    """Neither a constant nor a type."""
    return not isinstance(node, ast.Constant) and not re.search(r"float|int|dtype", _last(node))


def _is_product_of_rate_and_count(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            sides = [_names(left), _names(right)]
            return any(
                any(_RATE.search(name) for name in one) and any(_COUNT.search(name) for name in other)
                for one, other in (sides, sides[::-1])
            )
        case _:
            return False


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, bool | None]]:
    """Parameters with a default that is True or False."""
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for parameter, default in pairs:
        if isinstance(default, ast.Constant) and isinstance(default.value, bool):
            yield parameter.arg, default.value


def to_json(source: Source) -> dict[str, Any]:
    """Plain values."""
    plain = asdict(source)
    for one, statement in zip(plain["statements"], source.statements, strict=True):
        one["role"], one["origins"] = statement.role.value, [origin.value for origin in statement.origins]
    return plain


def from_json(plain: Mapping[str, Any]) -> Source:
    """The inverse of `to_json`."""
    statements = tuple(
        Statement(
            one["file"], one["line"], one["text"], Role(one["role"]), tuple(Origin(name) for name in one["origins"]),
            tuple(one["guards"]),
        )
        for one in plain["statements"]
    )  # fmt: skip
    poisson = {**plain["poisson"], "samplers": tuple(plain["poisson"]["samplers"])}
    return Source(statements, Poisson(**poisson), plain["files"], tuple(plain["unreadable"]))
