"""Rounds of a run: what is the same in all of them, and what was released in earlier ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.rules.noise import noise_of
from noisymean.lint.script import Loop, Script
from noisymean.probe.reading.flow import Contents
from noisymean.probe.reading.nodes import Scope, Value, last_name, names_in

_ROUNDS = re.compile(r"loader|epochs?|steps?$|iter|rounds?$|^T$|batches|dataset", re.IGNORECASE)
_COLLECTS = ("append", "appendleft", "extend")


def is_round(loop: ast.AST) -> bool:
    """A loop over rounds, not over the parts of one."""
    over = loop.test if isinstance(loop, ast.While) else getattr(loop, "iter", None)
    if over is None:
        return False
    return isinstance(loop, ast.While) or any(map(_ROUNDS.search, names_in(over)))


def rounds_around(node: ast.AST, script: Script) -> list[Loop]:
    """The loops over rounds of its own function that a node is in."""
    return [loop for loop in script.loops_around(node) if is_round(loop)]


def is_bound_in(name: str, scope: Scope, loop: Loop) -> bool:
    """Whether a name gets a value inside of a loop, or is what it goes through."""
    first, last = loop.lineno, loop.end_lineno or loop.lineno
    lines = [one.line for one in scope.assigned.get(name, [])]
    lines += [one.expression.lineno for one in scope.looped.get(name, [])]
    return any(first <= line <= last for line in lines)


def is_released(node: ast.AST, script: Script) -> bool:
    """Whether what is divided at a statement is a list that earlier rounds have put something noisy into, each one."""
    collected = _collected(script)
    scope = script.scope_of(node)
    places: list[tuple[str, Scope]] = []
    for name in names_in(node):
        places.append((name, scope))
        at = scope.visible(name)
        for given in script.syntax.passed(name, at) if at is not None and name in at.parameters() else []:
            # a function that takes the mean of what it is handed
            places += [(each, given.scope) for each in names_in(given.expression)]
    return any(
        _is_kept(name, call, place, script) for name, place in places[:20] for call in collected.get(name, [])[:5]
    )


def _is_kept(name: str, call: ast.Call, place: Scope, script: Script) -> bool:
    """Whether a list gets one more in every round, and is not begun anew: what one round collects is of that round."""
    there = script.scope_of(call)
    attribute = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Attribute)
    same = (bool(place.owner) and there.owner == place.owner) if attribute else there.function is place.function
    loops = script.loops_around(call)
    if not same or not loops or not is_round(loops[0]) or _starts_in(name, there, loops[0]):
        return False
    return _is_noisy(call, script)


def _collected(script: Script) -> dict[str, list[ast.Call]]:
    """The calls that put something into a list, by its name."""
    found: dict[str, list[ast.Call]] = {}
    for call in script.calls_of("|".join(_COLLECTS)):
        if call.owner is not None and len(call.arguments) == 1:
            found.setdefault(last_name(call.owner), []).append(call.node)
    return found


def _starts_in(name: str, scope: Scope, loop: Loop) -> bool:
    """Whether a list is begun anew in every round."""
    at = scope.visible(name)
    first, last = loop.lineno, loop.end_lineno or loop.lineno
    begun = [] if at is None else [one for one in at.assigned.get(name, []) if _is_new(one)]
    return any(first <= one.line <= last for one in begun)


def _is_new(value: Value) -> bool:
    match value.expression:
        case ast.List() | ast.ListComp():
            return True
        case ast.Call(func=function):
            return last_name(function) in ("list", "deque")
        case _:
            return False


def _is_noisy(call: ast.Call, script: Script) -> bool:
    """Whether what is put into a list has noise in it."""
    flow = noise_of(script).flow
    return any(flow.of(Value(one, script.scope_of(call))) is Contents.NOISE for one in call.args)


def names_behind(node: ast.expr, scope: Scope, script: Script, depth: int) -> Iterator[str]:
    """The names in an expression, and in what they are assigned."""
    for name in names_in(node):
        script.work.spend()
        yield name
        at = scope.visible(name, looped=False) if depth else None
        for value in [] if at is None else at.assigned.get(name, [])[:3]:
            yield from names_behind(value.expression, value.scope, script, depth - 2 if depth > 1 else 0)
