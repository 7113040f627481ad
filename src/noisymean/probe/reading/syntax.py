"""All modules of a package, collected: what is assigned under which name, what functions return, what is divided."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias, final

_QUOTIENTS = ("div", "div_", "true_divide", "truediv", "divide", "div_no_nan")
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@final
@dataclass
class Scope:
    """A function (or a module) and what is assigned in it."""

    function: _Function | None
    parent: Scope | None
    module: str
    owner: str
    assigned: dict[str, list[Value]] = field(default_factory=dict)

    def parameters(self) -> list[str]:
        if self.function is None:
            return []
        arguments = self.function.args
        return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


@final
@dataclass(frozen=True)
class Value:
    """An expression in its scope; the index where a tuple was unpacked."""

    expression: ast.expr
    scope: Scope
    index: int | None = None


@final
@dataclass(frozen=True, eq=False)
class Division:
    """Something divided by something."""

    divided: ast.expr
    by: ast.expr
    scope: Scope
    guards: tuple[str, ...]
    statement: ast.AST


@final
class Syntax:
    """All modules of a package: what is assigned under which name, what functions return, what is divided."""

    def __init__(self) -> None:
        self.modules: dict[str, ast.Module] = {}
        self.attributes: dict[str, list[Value]] = {}
        self.keywords: dict[str, list[Value]] = {}
        self.calls: dict[str, list[tuple[ast.Call, Scope]]] = {}
        self.fields: set[str] = set()
        self.returned: dict[str, list[Value]] = {}
        self.divisions: list[Division] = []

    def add(self, name: str, module: ast.Module) -> None:
        """One parsed file."""
        self.modules[name] = module
        self._walk(module, Scope(None, None, name, ""), (), module)

    def _walk(self, node: ast.AST, scope: Scope, guards: tuple[str, ...], statement: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            here = child if isinstance(child, ast.stmt) else statement
            self._collect(child, scope, guards, here)
            if isinstance(child, ast.ClassDef):
                self.fields |= {
                    part.target.id
                    for part in child.body
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                }
                self._walk(child, Scope(None, scope, scope.module, child.name), (), here)
            elif isinstance(child, _Function):
                inner = Scope(child, scope, scope.module, scope.owner)
                self._walk(child, inner, guards if isinstance(child, ast.Lambda) else (), here)
            elif isinstance(child, ast.If):
                self._walk(child.test, scope, guards, here)
                test = ast.unparse(child.test)
                for part, said in ((child.body, test), (child.orelse, f"not ({test})")):
                    self._walk(ast.Module(body=part, type_ignores=[]), scope, (*guards, said), here)
            else:
                self._walk(child, scope, guards, here)

    def _call(self, call: ast.Call, scope: Scope) -> None:
        self.calls.setdefault(last_name(call.func), []).append((call, scope))
        for keyword in call.keywords:
            if keyword.arg is not None:
                self.keywords.setdefault(keyword.arg, []).append(Value(keyword.value, scope))

    def _collect(self, node: ast.AST, scope: Scope, guards: tuple[str, ...], statement: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self._call(node, scope)
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, Value(value, scope), scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, Value(value, scope), scope)
            case ast.AugAssign(target=target, op=operator, value=value):
                if isinstance(operator, ast.Add):
                    self._assign(target, Value(value, scope), scope)
                elif isinstance(operator, ast.Div):
                    self.divisions.append(Division(target, value, scope, guards, node))
                elif isinstance(operator, ast.Mult) and isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
                    self.divisions.append(Division(target, value.right, scope, guards, node))
            case ast.Return(value=ast.expr() as value) if isinstance(scope.function, ast.FunctionDef):
                self.returned.setdefault(scope.function.name, []).append(Value(value, scope))
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                self.divisions.append(Division(left, right, scope, guards, statement))
            case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[*arguments]) if name in _QUOTIENTS:
                if len(arguments) == 1:
                    self.divisions.append(Division(owner, arguments[0], scope, guards, statement))
                elif len(arguments) == 2:
                    self.divisions.append(Division(arguments[0], arguments[1], scope, guards, statement))
            case _:
                pass

    def _assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                whole = value.expression
                same = isinstance(whole, ast.Tuple) and len(whole.elts) == len(parts)
                for index, part in enumerate(parts):
                    own = whole.elts[index] if same and isinstance(whole, ast.Tuple) else whole
                    self._assign(part, Value(own, scope, None if same else index), scope)
            case ast.Name(id=name):
                scope.assigned.setdefault(name, []).append(value)
            case ast.Attribute(attr=name):
                self.attributes.setdefault(name, []).append(value)
            case _:
                pass


def names_in(node: ast.AST) -> list[str]:
    """Identifiers in an expression."""
    found = []
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.append(one.id)
        elif isinstance(one, ast.Attribute):
            found.append(one.attr)
    return found


def last_name(node: ast.expr) -> str:
    """The last identifier of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def factors(node: ast.expr) -> list[ast.expr]:
    """Of a product."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return [*factors(left), *factors(right)]
        case _:
            return [node]
