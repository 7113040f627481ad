"""Where a size comes from: an expression followed through assignments, attributes, parameters and returned values.

Every name is followed once; what leads nowhere is unknown. Arithmetic keeps what the data may change: the length of a batch plus
one is still |B|; N times or over anything is N q, and a whole number made of that is floor(N q).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from noisymean.probe.reading import names
from noisymean.probe.reading.nodes import Scope, Value, factors, is_module, last_name, names_in
from noisymean.probe.reading.source import CONSTANTS, OF_THE_DATA, Origin
from noisymean.probe.reading.syntax import NOT_SIZES, Syntax

# How many names are followed, one into the next.
DEPTH = 60
_MOST_NAMES = 500
# a variable and its scope, or an attribute
_Key: TypeAlias = tuple[str, int | None]


@final
@dataclass(frozen=True, eq=False)
class Origins:
    """Follows names through one package, from one statement."""

    syntax: Syntax
    start: Scope
    in_rounds: bool = False

    def of(self, value: Value, depth: int, seen: set[_Key]) -> set[Origin]:
        """Where an expression's value comes from."""
        node, scope = value.expression, value.scope
        if depth == 0 or len(seen) > _MOST_NAMES:
            return {Origin.UNKNOWN}

        def inner(*nodes: ast.expr) -> set[Origin]:
            found: set[Origin] = set()
            for one in nodes:
                found |= self.of(Value(one, scope), depth - 1, seen)
            return found

        if _is_product_of_rate_and_count(node) and isinstance(node, ast.BinOp):
            # an N that is written down is a number, but whether it is to follow the data cannot be read
            sides = [self.of(Value(one, scope), depth - 1, set()) for one in (node.left, node.right)]
            return {Origin.UNKNOWN} if all(side == {Origin.NUMBER} for side in sides) else {Origin.EXPECTED}
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return {Origin.NUMBER}
            case ast.UnaryOp(operand=operand):
                return inner(operand)
            case ast.Call():
                return self._call(node, value, depth, seen)
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=right):
                return _whole(_quotient(left, inner(left), inner(right)))
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                return _quotient(left, inner(left), inner(right))
            case ast.BinOp(op=ast.Mult()):
                parts = [one for one in factors(node) if not self._is_no_size(one, scope)]
                return _together(inner(*parts)) if parts else {Origin.CALLER}
            case ast.BinOp(left=left, right=right):
                return _together(inner(left, right), product=False)
            case ast.BoolOp(values=values):
                return inner(*values)
            case ast.IfExp(body=body, orelse=other):
                return inner(body, other)
            case ast.Subscript(value=owner, slice=ast.Constant(value=0)) if "shape" in names_in(owner):
                return {Origin.UNKNOWN} if _is_part(owner) else {Origin.BATCH}
            case ast.Subscript(value=owner):
                # one of several, or the same with another axis
                found = inner(owner)
                spread = not isinstance(node.slice, ast.Constant | ast.Name) or found <= {Origin.NORM}
                return found if spread and "shape" not in names_in(owner) else {Origin.UNKNOWN}
            case ast.Attribute(attr="shape") if value.index == 0:
                return {Origin.UNKNOWN} if _is_part(node) else {Origin.BATCH}
            case ast.Name(id=name):
                return self._named(name, scope, depth, seen)
            case ast.Attribute():
                return self._attribute(node, depth, seen)
            case _:
                return {Origin.UNKNOWN}

    def _call(self, node: ast.Call, value: Value, depth: int, seen: set[_Key]) -> set[Origin]:
        """What a call gives: a length, a count, a norm, its argument in another shape, or what a function here returns."""
        name, scope = last_name(node.func), value.scope
        if names.MACHINES.fullmatch(name):
            return {Origin.CALLER}
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        arguments = [
            *node.args,
            *(one.value for one in node.keywords if one.arg in ("min", "max", "a_min", "a_max", "fill_value")),
        ]

        def inner(*nodes: ast.expr) -> set[Origin]:
            found: set[Origin] = set()
            for one in nodes:
                found |= self.of(Value(one, scope), depth - 1, seen)
            return found

        if name in self.syntax.defined and name in self.syntax.returned:
            return self._returned(name, value.index, depth, seen)
        if name == "len" and node.args:
            return _length(node.args[0])
        if name == "size" and owner is not None and _is_zero(node.args):
            return {Origin.BATCH}
        if names.NORM_CALLS.fullmatch(name):
            return {Origin.NORM}
        if names.COUNTS.fullmatch(name):
            return self._sum(node, owner, value, depth, seen)
        if name in ("ones_like", "ones", "pi"):
            return {Origin.NUMBER}
        if name == "next" and node.args and isinstance(node.args[0], ast.GeneratorExp):
            return inner(node.args[0].elt)
        if names.WHOLE.fullmatch(name):
            found = inner(*node.args[:1]) if node.args else inner(owner) if owner is not None else set()
            return _whole(found or {Origin.UNKNOWN})
        if names.CASTS.fullmatch(name):
            values = [one for one in arguments if _is_value(one)]
            if owner is not None and not self._is_module(owner):
                values.append(owner)
            return _together(inner(*values), product=False) or {Origin.UNKNOWN}
        return {Origin.UNKNOWN}

    def _sum(self, node: ast.Call, owner: ast.expr | None, value: Value, depth: int, seen: set[_Key]) -> set[Origin]:
        """The sum of a mask is a batch; that of squares is on its way to a norm; of anything else it is not known what."""
        summed = owner if owner is not None and not self._is_module(owner) else node.args[0] if node.args else None
        if summed is None:
            return {Origin.UNKNOWN}
        called = names_in(summed)
        powers = any(isinstance(one, ast.Pow) for one in ast.walk(summed)) or {"square", "norm", "pow"} & set(called)
        if powers and not any(names.MASK.search(name) for name in called):
            return {Origin.NORM}
        if self._is_mask(Value(summed, value.scope), depth, set()):
            return {Origin.BATCH}
        return {Origin.UNKNOWN}

    def _is_mask(self, value: Value, depth: int, seen: set[_Key]) -> bool:
        """Zeros and ones, one to a record."""
        node = value.expression
        match node:
            case ast.Compare():
                return True
            case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
                return isinstance(element, ast.Constant | ast.Compare) or "len" in names_in(element)
            case ast.Call(func=function) if last_name(function) in ("bernoulli", "binomial", "rand_bool"):
                return True
            case ast.Name(id=name):
                if (name, id(value.scope)) in seen or depth == 0:
                    return False
                seen.add((name, id(value.scope)))
                assigned = value.scope.assigned.get(name, [])
                return bool(names.MASK.search(name)) or any(self._is_mask(one, depth - 1, seen) for one in assigned)
            case ast.Attribute(attr=name):
                return bool(names.MASK.search(name))
            case _:
                return False

    def _is_module(self, node: ast.expr) -> bool:
        return is_module(node) or (isinstance(node, ast.Name) and node.id in self.syntax.imported)

    def _is_no_size(self, node: ast.expr, scope: Scope) -> bool:
        """A factor that its name tells to be none, unless its value is in view."""
        name = last_name(node)
        return bool(NOT_SIZES.search(name)) and not names.NORM.search(name) and name not in scope.assigned

    def _named(self, name: str, scope: Scope, depth: int, seen: set[_Key]) -> set[Origin]:
        """A variable: what is assigned to it where it is visible, or what is passed for it as a parameter."""
        if names.MACHINES.fullmatch(name):
            return {Origin.CALLER}
        at: Scope | None = scope
        while at is not None:
            if name in at.assigned or name in at.looped or name in at.parameters():
                break
            at = at.parent
        if at is None:
            return {Origin.NORM} if names.NORM.search(name) and not names.BOUND.search(name) else {Origin.UNKNOWN}
        key = (name, id(at))
        if key in seen:
            return set()
        seen.add(key)
        found = self._of_all(at.assigned.get(name, []), depth, seen)
        if at.function is None:
            # a name of a module may be set from outside it, or come from another one
            found |= self._of_all(self.syntax.attributes(ast.Attribute(ast.Name("module"), name)), depth, seen)
            found |= {Origin.UNKNOWN} if name in self.syntax.imported else set()
        if name in at.looped:
            found |= {Origin.NORM if names.NORM.search(name) else Origin.UNKNOWN}
        if name in at.parameters():
            found |= self._passed(name, at, depth, seen)
        return found

    def _attribute(self, node: ast.Attribute, depth: int, seen: set[_Key]) -> set[Origin]:
        """An attribute: what is assigned to one of that name anywhere, else what is passed under that keyword."""
        name, assigned = node.attr, self.syntax.attributes(node)
        key = (name, None)
        if names.MACHINES.fullmatch(name):
            return {Origin.CALLER}
        if key in seen:
            return set()
        seen.add(key)
        found = self._of_all(assigned, depth, seen)
        if name in self.syntax.fields:
            found |= self._field(name, depth, seen)
        if name in self.syntax.properties:
            found |= self._returned(name, None, depth, seen)
        if assigned or name in self.syntax.fields or name in self.syntax.properties:
            return found
        if names.SETTINGS.search(last_name(node.value)):
            # a setting that is computed somewhere is not only the user's
            computed = self._by_keyword(name, None, depth, seen) - CONSTANTS
            unclear = computed or names.EITHER.fullmatch(name) or names.DATASET.search(name)
            return {Origin.UNKNOWN} if unclear else {Origin.CALLER}
        if name == "shape":
            return {Origin.UNKNOWN}
        return {Origin.NORM} if names.NORM.search(name) and not names.BOUND.search(name) else {Origin.UNKNOWN}

    def _field(self, name: str, depth: int, seen: set[_Key]) -> set[Origin]:
        """A field of a data class: what it is made with; if nobody here makes one, the caller does, once if it holds settings."""
        values: list[Value] = []
        hidden = False
        for owner, position in self.syntax.fields[name]:
            hidden = hidden or owner in self.syntax.handed_on
            for call, at in self.syntax.calls.get(owner, []):
                if any(isinstance(one, ast.Starred) for one in call.args) or any(
                    one.arg is None for one in call.keywords
                ):
                    hidden = True
                elif position < len(call.args):
                    values.append(Value(call.args[position], at))
        found = self._of_all(values, depth, seen) | self._by_keyword(name, None, depth, seen)
        if found and not hidden:
            return found
        holders = [owner for owner, _ in self.syntax.fields[name]]
        fixed = all(
            re.search(r"config|setting|option|param|arg|optimi[sz]er|engine", owner, re.IGNORECASE) for owner in holders
        )
        return found | {Origin.CALLER if fixed and not names.EITHER.fullmatch(name) and not hidden else Origin.PASSED}

    def _of_all(self, values: Sequence[Value], depth: int, seen: set[_Key]) -> set[Origin]:
        found: set[Origin] = set()
        for one in values:
            found |= self.of(one, depth - 1, seen)
        return found

    def _passed(self, name: str, scope: Scope, depth: int, seen: set[_Key]) -> set[Origin]:
        """What the package passes for a parameter; if it never does, the number is the caller's."""
        called = scope.owner if scope.name == "__init__" else scope.name
        position = scope.parameters().index(name) - (scope.parameters()[0] in ("self", "cls"))
        values, hidden = [], called in self.syntax.handed_on or isinstance(scope.function, ast.Lambda)
        for call, at in self.syntax.calls.get(called, []):
            if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
                hidden = True
            elif 0 <= position < len(call.args):
                values.append(Value(call.args[position], at))
        again = (name, -1) in seen
        found = self._of_all(values, depth, seen) | self._by_keyword(name, called, depth, seen)
        if hidden and not again and not found & OF_THE_DATA:
            return found | self._from_outside(name, scope, hidden=True)
        # what was followed from elsewhere already is not the caller's for that
        return found or (set() if again else self._from_outside(name, scope, hidden=False))

    def _from_outside(self, name: str, scope: Scope, *, hidden: bool) -> set[Origin]:
        """A parameter that nobody here computes: fixed once by the caller, or another number at every call for all we know."""
        if names.DATASET.search(name):
            return {Origin.DATASET}
        if names.NORM.search(name) and not names.BOUND.search(name):
            return {Origin.NORM}
        if names.EITHER.fullmatch(name):
            return {Origin.PASSED}
        made = self.start.within(scope)
        once = (
            names.ONCE.fullmatch(scope.name)
            or (made is not None and self.syntax.makes(scope, made))
            or (self.start is scope and self.in_rounds)
        )
        # a function that is handed on may be called with anything, more than once
        return {
            Origin.CALLER
            if (once and not hidden) or names.FIXED.search(name) or names.BOUND.search(name)
            else Origin.PASSED
        }

    def _by_keyword(self, name: str, called: str | None, depth: int, seen: set[_Key]) -> set[Origin]:
        """What is passed under that keyword; every keyword is followed once. What other packages are told does not count."""
        if (name, -1) in seen:
            return set()
        seen.add((name, -1))
        values = [value for call, value in self.syntax.keywords.get(name, []) if self._may_reach(call, called)]
        return self._of_all(values, depth, seen)

    def _may_reach(self, call: ast.Call, called: str | None) -> bool:
        """Whether a call may be one of `called`: by its name, or since its own name is a variable's."""
        name = last_name(call.func)
        root = names_in(call.func)[-1:] or [""]
        if called is None or name in (called, "__init__", "partial"):
            return True
        return name not in self.syntax.imported and root[0] not in self.syntax.imported

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
                    found.add(Origin.UNKNOWN)
                    continue
                expression = expression.elts[index]
            found |= self.of(Value(expression, one.scope), depth - 1, seen)
        return found


