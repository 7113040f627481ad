"""What a noisy mean is divided by, in code of one's own: the statements of the reader, in a file that trains with DP."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules.noise import DRAWS, Addition, noise_of
from noisymean.lint.script import Script
from noisymean.probe.reading.candidates import Candidates
from noisymean.probe.reading.flow import KEEPS
from noisymean.probe.reading.nodes import Scope, last_name, names_in
from noisymean.probe.reading.source import OF_THE_DATA, Origin, Role, Statement

# The worst of several comes first.
_RULES = {
    Origin.BATCH: "NM021",
    Origin.FLOOR: "NM023",
    Origin.EXPECTED: "NM022",
    Origin.DATASET: "NM024",
}
_MEAN = re.compile(r"(nan)?mean|average|reduce_mean|pmean")
_QUOTIENT = re.compile(r"div_?|divide|true_divide|div_no_nan")
# Beside what the reader knows to keep what is in its arguments.
_MORE = re.compile(r"Normal|Laplace|MultivariateNormal|cast|maximum|minimum|clamp_?|clip")
_DEVIATION = re.compile(r"sigma|noise_mult|noise_scale|^std|noise_std|multiplier", re.IGNORECASE)
_BOUND = re.compile(r"^c$|clip|max_grad|norm|bound|sensitivity|^s$", re.IGNORECASE)


def divides(script: Script) -> Iterator[Finding]:
    """NM021 to NM024."""
    noise = noise_of(script)
    if not noise.is_private or not noise.speaks_of_noise:
        return
    seen: set[int] = set()
    done: set[tuple[ast.AST | None, str]] = set()
    # the noise of a mean is divided as the mean is, which is one fault where both are in view
    scaled = {
        script.statement_of(one.node)
        for one in noise.additions
        if any(isinstance(each, ast.Div | ast.FloorDiv) for each in script.work.walk(one.noise))
    }
    for one in sorted(Candidates(script.syntax).statements(), key=lambda one: (one.role is Role.NOISE, one.line)):
        rule = _rule(one)
        if rule is None or one.line in seen:
            continue
        node = script.statements_at.get(one.line, script.tree)
        place = (script.function_of(node), rule)
        of_noise = one.role is Role.NOISE or node in scaled
        if (not of_noise or place not in done) and (one.noisy or _gets_noise(node, script)):
            seen.add(one.line)
            if not of_noise:
                done.add(place)
            yield script.found(rule, node, f"Here: by {one.by}.")


def _rule(one: Statement) -> str | None:
    if one.role not in (Role.GRADIENT, Role.NOISE):
        return None
    return next((rule for origin, rule in _RULES.items() if origin in one.origins), None)


def _gets_noise(node: ast.AST, script: Script) -> bool:
    """Whether noise is added to what is made of it: in the same function, or to the name that it or its function has."""
    function = script.function_of(node)
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    results = {name for one in targets if isinstance(one, ast.expr) for name in names_in(one)}
    results |= set() if function is None else {function.name}
    for one in noise_of(script).additions:
        if function is not None and one.scope.function is function:
            return True
        if results & set(_names_behind(one.gradient, one.scope, script, 6)):
            return True
    return False


def alike(script: Script) -> Iterator[Finding]:
    """NM025: one side of the sum is a mean and the other has the scale of the sum."""
    noise = noise_of(script)
    if not noise_of(script).is_private:
        return
    for one in noise.additions:
        gradient = _divided(one.gradient, one.scope, script)
        # by whatever the noise is divided, it is not that of the sum
        drawn = any(isinstance(each, ast.Div | ast.FloorDiv) for each in script.work.walk(one.noise)) or _divided(
            one.noise, one.scope, script
        )
        if gradient and not drawn and _has_scale_of_the_sum(one, script):
            yield script.found("NM025", one.node)


def _divided(node: ast.expr, scope: Scope, script: Script, depth: int = 6) -> bool:
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
            )
        case (
            ast.UnaryOp(operand=inside)
            | ast.Subscript(value=inside)
            | ast.ListComp(elt=inside)
            | ast.GeneratorExp(elt=inside)
        ):
            return _divided(inside, scope, script, depth - 1)
        case _:
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
    if script.origins(node, scope) & OF_THE_DATA:
        return True
    return any(
        re.search(r"batch|^lot(_size)?$|num_(samples|examples)|n_samples|cohort|bsz|^bs$", name, re.IGNORECASE)
        for name in names_in(node)
    )


def _has_scale_of_the_sum(one: Addition, script: Script) -> bool:
    """Whether what is drawn is sigma times C and nothing else: where that is not in view, nothing is known."""
    names = set(_names_behind(one.noise, one.scope, script, 6))
    return any(map(_DEVIATION.search, names)) and any(map(_BOUND.search, names))


def _names_behind(node: ast.expr, scope: Scope, script: Script, depth: int) -> Iterator[str]:
    """The names in an expression, and in what they are assigned."""
    for name in names_in(node):
        script.work.spend()
        yield name
        at = scope.visible(name, looped=False) if depth else None
        for value in [] if at is None else at.assigned.get(name, [])[:3]:
            yield from _names_behind(value.expression, value.scope, script, depth - 2 if depth > 1 else 0)


EACH = (divides, alike)
