"""Loops that train: each batch of the private loader goes through the model once, is propagated back once and is stepped on once.

A loop is *plain* if nothing else can happen in it. What is looked for is the ordinary loop of a tutorial; any other may be right
as well, and is not followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, final

from noisymean.probe.reading.nodes import Function
from noisymean.scorecard.source.bindings import Bindings


class Role(Enum):
    """What make_private returns, in its order; the last is a loader that BatchMemoryManager has cut."""

    MODEL = "model"
    OPTIMIZER = "optimizer"
    LOADER = "loader"
    CUT_LOADER = "loader of BatchMemoryManager"


# The role of a name at a place; None for every other name.
Roles: TypeAlias = Callable[[ast.expr], Role | None]

_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Try, ast.TryStar, ast.Yield, ast.YieldFrom, ast.Await)
# Methods that move a batch, and leave its records as they are.
_MOVES = ("to", "cuda", "cpu", "float", "double", "half", "long", "int", "type", "contiguous", "detach", "clone")
_TQDM = ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.std.tqdm")


@final
@dataclass(frozen=True)
class NotPlain:
    """What keeps a loop from being followed, and where."""

    node: ast.AST
    says: str


@final
@dataclass(frozen=True)
class Loop:
    """A plain loop: its step, and whether BatchMemoryManager cuts its batches."""

    node: ast.For
    step: ast.Call
    backward: ast.Call
    model: ast.Call
    is_cut: bool
    # what the batch and its parts are called
    batch: frozenset[str]


def followed(loop: ast.For, roles: Roles, bindings: Bindings) -> Loop | NotPlain:
    """The loop around a step, if it is plain."""
    over, counted = _over(loop.iter, bindings)
    role = roles(over)
    if role not in (Role.LOADER, Role.CUT_LOADER):
        return NotPlain(loop, "trains in a loop over something else than the loader that make_private returned")
    inside = list(_inside(loop))
    for node in inside:
        if isinstance(node, _LEAVES):
            return NotPlain(node, "the training loop may be left or go on before the step")
    calls = [node for node in inside if isinstance(node, ast.Call)]
    direct = [part for one in _flat(loop.body) for part in _parts_of(one)]
    steps = [one for one in calls if _method(one) == "step" and roles(_owner(one)) is Role.OPTIMIZER]
    backwards = [one for one in calls if _method(one) == "backward"]
    cleared = [
        one
        for one in calls
        if _method(one) == "zero_grad" and roles(_owner(one)) in (Role.OPTIMIZER, Role.MODEL) and one in direct
    ]
    models = [one for one in calls if roles(one.func) is Role.MODEL]
    for several, what in ((steps, "step"), (backwards, "backward()"), (models, "call of the model")):
        if len(several) != 1 or several[0] not in direct:
            return NotPlain(
                several[0] if several else loop, f"not exactly one {what} for each batch, in the loop itself"
            )
    if not cleared:
        return NotPlain(loop, "no zero_grad() for each batch")
    (step,), (backward,), (model,) = steps, backwards, models
    if not model.lineno <= backward.lineno <= step.lineno or step.args or step.keywords or backward.args:
        return NotPlain(step, "not in the order model, backward(), step()")
    batch = _other_records(loop, model, counted=counted)
    if isinstance(batch, NotPlain):
        return batch
    if (shared := _shared(loop, bindings)) is not None:
        return NotPlain(shared, "the batch is shared between functions")
    return Loop(loop, step, backward, model, role is Role.CUT_LOADER, batch)


def _over(node: ast.expr, bindings: Bindings, *, counted: bool = False) -> tuple[ast.expr, bool]:
    """What is gone through, without what counts or shows it; and whether it is counted."""
    match node:
        case ast.Call(func=ast.Name(id="enumerate"), args=[inside], keywords=[]) if bindings.is_builtin("enumerate"):
            return (node, counted) if counted else _over(inside, bindings, counted=True)
        case ast.Call(func=function, args=[inside]) if bindings.comes_from(function, *_TQDM):
            return _over(inside, bindings, counted=counted)
        case _:
            return node, counted


def _inside(loop: ast.For) -> Iterator[ast.AST]:
    """Everything in the body, but for functions that are only defined there."""
    waiting: list[ast.AST] = [*loop.body, *loop.orelse]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*Function.__args__, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run for each batch, those under a `with` included."""
    for one in body:
        if isinstance(one, ast.With):
            yield from _flat(one.body)
        elif isinstance(one, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign):
            yield one


def _parts_of(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement always computes, once: not what is under a condition or in a loop of its own."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        once = not isinstance(
            node,
            ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp,
        )
        waiting += ast.iter_child_nodes(node) if once else []


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


