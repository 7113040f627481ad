"""Steps that are left out when nobody was drawn."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules.noise import noise_of
from noisymean.lint.script import Script
from noisymean.probe.reading.names import CHANCE
from noisymean.probe.reading.nodes import Scope, last_name, names_in
from noisymean.probe.reading.source import Origin

# Who or what was drawn, by name.
_DRAWN = re.compile(
    r"cohort|client|participant|user|batch|chosen|selected|sampled|subset|picked|drawn|^lot$|records?$|members|active|available"
    r"|(^|_)(idx|indices|index|ids)$",
    re.IGNORECASE,
)
_NOT_DRAWN = re.compile(
    r"param|grad|layer|module|loss|history|names?$|args|lines|metric|values$|result|keys$|log|hook|group|leaves|queue|buffer|device|path|file"
    r"|text|stat|point|event|epsilon",
    re.IGNORECASE,
)
_STEPS = re.compile(
    r"backward|step|apply_gradients|apply_updates|assign_sub|\w*train\w*|\w*clip\w*|add_\w*noise\w*|\w*privati[sz]e\w*|(\w+_)?update_(weights|model|params)"
)
# `update` belongs to dictionaries and bars as well.
_UPDATES = re.compile(r"^(tx|opt)|optim|privati", re.IGNORECASE)
_ELSEWHERE = re.compile(
    r"eval|test|valid|(^|_)(log|report|print|plot|show|summar|metric|display|format|describe)", re.IGNORECASE
)


def skipped(script: Script) -> Iterator[Finding]:
    """NM036: `if len(batch) == 0: continue` and its like, in a loop or a function that trains."""
    if not noise_of(script).is_private:
        return
    for node in script.nodes:
        if isinstance(node, ast.While) and _is_empty(node.test, script) and _draws_again(node, script):
            yield script.found("NM036", node)
        if not isinstance(node, ast.If):
            continue
        left_out = (
            _leaves(node.body)
            and not _gives_noise(node.body[-1], script)
            and _is_empty(node.test, script)
            and _in_training(node, script)
        ) or (not node.orelse and _is_filled(node.test, script) and _takes_step(node, script))
        if left_out:
            yield script.found("NM036", node)


def _draws_again(node: ast.While, script: Script) -> bool:
    """Whether a loop goes on until somebody was drawn, in a function that adds noise."""
    chance = any(
        isinstance(one, ast.Call) and bool(CHANCE.fullmatch(last_name(one.func))) for one in script.work.walk(node)
    )
    function = script.function_of(node)
    added = (one.scope.function for one in noise_of(script).additions)
    return chance and function is not None and any(one is function for one in added)


def _gives_noise(node: ast.stmt, script: Script) -> bool:
    """Whether noise alone is given back, as it should be."""
    value = node.value if isinstance(node, ast.Return) else None
    return value is not None and noise_of(script).is_drawn(value, script.scope_of(node))


def _is_nought(node: ast.expr) -> bool:
    """`np.zeros(d)`, `torch.zeros_like(p)`."""
    match node:
        case ast.Call(func=function):
            return last_name(function) in ("zeros", "zeros_like", "new_zeros")
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return any(isinstance(one, ast.Constant) and one.value == 0 for one in (left, right))
        case _:
            return False


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block goes on with the next round; what it prints or counts before is no matter."""
    if any(isinstance(one, ast.Raise) for one in body):
        return False
    match body[-1]:
        case ast.Continue():
            return True
        case ast.Return(value=value):
            return (
                value is None
                or (isinstance(value, ast.Constant) and value.value in (None, False))
                or isinstance(value, ast.Name | ast.Tuple | ast.Attribute)
                or _is_nought(value)
            )
        case _:
            return False


