"""Delta, where it is computed: one over a number of records, here or by a function of this file that is told that number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules.noise import noise_of
from noisymean.lint.script import Called, Script
from noisymean.probe.reading.nodes import Scope, last_name, names_in

DELTA = re.compile(r"(^|_)delta$", re.IGNORECASE)
# Accountants whose first argument is delta.
_TOLD_FIRST = re.compile(r"get_epsilon|get_privacy_spent")
_CUTS = re.compile(r"min|max|float|minimum|pow|power|round")


def computed_delta(script: Script) -> Iterator[Finding]:
    """NM005, where delta gets its value."""
    if not noise_of(script).is_private:
        return
    for node in script.nodes:
        for value, said in _deltas(node, script):
            scope = script.scope_of(node)
            if _is_share(value, scope, script) or _is_made_of_a_count(value, scope, script):
                yield script.found("NM005", said)


def _deltas(node: ast.AST, script: Script) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What a delta is set to at a node, and where that is said."""
    match node:
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            if DELTA.search(last_name(target)):
                yield value, node
        case ast.keyword(arg=str() as name, value=value):
            if DELTA.search(name):
                yield value, node
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and DELTA.search(key.value):
                    yield value, value
        case ast.Call(args=[_, *_]) if (call := script.call_at.get(node)) is not None:
            yield from ((one, one) for one in _by_position(call, script))
        case _:
            pass


def _by_position(call: Called, script: Script) -> Iterator[ast.expr]:
    """Arguments of accountants, and of functions of this file, that are delta by where they stand."""
    if not script.syntax.defined[call.name]:
        if _TOLD_FIRST.fullmatch(call.name) and not isinstance(call.arguments[0], ast.Starred):
            yield call.arguments[0]
        return
    for scope in script.syntax.scopes.values():
        if scope.called != call.name:
            continue
        script.work.spend()
        for name in filter(DELTA.search, scope.parameters()):
            position = scope.position(name)
            before = call.arguments[: position + 1]
            if 0 <= position < len(before) and not any(isinstance(one, ast.Starred) for one in before):
                yield before[position]


def _is_made_of_a_count(node: ast.expr, scope: Scope, script: Script) -> bool:
    """Whether a function of this file is told a number of records and gives back something small that is made of it."""
    if not isinstance(node, ast.Call) or script.syntax.defined[last_name(node.func)] != 1:
        return False
    name = last_name(node.func)
    returned = script.syntax.returned.get(name, [])
    for value in returned[:5]:
        if not _is_small(value.expression, value.scope, script):
            continue
        told = [(_at(value.scope, at), one) for at, one in enumerate(node.args)]
        told += [(one.arg or "", one.value) for one in node.keywords]
        if any(
            name in value.scope.parameters()
            and _is_used(value.scope, name, script)
            and _counts_records(given, scope, script)
            for name, given in told
        ):
            return True
    return False


def _at(scope: Scope, position: int) -> str:
    return next((name for name in scope.parameters() if scope.position(name) == position), "")


def _is_used(scope: Scope, name: str, script: Script) -> bool:
    """Whether a function calculates or compares with a parameter."""
    if scope.function is None:
        return False
    return any(
        name in names_in(one)
        for one in script.work.walk(scope.function)
        if isinstance(one, ast.Compare | ast.BinOp | ast.AugAssign)
    )


def _is_small(node: ast.expr, scope: Scope, script: Script, depth: int = 4) -> bool:
    """One over something, or something to a negative power."""
    match node:
        case ast.BinOp(op=ast.Div(), left=above):
            return script.constant(above, scope) is not None
        case ast.BinOp(op=ast.Pow(), right=ast.UnaryOp(op=ast.USub())):
            return True
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return any(_is_small(one, scope, script, depth) for one in (left, right))
        case ast.Call(func=function, args=arguments) if depth and _CUTS.fullmatch(last_name(function)):
            return any(_is_small(one, scope, script, depth - 1) for one in arguments)
        case ast.Name(id=name) if depth and name in scope.assigned:
            values = scope.assigned[name]
            return any(_is_small(one.expression, one.scope, script, depth - 1) for one in values[:5])
        case _:
            return False


def _is_share(node: ast.expr, scope: Scope, script: Script, depth: int = 3) -> bool:
    """A number over one of the data, or one of the data to a negative power, perhaps cut off."""
    match node:
        case ast.BinOp(op=ast.Div(), left=above, right=below):
            counts = script.constant(above, scope) is not None or not script.is_of_the_data(above, scope)
            return counts and _counts_records(below, scope, script)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return any(_is_share(one, scope, script, depth) for one in (left, right))
        case ast.BinOp(op=ast.Pow(), left=base, right=ast.UnaryOp(op=ast.USub())):
            return _counts_records(base, scope, script)
        case ast.Call(func=function, args=arguments) if depth and _CUTS.fullmatch(last_name(function)):
            return any(_is_share(one, scope, script, depth - 1) for one in arguments) or (
                last_name(function) in ("pow", "power")
                and bool(arguments)
                and _counts_records(arguments[0], scope, script)
            )
        case ast.Call(func=ast.Name(id=name)) if depth and name in script.syntax.defined:
            returned = script.syntax.returned.get(name, [])[:3]
            return any(_is_share(one.expression, one.scope, script, depth - 1) for one in returned)
        case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, *_, other]) if depth:
            return any(_is_share(each, scope, script, depth - 1) for each in (one, other))
        case _:
            return False


def _counts_records(node: ast.expr, scope: Scope, script: Script) -> bool:
    """Whether it is a number of records, of the dataset or of what is trained on."""
    return script.is_of_the_data(node, scope)


EACH = (computed_delta,)
