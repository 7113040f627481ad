"""Pieces of source code: scopes, values, divisions and products, and the names in an expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeAlias, final

_MODULES = ("torch", "np", "numpy", "jnp", "jax", "tf", "onp", "math", "statistics", "K")
# Deeper than any code of people; what follows values through code needs some frames for each level.
DEEPEST = 150
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
    # names that something is added to: `count += 1`
    counted: set[str] = field(default_factory=set)
    # by what a name is indexed here: `rows[chosen]`
    picked: dict[str, list[ast.expr]] = field(default_factory=dict)

    @cached_property
    def _positions(self) -> dict[str, int]:
        if self.function is None:
            return {}
        arguments = self.function.args
        return {one.arg: at for at, one in enumerate((*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))}

    def parameters(self) -> dict[str, int]:
        """Their names in order, each with its position."""
        return self._positions

    @property
    def name(self) -> str:
        """Of the function; none for a lambda or a module."""
        return "" if self.function is None or isinstance(self.function, ast.Lambda) else self.function.name

    @property
    def called(self) -> str:
        """The name under which its calls are collected: a class is called to run its `__init__`."""
        return self.owner if self.name == "__init__" else self.name

    def position(self, parameter: str) -> int:
        """Where a call has the argument for a parameter: `self` is not passed by the caller."""
        parameters = self.parameters()
        return parameters[parameter] - (next(iter(parameters)) in ("self", "cls"))

    def outwards(self) -> Iterator[Scope]:
        """This scope, the one around it, and so on to the module."""
        at: Scope | None = self
        while at is not None:
            yield at
            at = at.parent

    def visible(self, name: str, *, looped: bool = True) -> Scope | None:
        """The innermost scope, from this one outwards, that gives the name a value."""
        for at in self.outwards():
            if name in at.assigned or name in at.parameters() or (looped and name in at.looped):
                return at
        return None

    def within(self, other: Scope) -> Scope | None:
        """The function right inside `other` that this is, or is in."""
        return next((at for at in self.outwards() if at.parent is other), None)


@final
@dataclass(frozen=True)
class Value:
    """An expression in its scope; the index where a tuple was unpacked; the line from which on it holds."""

    expression: ast.expr
    scope: Scope
    index: int | None = None
    line: int = 0


# A name and what it is a name of: a scope by its id, or a kind of place that has none.
Key: TypeAlias = tuple[str, int | None]


@final
@dataclass(frozen=True)
class Trail:
    """How a value has been followed so far: how many steps are left, which names were met, and the line to stop at if any."""

    depth: int
    seen: set[Key] = field(default_factory=set)
    before: int | None = None
    # names that are being followed right now, and how often one led back to itself
    open: set[Key] = field(default_factory=set)
    circles: list[Key] = field(default_factory=list)

    def first(self, name: str, of: int | None) -> bool:
        """Whether a name is met for the first time; from now on it is not."""
        new = (name, of) not in self.seen
        self.seen.add((name, of))
        return new

    def again(self, name: str, of: int | None) -> None:
        """A name is met that was met before: it leads back to itself if it is being followed."""
        if (name, of) in self.open:
            self.circles.append((name, of))

    @contextmanager
    def following(self, name: str, of: int | None) -> Iterator[None]:
        """While a name is followed."""
        self.open.add((name, of))
        try:
            yield
        finally:
            self.open.discard((name, of))

    def on(self, *, anywhere: bool = False) -> Trail:
        """One step on; with `anywhere` into another function, where lines mean nothing."""
        return Trail(self.depth - 1, self.seen, None if anywhere else self.before, self.open, self.circles)

    def reached(self, values: list[Value]) -> list[Value]:
        """Those that are assigned before the line to stop at."""
        return [one for one in values if self.before is None or one.line < self.before]


@dataclass(frozen=True, eq=False, kw_only=True)
class Place:
    """Where a node stands: in which function, under which conditions, in which statement, and whether each round comes by."""

    scope: Scope
    guards: tuple[str, ...]
    statement: ast.AST
    in_rounds: bool
    in_loop: bool = False


@final
@dataclass(frozen=True, eq=False)
class Division(Place):
    """Something divided by something; by None, its own number of rows: a mean."""

    divided: ast.expr
    by: ast.expr | None
    node: ast.AST


@final
@dataclass(frozen=True, eq=False)
class Product(Place):
    """Something times something."""

    left: ast.expr
    right: ast.expr


def is_deeper(tree: ast.AST, most: int = DEEPEST) -> bool:
    """Whether nodes are nested deeper than that; level by level, so that it does not go down with what it measures."""
    level: list[ast.AST] = [tree]
    for _ in range(most):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def is_module(node: ast.expr) -> bool:
    """numpy, jax.numpy and the like by their usual names."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES


@lru_cache(maxsize=4096)
def names_in(node: ast.AST) -> Sequence[str]:
    """Identifiers in an expression."""
    return tuple(last_name(one) for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute))


def last_name(node: ast.expr) -> str:
    """The last identifier of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def parts(node: ast.expr) -> list[ast.expr]:
    """The expressions whose values this one combines, keeps or chooses from; none for names, attributes and calls."""
    match node:
        case ast.BinOp(left=left, right=right) | ast.IfExp(body=left, orelse=right):
            return [left, right]
        case ast.UnaryOp(operand=one) | ast.Lambda(body=one):
            return [one]
        case ast.Subscript(value=one) | ast.Starred(value=one) | ast.NamedExpr(value=one) | ast.Await(value=one):
            return [one]
        case ast.ListComp(elt=one) | ast.GeneratorExp(elt=one) | ast.SetComp(elt=one) | ast.DictComp(value=one):
            return [one]
        case ast.BoolOp(values=several) | ast.Dict(values=several):
            return several
        case ast.List(elts=several) | ast.Tuple(elts=several) | ast.Set(elts=several):
            return several
        case _:
            return []


def factors(node: ast.expr) -> list[ast.expr]:
    """Of a product."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return [*factors(left), *factors(right)]
        case _:
            return [node]