def _is_empty(test: ast.expr, script: Script) -> bool:
    scope = script.scope_of(test)
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=0)]):
            return _is_size(left, scope, script)
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Constant(value=1)]):
            return _is_size(left, scope, script)
        case ast.Compare(left=ast.Name() as left, ops=[ast.Eq()], comparators=[ast.List(elts=[])]):
            return _is_drawn(left, scope, script)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Attribute() as inside):
            return _is_drawn(inside, scope, script) or _is_size(inside, scope, script)
        case ast.UnaryOp(op=ast.Not(), operand=inside):
            return _is_size(inside, scope, script) or _is_any(inside)
        case ast.BoolOp(values=values):
            return any(_is_empty(one, script) for one in values)
        case _:
            return False


def _is_filled(test: ast.expr, script: Script) -> bool:
    """`if len(batch) > 0:` and its like."""
    scope = script.scope_of(test)
    match test:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            return _is_size(left, scope, script)
        case ast.Compare(left=left, ops=[ast.GtE()], comparators=[ast.Constant(value=1)]):
            return _is_size(left, scope, script)
        case ast.Call():
            return last_name(test.func) == "len" or _is_any(test)
        case _:
            return False


def _takes_step(node: ast.If, script: Script) -> bool:
    """Whether the step itself is inside: noise is added, or an optimizer goes on; in a loop, or in what one calls."""
    inside = set(script.work.walk(node))
    if any(one.node in inside for one in noise_of(script).additions):
        return True
    return any(isinstance(one, ast.Attribute) and one.attr in ("step", "apply_gradients") for one in inside)


def _is_size(node: ast.expr, scope: Scope, script: Script) -> bool:
    """The number of those who were drawn."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        # every so many steps
        return False
    names = [name for name in names_in(node) if _NOT_DRAWN.search(name)]
    if any(not _is_batch_of_gradients(name, scope) for name in names):
        return False
    match node:
        case ast.Call(func=function) if last_name(function) in ("numel", "nelement", "len"):
            return True
        case ast.Attribute(attr="size", value=ast.Name() | ast.Attribute()):
            return True
        case _:
            return Origin.BATCH in script.origins(node, scope)


def _is_batch_of_gradients(name: str, scope: Scope) -> bool:
    """Gradients that a loop goes through batch by batch, or that a function is handed; a list of those of the weights is none."""
    at = scope.visible(name)
    handed = at is not None and not at.assigned.get(name) and (name in at.looped or name in at.parameters())
    return bool(re.search("grad", name, re.IGNORECASE)) and handed


def _is_drawn(node: ast.expr, scope: Scope, script: Script) -> bool:
    """A list of those who were drawn: by its name, or since chance has a part in it."""
    name = last_name(node)
    if _NOT_DRAWN.search(name):
        return False
    at = scope.visible(name) if isinstance(node, ast.Name) else None
    values = [] if at is None else at.assigned.get(name, [])
    return bool(_DRAWN.search(name)) or any(
        isinstance(one, ast.Call) and bool(CHANCE.fullmatch(last_name(one.func)))
        for value in values[:3]
        for one in script.work.walk(value.expression)
    )


def _is_any(node: ast.expr) -> bool:
    """`mask.any()`."""
    return isinstance(node, ast.Call) and last_name(node.func) == "any"


def _in_training(node: ast.If, script: Script) -> bool:
    """Whether the loop, or the function, around it takes steps, or adds noise."""
    function = script.function_of(node)
    if function is not None and _ELSEWHERE.search(function.name):
        return False
    leaves_loop = isinstance(node.body[-1], ast.Continue)
    loops = script.loops_around(node)
    if leaves_loop and not loops:
        return False
    around: ast.AST = next(iter(loops), None) or function or script.tree
    nodes = set(script.work.walk(around))
    if any(one.node in nodes for one in noise_of(script).additions):
        return True
    return _takes_steps(nodes)


def _takes_steps(nodes: Collection[ast.AST]) -> bool:
    for one in nodes:
        if isinstance(one, ast.Call):
            name = last_name(one.func).lower()
            owner = one.func.value if isinstance(one.func, ast.Attribute) else None
            if _STEPS.fullmatch(name) or (name == "update" and owner is not None and _UPDATES.search(last_name(owner))):
                return True
    return False


EACH = (skipped,)
