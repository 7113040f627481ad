"""What a loop propagates back: Opacus takes it to be a mean over the records of the batch, and multiplies by their number.

A sum instead, or a mean that is scaled by the size of the batch, scales the gradient of every record by that number, before it is
clipped; a loss that compares records with one another has no gradient of one record. So the loss has to be one that is known.
The same goes for the step length: one that follows the data is a denominator.
"""

from __future__ import annotations

import ast

from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.source.loops import Loop

_MEANS = frozenset(
    {
        *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"),
        *("binary_cross_entropy", "binary_cross_entropy_with_logits"),
    }
)
_CLASSES = frozenset(
    {
        *("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss"),
        "BCEWithLogitsLoss",
    }
)
_FUNCTIONS = tuple(f"torch.nn.functional.{one}" for one in sorted(_MEANS))
_MODULES = tuple(f"torch.nn.{one}" for one in sorted(_CLASSES))
_MOVES = frozenset({"to", "cuda", "long", "float", "double", "squeeze", "unsqueeze"})
# Attributes of a loss, of which no file sets one unless it changes what is averaged.
_SET = frozenset({"reduction", "weight", "ignore_index", "pos_weight", "data"})
_OPTIONS = frozenset({"label_smoothing", "delta", "beta", "input", "target"})
_DEEPEST = 4


def is_mean(loop: Loop, bindings: Bindings) -> bool:
    """Whether what is propagated back is a mean over the batch of a known loss of what the model made of it."""
    owner = loop.backward.func.value if isinstance(loop.backward.func, ast.Attribute) else None
    loss = _only(owner, loop.node)
    if not isinstance(loss, ast.Call) or not loss.args or not _has_plain_options(loss):
        return False
    told = [*loss.args[1:], *(one.value for one in loss.keywords if one.arg in ("input", "target"))]
    if _only(loss.args[0], loop.node) is not loop.model or not all(_is_of_batch(one, loop) for one in told):
        return False
    if any(one.arg not in ("retain_graph", "create_graph") for one in loop.backward.keywords):
        return False
    names = {one.id for one in (owner, loss.args[0]) if isinstance(one, ast.Name)}
    if _is_changed(names, loop) or any(
        isinstance(one, ast.Attribute) and one.attr in _SET and isinstance(one.ctx, ast.Store)
        for one in bindings.scan()
    ):
        return False
    return _is_known(loss.func, bindings, _DEEPEST)


def _only(node: ast.expr | None, loop: ast.For) -> ast.expr | None:
    """An expression, or what a name is given once in the loop."""
    if not isinstance(node, ast.Name):
        return node
    stored = [one for one in ast.walk(loop) if isinstance(one, ast.Name) and one.id == node.id and _is_stored(one)]
    given = [
        one
        for one in ast.walk(loop)
        if isinstance(one, ast.Assign) and len(one.targets) == 1 and stored and one.targets[0] is stored[0]
    ]
    return given[0].value if len(stored) == len(given) == 1 else None


def _is_of_batch(node: ast.expr, loop: Loop) -> bool:
    """Labels as they came, or moved: not less their mean."""
    match node:
        case ast.Name(id=name):
            return name in loop.batch
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant()):
            return name in loop.batch
        case ast.Call(func=ast.Attribute(attr=method, value=owner)) if method in _MOVES:
            return _is_of_batch(owner, loop)
        case _:
            return False


def _is_changed(names: set[str], loop: Loop) -> bool:
    """Whether what the model made of the batch, or the loss, goes anywhere before it is propagated back."""
    used = [one for one in ast.walk(loop.node) if isinstance(one, ast.Name) and one.id in names and not _is_stored(one)]
    early = [one for one in used if one.lineno <= loop.backward.lineno]
    # once in the loss, once in backward()
    return len(early) > len(names)


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _has_plain_options(call: ast.Call) -> bool:
    """Nothing that makes a sum of the mean, or weights of the classes, by which a mean is divided."""
    if len(call.args) > 2 or any(isinstance(one, ast.Starred) for one in call.args):
        return False
    return all(
        one.arg in _OPTIONS
        or (one.arg == "reduction" and isinstance(one.value, ast.Constant) and one.value.value == "mean")
        for one in call.keywords
    )


