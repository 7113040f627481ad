"""Pieces of source code: scopes, values, divisions and products, and the names in an expression."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias, final

_MODULES = ("torch", "np", "numpy", "jnp", "jax", "tf", "onp", "math", "statistics", "K")
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@final
@dataclass(eq=False)
class Scope:
    """A function (or a module) and what is assigned in it."""

    function: Function | None
    parent: Scope | None
    module: str
    owner: str
    assigned: dict[str, list[Value]] = field(default_factory=dict)
    # names that stand for one element of what is looped over
    looped: dict[str, list[Value]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    # names that belong to a function or module around this one
    shared: set[str] = field(default_factory=set)

    def parameters(self) -> list[str]:
        if self.function is None:
            return []
        arguments = self.function.args
        return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

    @property
    def name(self) -> str:
        """Of the function; none for a lambda or a module."""
        return "" if self.function is None or isinstance(self.function, ast.Lambda) else self.function.name

    def within(self, other: Scope) -> Scope | None:
        """The function right inside `other` that this is, or is in."""
        at: Scope | None = self
        while at is not None and at.parent is not other:
            at = at.parent
        return at


@final
@dataclass(frozen=True)
class Value:
    """An expression in its scope; the index where a tuple was unpacked; the line from which on it holds."""

    expression: ast.expr
    scope: Scope
    index: int | None = None
    line: int = 0


@final
@dataclass(frozen=True, eq=False)
class Division:
    """Something divided by something; by None, its own number of rows: a mean."""

    divided: ast.expr
    by: ast.expr | None
    scope: Scope
    guards: tuple[str, ...]
    statement: ast.AST
    node: ast.AST
    in_rounds: bool


@final
@dataclass(frozen=True, eq=False)
class Product:
    """Something times something."""

    left: ast.expr
    right: ast.expr
    scope: Scope
    guards: tuple[str, ...]
    statement: ast.AST
    in_rounds: bool


def is_module(node: ast.expr) -> bool:
    """numpy, jax.numpy and the like by their usual names."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES


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
