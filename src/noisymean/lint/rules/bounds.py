"""The scale of what is drawn: whether a noise multiplier and a bound are factors of it, as for the noise of a clipped sum."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.script import Script
from noisymean.probe.reading.nodes import Scope, Value, last_name

_DEVIATION = re.compile(r"sigma|noise_?mult|noise_?scale|noise_?std|noise_?level|multiplier|^z$|^std", re.IGNORECASE)
_BOUND = re.compile(
    r"^c$|clip|max_grad|max_norm|norm_bound|(^|_)bound$|sensitivity|(^|_)limit$|threshold$", re.IGNORECASE
)
# Bounds of something else: noise on the actions of a policy, rewards, values, ratios.
_OF_OTHERS = re.compile(r"action|reward|ratio|policy|noise_clip|clip_noise|range|pixel|value_clip", re.IGNORECASE)
_FACTORS = re.compile(
    r"mul_?|multiply_?|div_?|divide_?|true_divide|to|float|double|type_as|tensor|as_tensor|asarray|array|item|sample|rsample"
)
_UNIT = re.compile(r"randn(_like)?|standard_normal|normal_like|random_normal_like|tree_random_normal\w*")
_NO_SCALES = ("size", "shape", "generator", "key", "rng", "device", "dtype", "seed", "out", "loc", "mean")
_MOST = 60


def is_of_a_bound(noise: ast.expr, scope: Scope, script: Script) -> bool:
    """Whether what is drawn scatters by sigma times C, as far as that is written down or handed over in this file."""
    words = list(_words(noise, scope, script, set()))
    bounds = [one for one in words if _BOUND.search(one) and not _DEVIATION.search(one)]
    return bool(bounds) and any(map(_DEVIATION.search, words)) and not any(map(_OF_OTHERS.search, words))


def _words(node: ast.expr, scope: Scope, script: Script, seen: set[ast.expr]) -> Iterator[str]:
    """The names of the factors of a product, and of what a draw is told of its scale."""
    script.work.spend()
    if node in seen or len(seen) > _MOST:
        return
    seen.add(node)
    values: list[Value] = []
    match node:
        case ast.Name(id=name):
            yield name
            at = scope.visible(name)
            if at is not None:
                values = [
                    *at.assigned.get(name, []),
                    *(script.syntax.passed(name, at) if name in at.parameters() else []),
                ]
        case ast.Attribute(attr=name):
            yield name
            values = script.syntax.attributes(node, scope)
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            # group["clip"]
            yield name
        case ast.Subscript(value=inside) | ast.UnaryOp(operand=inside):
            values = [Value(inside, scope)]
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
            values = [Value(left, scope), Value(right, scope)]
        case ast.IfExp(body=left, orelse=right):
            values = [Value(left, scope), Value(right, scope)]
        case ast.ListComp(elt=inside) | ast.GeneratorExp(elt=inside) | ast.DictComp(value=inside):
            values = [Value(inside, scope)]
        case ast.Call():
            values = _of_call(node, scope, script)
        case _:
            pass
    for one in values[:6]:
        yield from _words(one.expression, one.scope, script, seen)


def _of_call(node: ast.Call, scope: Scope, script: Script) -> list[Value]:
    name = last_name(node.func)
    if name in script.syntax.defined:
        return script.syntax.returned.get(name, [])[:3]
    # randn(b, c, h, w) is told how many numbers to draw, and no scale
    scales = [] if _UNIT.fullmatch(name) else [one for one in node.args if not _is_shape(one)]
    scales += [one.value for one in node.keywords if one.arg is not None and one.arg not in _NO_SCALES]
    owner = (
        node.func.value
        if isinstance(node.func, ast.Attribute) and not script.syntax.is_module(node.func.value)
        else None
    )
    if owner is not None and _FACTORS.fullmatch(name):
        scales.append(owner)
    return [Value(one, scope) for one in scales]


def _is_shape(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "shape") or (
        isinstance(node, ast.Call) and last_name(node.func) in ("size", "shape", "len", "zeros_like", "zeros")
    )
