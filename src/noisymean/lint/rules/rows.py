"""What a number of rows counts: those of a batch, or all that there are, since they are the same ones in every round."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from noisymean.lint.rules.rounds import is_bound_in, rounds_around
from noisymean.lint.script import Script
from noisymean.probe.reading.names import WHOLE
from noisymean.probe.reading.nodes import Scope, last_name
from noisymean.probe.reading.source import Origin

_FOLLOWED = 6
_CASTS = ("float", "max", "maximum", "tensor", "as_tensor", "float32")


def counted(by: str, node: ast.AST, script: Script) -> Origin:
    """What a denominator that was taken for the size of a batch counts; what cannot be told is one."""
    for size, scope in _written(by, node, script):
        found = _origin(size, scope, node, script, _FOLLOWED)
        if found is not Origin.BATCH:
            return found
    return Origin.BATCH


def _written(by: str, node: ast.AST, script: Script) -> Iterator[tuple[ast.expr, Scope]]:
    """The denominators that are written like this in a statement, or where it takes one from."""
    within = [*script.scope_of(node).outwards()]
    for one in script.syntax.divisions:
        script.work.spend()
        if one.by is not None and one.scope in within and " ".join(ast.unparse(one.by).split()) == by:
            yield one.by, one.scope


def _origin(size: ast.expr, scope: Scope, node: ast.AST, script: Script, depth: int) -> Origin:
    script.work.spend()
    if depth == 0:
        return Origin.BATCH
    match size:
        case ast.Call(func=function, args=[inside, *_]) if last_name(function) in _CASTS:
            return _origin(inside, scope, node, script, depth - 1)
        case ast.BinOp(op=ast.FloorDiv(), left=inside):
            whole = _origin(inside, scope, node, script, depth - 1)
            return Origin.FLOOR if whole is Origin.DATASET else whole
        case ast.Call(func=function, args=[inside]) if WHOLE.fullmatch(last_name(function)):
            if isinstance(inside, ast.BinOp) and isinstance(inside.op, ast.Mult | ast.Div):
                # a share of the rows of a batch is none of the sizes that people divide by
                return Origin.FLOOR
            return _origin(inside, scope, node, script, depth - 1)
        case ast.Call(func=ast.Name(id="len"), args=[array]) | ast.Call(func=ast.Attribute(attr="size", value=array)):
            return Origin.DATASET if _is_fixed(array, scope, node, script, depth) else Origin.BATCH
        case ast.Subscript(value=ast.Attribute(attr="shape", value=array), slice=ast.Constant(value=0)):
            return Origin.DATASET if _is_fixed(array, scope, node, script, depth) else Origin.BATCH
        case ast.Name(id=name):
            return _of_name(name, scope, node, script, depth)
        case ast.Attribute(value=ast.Name() as owner):
            return _of_object(size, owner, scope, node, script)
        case _:
            return Origin.BATCH


def _of_name(name: str, scope: Scope, node: ast.AST, script: Script, depth: int) -> Origin:
    at = scope.visible(name, looped=False)
    values = [] if at is None else at.assigned.get(name, [])
    if at is not None and not values and name in at.parameters():
        values = script.syntax.passed(name, at)
        found = {
            _origin(one.expression, one.scope, one.expression, script, depth - 1) for one in values if one.index is None
        }
        return found.pop() if len(found) == 1 and len(values) < 5 else Origin.BATCH
    if len(values) != 1:
        return Origin.BATCH
    [value] = values
    match value.expression:
        case ast.Attribute(attr="shape", value=array) if value.index == 0:
            # n, d = x.shape
            return Origin.DATASET if _is_fixed(array, value.scope, node, script, depth) else Origin.BATCH
        case expression if value.index is None:
            return _origin(expression, value.scope, node, script, depth - 1)
        case _:
            return Origin.BATCH


def _of_object(size: ast.Attribute, owner: ast.Name, scope: Scope, node: ast.AST, script: Script) -> Origin:
    """A number that an object got when it was made, before the rounds: what is counted then is not a batch."""
    values = script.syntax.attributes(size, scope)
    at = scope.visible(owner.id, looped=False)
    loops = rounds_around(node, script)
    if at is None or not loops or len(values) != 1 or values[0].scope.name != "__init__":
        return Origin.BATCH
    if is_bound_in(owner.id, at, loops[-1]) or owner.id in at.parameters():
        return Origin.BATCH
    match values[0].expression:
        case ast.BinOp(op=ast.FloorDiv(), left=left) if _counts(left):
            return Origin.FLOOR
        case ast.Call(func=function, args=[inside]) if WHOLE.fullmatch(last_name(function)) and any(
            _counts(one) for one in script.work.walk(inside)
        ):
            return Origin.FLOOR
        case expression if _counts(expression):
            return Origin.DATASET
        case _:
            return Origin.BATCH


def _counts(node: ast.AST) -> bool:
    """`len(x)` or `x.shape[0]`."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[_]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0)):
            return True
        case _:
            return False


def _is_fixed(array: ast.expr, scope: Scope, node: ast.AST, script: Script, depth: int) -> bool:
    """Whether an array is the same in every round around a node, or around the calls of its function."""
    script.work.spend()
    if depth == 0:
        return False
    if isinstance(array, ast.Attribute) and last_name(array.value) == "self":
        values = script.syntax.attributes(array, scope)
        return bool(values) and all(one.scope.name == "__init__" for one in values)
    if not isinstance(array, ast.Name) or (at := scope.visible(array.id)) is None:
        return False
    own = script.scope_of(node)
    loops = rounds_around(node, script) if at.function is None or own.function is at.function else []
    if loops:
        return not is_bound_in(array.id, at, loops[-1])
    function = at.function
    if array.id not in at.parameters() or isinstance(function, ast.Lambda) or function is None:
        return False
    calls = script.syntax.calls.get(function.name, [])
    given = [(script.call_at[call].argument(at.position(array.id), array.id), call, there) for call, there in calls[:5]]
    return bool(given) and all(
        one is not None and there is not at and _is_fixed(one, there, call, script, depth - 1)
        for one, call, there in given
    )
