"""The scale of the noise beside that of the gradients: one of a sum, the other of a mean."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules.followed import are_alike
from noisymean.lint.rules.noise import DRAWS, noise_of
from noisymean.lint.rules.rounds import names_behind
from noisymean.lint.script import Called, Script
from noisymean.probe.reading.flow import KEEPS
from noisymean.probe.reading.nodes import Scope, Value, last_name, names_in
from noisymean.probe.reading.source import OF_THE_DATA, Origin

_MEAN = re.compile(r"(nan)?mean|average|reduce_mean|pmean")
_QUOTIENT = re.compile(r"div_?|divide|true_divide|div_no_nan")
# Beside what the reader knows to keep what is in its arguments.
_MORE = re.compile(r"Normal|Laplace|MultivariateNormal|cast|maximum|minimum|clamp_?|clip")
_DEVIATION = re.compile(r"sigma|noise_mult|noise_scale|^std|noise_std|multiplier|^z$", re.IGNORECASE)
_BOUND = re.compile(r"^c$|clip|max_grad|norm|bound|sensitivity|^s$", re.IGNORECASE)
_SIZE = re.compile(
    r"batch|^lot(_size)?$|num_(samples|examples)|n_samples|cohort|bsz|^bs$|^[BL]$|divisor|denominator|expected_size"
)
# No step length and no scale of a loss is that large.
_LEAST_SIZE = 8
_SUMS = re.compile(r"sum|reduce_sum|nansum|add_n|psum")
# Sums that are means, if their weights are shares.
_SHARES = re.compile(r"weight|frac|share|prob|ratio|portion|coef", re.IGNORECASE)
_PRIVATIZERS = re.compile(r"\w*privatizer\w*|isotropic_\w*noise\w*|add_noise")


def alike(script: Script) -> Iterator[Finding]:
    """NM025: one side of the sum is a mean and the other has the scale of the sum."""
    noise = noise_of(script)
    if not noise.is_private:
        return
    found: list[ast.AST] = []
    for one in noise.additions:
        gradient, drawn = _divided(one.gradient, one.scope, script), _divided(one.noise, one.scope, script)
        if not _has_scale_of_the_sum(one.noise, one.scope, script):
            continue
        # by whatever the noise is divided, it is not that of the sum
        smaller = any(isinstance(each, ast.Div | ast.FloorDiv) for each in script.work.walk(one.noise))
        if (gradient and not drawn and not smaller) or (
            drawn and not gradient and _is_sum(one.gradient, one.scope, script)
        ):
            found.append(one.node)
    # what was followed statement by statement is known better
    yield from (script.found("NM025", node) for node in found if not are_alike(node, script))
    yield from _before_a_privatizer(script)


def _before_a_privatizer(script: Script) -> Iterator[Finding]:
    """The same where jax-privacy adds the noise, of a scale that it was told."""
    if not script.imports("jax_privacy"):
        return
    for call in script.calls_of("update"):
        made = None if call.owner is None else _privatizer(call.owner, call.scope, script)
        if made is None or not call.arguments:
            continue
        scale = made.argument(0, "stddev", "scale")
        if scale is None or _divided(scale, made.scope, script):
            continue
        if _has_scale_of_the_sum(scale, made.scope, script) and _divided(call.arguments[0], call.scope, script):
            yield script.found("NM025", call.node)


def _privatizer(node: ast.expr, scope: Scope, script: Script, depth: int = 4) -> Called | None:
    """The call that makes it; what `update` is handed goes into it as well, as far as is read."""
    values: list[Value] = []
    match node:
        case ast.Call() if (made := script.call_at.get(node)) is not None and _PRIVATIZERS.fullmatch(made.name):
            return made
        case ast.Call(func=function):
            values = script.syntax.returned.get(last_name(function), [])
        case ast.Name(id=name):
            at, values = script.bound(name, scope)
            values = [*values, *(script.syntax.passed(name, at) if at is not None and name in at.parameters() else [])]
        case ast.Attribute():
            values = script.syntax.attributes(node, scope)
        case _:
            pass
    found = (_privatizer(one.expression, one.scope, script, depth - 1) for one in values[:5] if depth)
    return next((one for one in found if one is not None), None)


def _divided(node: ast.expr, scope: Scope, script: Script, depth: int = 9) -> bool:
    """Whether a size of the data is divided by on the way to a value: a mean, or a division by a length."""
    script.work.spend()
    if depth == 0:
        return False
    match node:
        case ast.BinOp(op=ast.Div() | ast.FloorDiv(), left=left, right=right):
            return _is_size(right, scope, script) or _divided(left, scope, script, depth - 1)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return any(_divided(each, scope, script, depth - 1) for each in (left, right))
        case ast.Call():
            return _divided_call(node, scope, script, depth - 1)
        case ast.Name(id=name) if (at := scope.visible(name, looped=False)) is not None:
            # what is assigned further down comes after
            values = [one for one in at.assigned.get(name, []) if at is not scope or one.line < node.lineno]
            return any(
                _divided(each.expression, each.scope, script, depth - 1)
                for each in values[:5]
                if each.expression is not node
            ) or _divided_in_place(name, at, node, script)
        case ast.Name(id=name) if (at := scope.visible(name)) is not None:
            return any(
                _divided(each, one.scope, script, depth - 1)
                for one in at.looped.get(name, [])[:3]
                for each in _elements(name, one.expression, script)
            )
        case ast.Attribute() if not isinstance(node.value, ast.Name) or node.value.id != "self":
            # p.grad
            values = [one for one in script.syntax.attributes(node) if one.scope is scope and one.line < node.lineno]
            return any(_divided(each.expression, each.scope, script, depth - 1) for each in values[:5])
        case (
            ast.UnaryOp(operand=inside)
            | ast.Subscript(value=inside)
            | ast.ListComp(elt=inside)
            | ast.GeneratorExp(elt=inside)
            | ast.Lambda(body=inside)
        ):
            there = script.syntax.scopes[node] if isinstance(node, ast.Lambda) else scope
            return _divided(inside, there, script, depth - 1)
        case _:
            return False


def _elements(name: str, over: ast.expr, script: Script) -> list[ast.expr]:
    """What a name stands for one of, in a loop over one thing or over several at once."""
    loop = script.parents.get(over)
    target = getattr(loop, "target", None)
    if isinstance(target, ast.Name):
        return [over]
    match over:
        case ast.Call(func=ast.Name(id="zip"), args=arguments) if isinstance(target, ast.Tuple):
            named = [last_name(one) for one in target.elts]
            return [each for one, each in zip(named, arguments, strict=False) if one == name]
        case _:
            return []


def _divided_in_place(name: str, at: Scope, node: ast.Name, script: Script) -> bool:
    """`total /= n` further up."""
    for one in script.syntax.divisions:
        if one.scope is at and one.by is not None and isinstance(one.node, ast.AugAssign):
            script.work.spend()
            target = one.node.target
            if isinstance(target, ast.Name) and target.id == name and one.node.lineno < node.lineno:
                return _is_size(one.by, at, script)
    return False


def _divided_call(node: ast.Call, scope: Scope, script: Script, depth: int) -> bool:
    """Of what a call keeps: the array of a method, what is put together, how far a draw scatters, what is returned here."""
    name = last_name(node.func)
    if _MEAN.fullmatch(name):
        return True
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    kept = [owner] if owner is not None and not script.syntax.is_module(owner) else []
    given = [*node.args, *(one.value for one in node.keywords if one.arg not in ("size", "shape"))]
    if _QUOTIENT.fullmatch(name) and any(_is_size(each, scope, script) for each in given):
        return True
    if name in script.syntax.defined:
        returned = script.syntax.returned.get(name, [])[:3]
        return any(_divided(each.expression, each.scope, script, depth) for each in returned)
    if KEEPS.fullmatch(name) or _MORE.fullmatch(name) or (DRAWS.fullmatch(name) and not name.endswith("_like")):
        kept += given
    return any(_divided(each, scope, script, depth) for each in kept)


def _is_size(node: ast.expr, scope: Scope, script: Script) -> bool:
    """A number of records, of the data or of the caller's."""
    found = script.origins(node, scope)
    if Origin.NORM in found or "norm" in ast.unparse(node):
        # a bound over a norm is a factor, whatever array the norm is of
        return False
    if found & OF_THE_DATA or any(map(_SIZE.search, (*names_in(node), *_keys(node)))):
        return True
    number = script.constant(node, scope)
    return isinstance(number, int) and not isinstance(number, bool) and number >= _LEAST_SIZE