# --- which records -----------------------------------------------------------------------------------------------------


def _other_records(loop: ast.For, model: ast.Call, *, counted: bool) -> NotPlain | frozenset[str]:
    """The names of the batch, or why the model may be given something else than it, all of it and nothing more."""
    target = loop.target
    if counted:
        if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
            return NotPlain(loop, "what the batch is called is not in view")
        target = target.elts[1]
    whole = {target.id} if isinstance(target, ast.Name) else set()
    batch = _names(target)
    for statement in _flat(loop.body):
        if not isinstance(statement, ast.Assign):
            continue
        named = [one for each in statement.targets for one in _names(each)]
        if _moves_all(statement, batch, whole):
            batch |= set(named)
        elif batch & set(named):
            return NotPlain(statement, "the batch is changed before the model gets it")
    told = [*model.args, *(one.value for one in model.keywords)]
    if not told or not all(_is_batch(one, batch, whole) for one in told):
        return NotPlain(model, "what the model is given is not simply the batch")
    changed = _changed(loop, model, batch)
    return frozenset(batch) if changed is None else changed


def _changed(loop: ast.For, model: ast.Call, batch: set[str]) -> NotPlain | None:
    """Where names of the batch may come to mean something else before the model gets it."""
    assigned = [one for one in _flat(loop.body) if isinstance(one, ast.Assign)]
    moved = {id(name) for one in assigned for target in one.targets for name in ast.walk(target)}
    for node in _inside(loop):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in batch and id(node) not in moved:
                return NotPlain(node, "the batch is changed before the model gets it")
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()) if _root(node) in batch:
                return NotPlain(node, "the batch is changed before the model gets it")
            case ast.Call(func=ast.Attribute(attr=method) as function) if _root(function) in batch:
                if method.endswith("_") and not method.endswith("__"):
                    return NotPlain(node, "the batch is changed before the model gets it")
            case ast.Call() if _may_change(node, model, batch):
                return NotPlain(node, "the batch goes where it may be changed, before the model gets it")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return NotPlain(node, "a function is made in the training loop")
            case ast.MatchAs() | ast.MatchStar() | ast.MatchMapping() | ast.alias():
                return NotPlain(node, "what names mean in the training loop is not followed")
            case _:
                pass
    return None


def _root(node: ast.expr) -> str:
    """`features` of `features.data[0]`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _may_change(call: ast.Call, model: ast.Call, batch: set[str]) -> bool:
    """Whether a call gets the batch before the model does."""
    if call is model or call.lineno > model.lineno or _contains(call, model):
        return False
    if isinstance(call.func, ast.Name) and call.func.id in ("len", "print", "type", "id"):
        return False
    told = [*call.args, *(one.value for one in call.keywords)]
    return any(isinstance(node, ast.Name) and node.id in batch for one in told for node in ast.walk(one))


def _contains(call: ast.Call, model: ast.Call) -> bool:
    """`criterion(model(features), labels)`: it is called once the model is done."""
    return any(one is model for one in ast.walk(call))


def _shared(loop: ast.For, bindings: Bindings) -> ast.AST | None:
    """Where another function may set a name of the batch."""
    stored = {one.id for one in _inside(loop) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    for name in stored | _names(loop.target):
        for node in bindings.nodes(name):
            if isinstance(node, ast.Global | ast.Nonlocal):
                return node
    return None


def _names(node: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _moves_all(statement: ast.Assign, batch: set[str], whole: set[str]) -> bool:
    """Whether an assignment only moves the batch, or takes it apart."""
    if len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return len(target.elts) == len(value.elts) and all(_is_batch(one, batch, whole) for one in value.elts)
    if isinstance(target, ast.Tuple) and not (isinstance(value, ast.Name) and value.id in whole):
        return False
    return isinstance(target, ast.Name | ast.Tuple) and _is_batch(value, batch, whole)


def _is_batch(node: ast.expr, batch: set[str], whole: set[str]) -> bool:
    """A name of the batch or of a part of it, as it came or moved to a device."""
    match node:
        case ast.Name(id=name):
            return name in batch
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() | str())):
            return name in whole
        case ast.Starred(value=ast.Name(id=name)):
            return name in whole
        case ast.Call(func=ast.Attribute(attr=method, value=owner)) if method in _MOVES:
            return _is_batch(owner, batch, whole)
        case ast.Call(func=ast.Attribute(attr="flatten", value=owner), args=[ast.Constant(value=1)]):
            return _is_batch(owner, batch, whole)
        case _:
            return False