def _length(node: ast.expr) -> set[Origin]:
    """Of what is in the parentheses of len: parts of a model are always as many."""
    name = last_name(node)
    if not name and isinstance(node, ast.Call):
        name = last_name(node.func)
    if _is_part(node) or re.fullmatch(r"(named_)?parameters|children|modules", name):
        return {Origin.NUMBER}
    if names.DATA.search(name) and not names.BATCH.search(name):
        return {Origin.DATASET}
    return {Origin.BATCH}


def _is_zero(arguments: Sequence[ast.expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and arguments[0].value == 0


def _is_part(node: ast.expr) -> bool:
    """The parameters, layers or devices, by name."""
    called = [name for name in names_in(node) if name not in ("shape", "self", "list", "tuple")]
    return any(names.PARTS.search(name) for name in called) and not any("grad" in name for name in called)


def _together(found: set[Origin], product: bool = True) -> set[Origin]:
    """Of a sum or a product: what the data may change outlives a number beside it, whoever gives that."""
    if Origin.DATASET in found and product:
        found = found - {Origin.DATASET} | {Origin.EXPECTED}
    if found & OF_THE_DATA or Origin.NORM in found:
        return found - CONSTANTS - {Origin.PASSED}
    return found


def _quotient(left: ast.expr, above: set[Origin], below: set[Origin]) -> set[Origin]:
    """N over anything is an expected size; anything over what the data may change is as well."""
    if Origin.PASSED in above and names.EITHER.fullmatch(last_name(left)):
        above = above - {Origin.PASSED} | {Origin.DATASET}
    return _together(above | below)


def _whole(found: Iterable[Origin]) -> set[Origin]:
    """A whole number made of these."""
    return {Origin.FLOOR if one in (Origin.EXPECTED,) else one for one in found}


def _is_value(node: ast.expr) -> bool:
    """Neither a device, a type nor a shape."""
    return (
        not isinstance(node, ast.Tuple)
        and not re.search(r"float|int|dtype|device|shape", last_name(node))
        and not (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )


def _is_product_of_rate_and_count(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            sides = [names_in(left), names_in(right)]
            return any(
                any(names.RATE.search(name) for name in one) and any(names.COUNT.search(name) for name in other)
                for one, other in (sides, sides[::-1])
            )
        case _:
            return False
