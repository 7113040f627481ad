"""Where the gradient of a whole batch is clipped by its norm: divided by hand, not by a function that is called so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from noisymean.lint.rules.noise import noise_of
from noisymean.lint.script import Script
from noisymean.probe.reading.nodes import Scope, Value, last_name

# How many expressions one norm may lead to.
_MOST = 100
# What an array, or its norm, goes through on the way to its bound.
_KEEPS = re.compile(
    r"norm|vector_norm|global_norm|l2_norm|stack|cat|concatenate|sum|sqrt|square|pow|reduce_sum|flatten|reshape|view|ravel|ravel_pytree"
    r"|leaves|tree_leaves|map|tree_map|tensor|item|detach|clone|max|maximum|clip|clamp|float|vdot|dot|list|tuple|abs|add"
)
_DIFFERENTIATED = re.compile(r"grad|value_and_grad")


@lru_cache(maxsize=1)
def whole_of(script: Script) -> list[ast.AST]:
    """The divisions of a bound and a norm, where that is seen to be the norm of a batch's gradient and of no single record's."""
    noise = noise_of(script)
    bounds = set(noise.by_norm)
    found: list[ast.AST] = []
    for one in script.syntax.divisions:
        if one.node not in bounds or one.by is None or noise.goes_by_record(one.node):
            continue
        sources = [each for side in (one.divided, one.by) for each in _sources(side, one.scope, script, set())]
        if sources and not any(noise.goes_by_record(each) for each in sources):
            found.append(one.node)
    return sorted(found, key=lambda node: getattr(node, "lineno", 0))


def _sources(node: ast.expr, scope: Scope, script: Script, seen: set[ast.AST]) -> Iterator[ast.AST]:
    """The gradients that an expression is made of: `p.grad`, what a tape or jax.grad gives, a formula with matrices."""
    script.work.spend()
    if len(seen) > _MOST or node in seen:
        return
    seen.add(node)
    values: list[Value] = []
    match node:
        case ast.Attribute(attr="grad"):
            yield node
        case ast.Attribute(attr="data" | "T", value=inside) | ast.Subscript(value=inside) | ast.Starred(value=inside):
            values = [Value(inside, scope)]
        case ast.Attribute():
            values = [one for one in script.syntax.attributes(node, scope) if one.expression is not node]
        case ast.BinOp(op=ast.MatMult()):
            yield node
        case ast.BinOp(left=left, right=right):
            values = [Value(left, scope), Value(right, scope)]
        case ast.UnaryOp(operand=inside):
            values = [Value(inside, scope)]
        case ast.GeneratorExp(elt=inside) | ast.ListComp(elt=inside):
            values = [Value(inside, scope)]
        case ast.Call(func=function, args=arguments):
            called = function.func if isinstance(function, ast.Call) else function
            if last_name(called) == "gradient" or (
                _DIFFERENTIATED.fullmatch(last_name(called)) and (called is not function or _is_autograd(called))
            ):
                yield node
            elif _KEEPS.fullmatch(last_name(function)):
                owner = function.value if isinstance(function, ast.Attribute) else None
                kept = [] if owner is None or script.syntax.is_module(owner) else [owner]
                values = [Value(one, scope) for one in (*kept, *arguments)]
        case ast.Name(id=name) if (at := scope.visible(name)) is not None:
            values = [*at.assigned.get(name, []), *at.looped.get(name, [])]
            values += _passed(name, at, script) if name in at.parameters() else []
        case _:
            pass
    for one in values[:6]:
        yield from _sources(one.expression, one.scope, script, seen)


def _passed(name: str, at: Scope, script: Script) -> list[Value]:
    """What is handed over for a parameter; an object is called by the name that it was given."""
    if at.name != "__call__":
        return script.syntax.passed(name, at)
    found: list[Value] = []
    for call in script.calls:
        if isinstance(call.node.func, ast.Name) and not script.syntax.defined[call.name]:
            _, values = script.bound(call.node.func.id, call.scope)
            made = (one.expression.func for one in values if isinstance(one.expression, ast.Call))
            given = call.argument(at.position(name), name)
            if given is not None and any(last_name(one) == at.owner for one in made):
                found.append(Value(given, call.scope))
    return found


def _is_autograd(node: ast.expr) -> bool:
    """`torch.autograd.grad`, which gives gradients at once."""
    return isinstance(node, ast.Attribute) and last_name(node.value) == "autograd"