def _keys(node: ast.expr) -> list[str]:
    """The settings that are taken from dictionaries: `group["lot"]`."""
    return [
        one.slice.value
        for one in ast.walk(node)
        if isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Constant) and isinstance(one.slice.value, str)
    ]


def _is_sum(node: ast.expr, scope: Scope, script: Script, depth: int = 5) -> bool:
    """Whether it is in view that a value is a sum over records, without weights that are shares."""
    script.work.spend()
    match node:
        case ast.Call(func=function, args=arguments) if _SUMS.fullmatch(last_name(function)):
            summed = [*arguments[:1], *([function.value] if isinstance(function, ast.Attribute) else [])]
            names = (name for one in summed for name in names_behind(one, scope, script, 4))
            return not any(map(_SHARES.search, names))
        case ast.Name(id=name) if depth and (at := scope.visible(name, looped=False)) is not None:
            values = [one for one in at.assigned.get(name, []) if one.line < node.lineno]
            if at is not scope or not values:
                return False
            added = [one for one in values if _adds_up(name, one.line, script)]
            names = (each for one in added for each in names_behind(one.expression, one.scope, script, 4))
            if added:
                return len(values) == len(added) + 1 and not any(map(_SHARES.search, names))
            return len(values) == 1 and _is_sum(values[0].expression, values[0].scope, script, depth - 1)
        case _:
            return False


def _adds_up(name: str, line: int, script: Script) -> bool:
    """Whether `total += g` stands in a loop there."""
    for node in script.nodes:
        match node:
            case ast.AugAssign(target=ast.Name(id=target), op=ast.Add()) if target == name and node.lineno == line:
                return bool(script.loops_around(node))
    return False


def _has_scale_of_the_sum(noise: ast.expr, scope: Scope, script: Script) -> bool:
    """Whether what is drawn is sigma times C and nothing else: where that is not in view, nothing is known."""
    names = set(names_behind(noise, scope, script, 6))
    for one in (*names,):
        # group["clip"], in what the names stand for as well
        at = scope.visible(one, looped=False)
        names.update(*(_keys(value.expression) for value in ([] if at is None else at.assigned.get(one, [])[:3])))
    names.update(_keys(noise))
    return any(map(_DEVIATION.search, names)) and any(map(_BOUND.search, names))


EACH = (alike,)
