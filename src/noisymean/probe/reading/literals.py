"""What is written down at the top of a file and stays as it is: numbers, and lists of them."""

from __future__ import annotations

import ast

from noisymean.probe.reading import names
from noisymean.probe.reading.nodes import Scope, last_name
from noisymean.probe.reading.syntax import Syntax

_ARRAYS = ("array", "asarray", "tensor", "as_tensor", "list", "tuple", "frozenset")
# Methods after which a list has another length; what they put into it counts as a further value of its name.
_SHORTENS = ("pop", "remove", "clear", "discard", "popitem", "popleft")


def is_written_down(name: str, at: Scope, syntax: Syntax) -> bool:
    """Whether a name stands for one list, tuple or array of constants, as long as it is written; records of people are none."""
    if at.function is not None or name in at.looped or name in at.counted or is_set_from_outside(name, at, syntax):
        return False
    if any(one.search(name) for one in (names.DATA, names.BATCH, names.CHOICE, names.MASK, names.PEOPLE)):
        return False
    values = at.assigned.get(name, [])
    if len(values) != 1 or values[0].index is not None or not _is_list(values[0].expression):
        return False
    owners = (call.func for one in _SHORTENS for call, _ in syntax.calls.get(one, []))
    return not any(isinstance(one, ast.Attribute) and last_name(one.value) == name for one in owners)


def is_set_from_outside(name: str, at: Scope, syntax: Syntax) -> bool:
    """Whether a name of a module may get another value as its attribute."""
    return at.function is None and bool(syntax.attributes(ast.Attribute(ast.Name("module"), name)))


def _is_list(node: ast.expr) -> bool:
    match node:
        case ast.List(elts=several) | ast.Tuple(elts=several):
            return bool(several) and all(_is_constant(one) for one in several)
        case ast.Call(func=function, args=[inside, *_]) if last_name(function) in _ARRAYS:
            return _is_list(inside)
        case _:
            return False


def _is_constant(node: ast.expr) -> bool:
    """Of whatever kind, and lists of such."""
    return is_number(node) or isinstance(node, ast.Constant) or _is_list(node)


def is_number(node: ast.expr) -> bool:
    """A number, or made of nothing but numbers."""
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=inside):
            return is_number(inside)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Call(func=ast.Name(id="int" | "float"), args=[inside]):
            return is_number(inside)
        case _:
            return False
