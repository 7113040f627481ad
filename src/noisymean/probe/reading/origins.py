"""Where a size comes from: an expression followed through assignments, attributes, parameters and returned values.

Every name is followed once; what leads nowhere is unknown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from noisymean.probe.reading.source import Origin
from noisymean.probe.reading.syntax import Scope, Syntax, Value, factors, last_name, names_in

NOT_SIZES = re.compile(r"accumulat|iteration|world|rank|epsilon|eps$|norm$|norms$", re.IGNORECASE)
_RATE = re.compile(r"rate|prob|^q$", re.IGNORECASE)
_COUNT = re.compile(r"size|len|num|count|samples|records|examples|dataset", re.IGNORECASE)
_CASTS = ("cast", "float", "asarray", "array", "tensor", "maximum", "max", "float32", "convert_to_tensor", "abs")
# How many names are followed, one into the next.
DEPTH = 60
# a variable and its scope, or an attribute
_Key: TypeAlias = tuple[str, int | None]


@final
@dataclass(frozen=True, eq=False)
class Origins:
    """Follows names through one package."""

    syntax: Syntax

    def of(self, value: Value, depth: int, seen: set[_Key]) -> set[Origin]:
        """Where an expression's value comes from."""
        node = value.expression
        if depth == 0:
            return {Origin.UNKNOWN}
        if _is_product_of_rate_and_count(node):
            return {Origin.EXPECTED}
        match node:
            case ast.Call(func=function, args=[first, *_]) if last_name(function) in ("int", "floor", "round"):
                inner = self.of(Value(first, value.scope), depth - 1, seen)
                return {Origin.FLOOR if one is Origin.EXPECTED else one for one in inner}
            case ast.BinOp(op=ast.FloorDiv(), left=left):
                inner = self.of(Value(left, value.scope), depth - 1, seen)
                return {Origin.FLOOR if one is Origin.EXPECTED else one for one in inner}
            case ast.Subscript(value=inner, slice=ast.Constant(value=0)) if "shape" in names_in(inner):
                return {Origin.BATCH}
            case ast.Call(func=ast.Name(id="len")):
                return {Origin.BATCH}
            case ast.Call(func=function, args=arguments) if last_name(function) in _CASTS:
                found = [self.of(Value(one, value.scope), depth - 1, seen) for one in arguments if _is_value(one)]
                return set().union(*found) or {Origin.UNKNOWN}
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(elt=element), *_]):
                return self.of(Value(element, value.scope), depth - 1, seen)
            case ast.Call(func=function):
                return self._returned(last_name(function), value.index, depth, seen)
            case ast.BinOp(op=ast.Mult()):
                parts = [one for one in factors(node) if not NOT_SIZES.search(last_name(one))]
                found = [self.of(Value(one, value.scope), depth - 1, seen) for one in parts]
                return set().union(*found) or {Origin.UNKNOWN}
            case ast.IfExp(body=body, orelse=other):
                both = (self.of(Value(one, value.scope), depth - 1, seen) for one in (body, other))
                return set().union(*both)
            case ast.Name(id=name):
                return self._named(name, value.scope, depth, seen)
            case ast.Attribute(attr=name):
                return self._attribute(name, depth, seen)
            case ast.Constant():
                return set()
            case _:
                return {Origin.UNKNOWN}

    def _named(self, name: str, scope: Scope, depth: int, seen: set[_Key]) -> set[Origin]:
        """A variable: what is assigned to it where it is visible, or what is passed for it as a parameter."""
        at: Scope | None = scope
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
        found = self._of_all(self.syntax.attributes.get(name, []), depth, seen)
        if name in self.syntax.fields:
            found |= self._by_keyword(name, depth, seen) or ({Origin.CALLER} if not found else set())
        return found if name in self.syntax.fields or name in self.syntax.attributes else {Origin.UNKNOWN}

    def _of_all(self, values: Sequence[Value], depth: int, seen: set[_Key]) -> set[Origin]:
        found: set[Origin] = set()
        for one in values:
            found |= self.of(one, depth - 1, seen)
        return found

    def _passed(self, name: str, scope: Scope, depth: int, seen: set[_Key]) -> set[Origin]:
        """What the package passes for a parameter; if it never does, the number is the caller's."""
        function = scope.function
        called = function.name if isinstance(function, ast.FunctionDef) else ""
        position = scope.parameters().index(name) - (scope.parameters()[0] in ("self", "cls"))
        values = [
            Value(call.args[position], at)
            for call, at in self.syntax.calls.get(scope.owner if called == "__init__" else called, [])
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
        return self._of_all(self.syntax.keywords.get(name, []), depth, seen)

    def _returned(self, name: str, index: int | None, depth: int, seen: set[_Key]) -> set[Origin]:
        """What functions of that name return, or one element of it."""
        key = (f"{name}()", index)
        if key in seen:
            return set()
        seen.add(key)
        found: set[Origin] = set()
        for one in self.syntax.returned.get(name, ()):
            expression = one.expression
            if index is not None:
                if not isinstance(expression, ast.Tuple) or index >= len(expression.elts):
                    continue
                expression = expression.elts[index]
            found |= self.of(Value(expression, one.scope), depth - 1, seen)
        return found if name in self.syntax.returned else {Origin.UNKNOWN}


def _is_value(node: ast.expr) -> bool:
    """Neither a constant nor a type."""
    return not isinstance(node, ast.Constant) and not re.search(r"float|int|dtype", last_name(node))


def _is_product_of_rate_and_count(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            sides = [names_in(left), names_in(right)]
            return any(
                any(_RATE.search(name) for name in one) and any(_COUNT.search(name) for name in other)
                for one, other in (sides, sides[::-1])
            )
        case _:
            return False
