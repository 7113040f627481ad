"""Noise that is drawn in some steps and kept for those in between: rows of a block, or one value again and again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.script import Loop, Script
from noisymean.probe.reading.nodes import last_name

_PUTS = ("append", "extend", "appendleft", "extendleft", "update", "put", "copy_")


def every_so_often(node: ast.AST, script: Script) -> ast.If | ast.IfExp | None:
    """What a node waits for that holds in some steps only, by a counter; the step itself does not wait for it."""
    child: ast.AST = node
    for around in script.ancestors(node):
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return None
        if isinstance(around, ast.If | ast.IfExp) and child is not around.test:
            counts = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod) for one in ast.walk(around.test))
            if counts and (isinstance(around, ast.IfExp) or not _steps_inside(around)):
                return around
        child = around
    return None


def _steps_inside(node: ast.If) -> bool:
    """Whether the step is taken there as well: then it waits for its noise."""
    for one in ast.walk(node):
        match one:
            case ast.Return() | ast.Continue():
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if re.fullmatch(
                r"step|apply\w*|update\w*|zero_grad|sub_|copy_|add_", name
            ):
                return True
            case ast.AugAssign(op=ast.Sub()):
                return True
            case _:
                pass
    return False


def keeps(draw: ast.AST, around: ast.If | ast.IfExp, script: Script) -> ast.expr | None:
    """What still has a draw in the steps in which its `if` does not hold; None where these go without."""
    statement = script.statement_of(draw)
    target: ast.expr | None = None
    match statement:
        case ast.Assign(targets=[one]) | ast.AnnAssign(target=one):
            target = one.value if isinstance(one, ast.Subscript) else one
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name, value=owner))) if name in _PUTS:
            target = owner
        case _:
            pass
    branch = _branch_of(draw, around)
    if not isinstance(target, ast.Name | ast.Attribute) or not _outlives(target, around, branch, script):
        return None
    if isinstance(around, ast.IfExp):
        others = [one for one in (around.body, around.orelse) if one not in branch]
        return target if all(ast.unparse(one) == ast.unparse(target) for one in others) else None
    return target


def _branch_of(node: ast.AST, around: ast.If | ast.IfExp) -> set[ast.AST]:
    """All nodes of the branch that a node is in."""
    sides = (around.body, around.orelse)
    branches = [
        {each for part in (one if isinstance(one, list) else [one]) for each in ast.walk(part)} for one in sides
    ]
    return next((one for one in branches if node in one), set())


def _outlives(target: ast.Name | ast.Attribute, around: ast.AST, branch: set[ast.AST], script: Script) -> bool:
    """Whether a name means the same in the next step: it is an object's, or of around the loop, and nothing begins it anew."""
    scope, text = script.scope_of(around), ast.unparse(target)
    loops = script.loops_around(around)
    step: ast.AST | Loop | None = script.function_of(around)
    if isinstance(target, ast.Name) and target.id not in scope.shared:
        step = loops[0] if loops else None
    elif loops:
        step = loops[0]
    if step is None:
        return False
    for node in script.work.walk(step):
        match node:
            case ast.Assign(targets=targets, value=value) if node not in branch:
                begun = any(ast.unparse(one) == text for one in targets)
                # block = block[1:] takes from what is there
                kept = any(ast.unparse(one) == text for one in ast.walk(value) if isinstance(one, type(target)))
                if begun and not kept and script.statement_of(around) is not node:
                    return False
            case _:
                pass
    return True


def is_whole(target: ast.expr, around: ast.AST, script: Script) -> bool:
    """Whether all that is done with what is kept is arithmetic with the whole of it: each step then has the same noise."""
    statement = script.statement_of(around)
    inside = {statement, *script.work.walk(statement)}
    step = next(iter(script.loops_around(around)), None) or script.function_of(around)
    if step is None:
        return False
    uses = list(_uses(target, step, inside, script))
    return bool(uses) and all(_is_arithmetic(one, step, script) for one in uses)


def _uses(target: ast.expr, step: ast.AST, inside: set[ast.AST], script: Script) -> Iterator[ast.expr]:
    text = ast.unparse(target)
    for node in script.work.walk(step):
        if not isinstance(node, ast.Name | ast.Attribute) or last_name(node) != last_name(target):
            continue
        if isinstance(node.ctx, ast.Load) and node not in inside and ast.unparse(node) == text:
            yield node


def _is_arithmetic(use: ast.expr, step: ast.AST, script: Script, depth: int = 3) -> bool:
    parent = script.parents.get(use)
    match parent:
        case ast.BinOp() | ast.UnaryOp():
            return True
        case ast.Subscript(value=value, slice=ast.Constant()) if value is use:
            # always the same row
            return _is_arithmetic(parent, step, script, depth)
        case ast.Assign(targets=[ast.Name() as other], value=value) if value is use and depth:
            uses = list(_uses(other, step, set(), script))
            return bool(uses) and all(_is_arithmetic(one, step, script, depth - 1) for one in uses)
        case _:
            return False
