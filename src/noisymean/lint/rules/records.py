"""Loops that take one record at a time, by what they do: pick x[i], or gather the gradients that they compute one by one."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from noisymean.probe.reading.nodes import last_name, names_in

_IN_BATCHES = re.compile(r"split|array_split|chunks?|tensor_split|batched")
_BATCHES = re.compile(r"loader|epoch|batches|steps?$|iter|rounds?$|^T$|dataset", re.IGNORECASE)
_GRADIENTS = re.compile(r"backward|grad|gradient|GradientTape|value_and_grad", re.IGNORECASE)
_PARTS = re.compile(r"param|layer|module|weight|leaves|named|group", re.IGNORECASE)


def takes_one_each(loop: ast.For, inside: Collection[ast.AST]) -> bool:
    """Whether each round of a loop is one record: gradients are computed in it, and no step is taken."""
    if any(map(_PARTS.search, names_in(loop.iter))) or any(map(_PARTS.search, names_in(loop.target))):
        return False
    called = [last_name(one.func) for one in inside if isinstance(one, ast.Call)]
    if not any(map(_GRADIENTS.search, called)) or any(one in ("step", "apply_gradients") for one in called):
        return False
    if _picks_one(loop, inside):
        return True
    return not any(map(_BATCHES.search, names_in(loop.iter))) and not _in_strides(loop) and _gathers(inside)


def _picks_one(loop: ast.For, inside: Collection[ast.AST]) -> bool:
    """`x[i]` or `x[i : i + 1]`, for i in a range that goes one by one or in a list of numbers."""
    if not isinstance(loop.target, ast.Name) or _in_strides(loop):
        return False
    index = loop.target.id
    for one in inside:
        match one:
            case ast.Subscript(slice=ast.Name(id=name)) if name == index and not _is_batch_of(one):
                return True
            case ast.Subscript(slice=ast.List(elts=[ast.Name(id=name)])) if name == index:
                return True
            case ast.Subscript(
                slice=ast.Slice(
                    lower=ast.Name(id=name),
                    upper=ast.BinOp(left=ast.Name(id=after), op=ast.Add(), right=ast.Constant(value=1)),
                )
            ) if name == after == index:
                return True
    return False


def _is_batch_of(node: ast.Subscript) -> bool:
    """`batches[i]` is many records, and `totals[i]` none."""
    return bool(re.search(r"batches|loader|param|grad|total|sum|layer|clients?_data|^w", last_name(node.value) or "w"))


def _in_strides(loop: ast.For) -> bool:
    """`range(0, n, k)`."""
    over = loop.iter
    return isinstance(over, ast.Call) and last_name(over.func) in ("range", "trange", "arange") and len(over.args) == 3


def _gathers(inside: Collection[ast.AST]) -> bool:
    """Gradients are added to something, or put into a list."""
    for one in inside:
        match one:
            case ast.AugAssign(op=ast.Add(), value=value) if any("grad" in name for name in names_in(value)):
                return True
            case ast.Call(func=ast.Attribute(attr="add_" | "append"), args=[value, *_]) if any(
                "grad" in name for name in names_in(value)
            ):
                return True
    return False


def goes_by_batch(over: ast.expr) -> bool:
    """`rows.split(64)` and `range(0, n, 64)`, unless these are called microbatches or have one record."""
    match over:
        case ast.Call(func=ast.Attribute(attr="split" | "chunk"), args=[size]):
            pass
        case ast.Call(func=function, args=[_, size]) if _IN_BATCHES.fullmatch(last_name(function)):
            pass
        case ast.Call(func=ast.Name(id="range"), args=[_, _, size]):
            pass
        case _:
            return False
    single = isinstance(size, ast.Constant) and size.value == 1
    return not single and not any("micro" in name.lower() for name in names_in(over))