def _is_known(function: ast.expr, bindings: Bindings, depth: int) -> bool:
    """A loss of torch, made here or handed to the function by every call of it."""
    if depth == 0:
        return False
    if bindings.comes_from(function, *_FUNCTIONS):
        return True
    match function:
        case ast.Call(func=made, args=[]) if bindings.comes_from(made, *_MODULES):
            return _has_plain_options(function)
        case ast.Name(id=name):
            value = bindings.value(function)
            if value is not None and not _is_kept(name, bindings):
                return False
            if value is not None:
                return _is_known(value, bindings, depth - 1)
            handed = _handed(name, bindings)
            return bool(handed) and all(_is_known(one, bindings, depth - 1) for one in handed)
        case _:
            return False


def _is_kept(name: str, bindings: Bindings) -> bool:
    """Whether a loss is only ever called, or handed to functions of the file."""
    for node in bindings.scan():
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            parent = bindings.script.parents[node]
            if not isinstance(parent, ast.Call):
                return False
            to = parent.func.id if isinstance(parent.func, ast.Name) else ""
            if parent.func is not node and not any(isinstance(one, ast.FunctionDef) for one in bindings.nodes(to)):
                return False
    return True


def _handed(name: str, bindings: Bindings) -> list[ast.expr]:
    """What every call of a function hands over for a parameter that is nothing else; nothing where one is not in view."""
    script = bindings.script
    found = []
    for bound in bindings.nodes(name):
        around = script.parents[script.parents[bound]] if isinstance(bound, ast.arg) else None
        if not isinstance(around, ast.FunctionDef) or around.args.defaults or around.args.kw_defaults:
            return []
        plain = [one.arg for one in (*around.args.posonlyargs, *around.args.args)]
        calls = script.syntax.calls.get(around.name, [])
        if not calls or name not in plain or around.name in script.syntax.handed_on:
            return []
        for call, _ in calls:
            by_name = {one.arg: one.value for one in call.keywords}
            given = dict(zip(plain, call.args, strict=False)) | {key: one for key, one in by_name.items() if key}
            if name not in given or None in by_name or any(isinstance(one, ast.Starred) for one in call.args):
                return []
            found.append(given[name])
    return found


def step_length_of_the_data(bindings: Bindings) -> ast.AST | None:
    """A step length that may be computed from the records or from a batch: in an optimizer, a schedule, or set by hand."""
    script = bindings.script
    for call in script.calls:
        scheduled = call.dotted.startswith("torch.optim.")
        told = [one for name, one in call.keywords.items() if scheduled or name in ("lr", "learning_rate")]
        for value in [*told, *(call.arguments[1:] if scheduled else [])]:
            body = value.body if isinstance(value, ast.Lambda) else value
            if any(
                script.is_of_the_data(one, call.scope)
                for one in ast.walk(body)
                if isinstance(one, ast.Name | ast.Call | ast.BinOp | ast.Attribute)
            ):
                return value
    for node in bindings.scan():
        match node:
            case ast.Dict(keys=keys, values=values):
                for key, length in zip(keys, values, strict=True):
                    named = isinstance(key, ast.Constant) and key.value == "lr"
                    if named and script.is_of_the_data(length, script.scope_of(node)):
                        return length
            case ast.Subscript(slice=ast.Constant(value="lr"), ctx=ast.Store()):
                statement = script.statement_of(node)
                given = statement.value if isinstance(statement, ast.Assign | ast.AugAssign) else None
                if bindings.number(given) is None:
                    return node
            case _:
                pass
    return None
