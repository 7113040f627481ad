"""What a noisy mean is divided by, in code of one's own: the statements of the reader, in a file that trains with DP."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules import followed, rows
from noisymean.lint.rules.noise import Addition, noise_of
from noisymean.lint.rules.rounds import is_released, names_behind
from noisymean.lint.script import Script
from noisymean.probe.reading.candidates import Candidates
from noisymean.probe.reading.nodes import last_name, names_in
from noisymean.probe.reading.source import OF_THE_DATA, Origin, Role, Statement

# The worst of several comes first.
_RULES = {
    Origin.BATCH: "NM021",
    Origin.FLOOR: "NM023",
    Origin.EXPECTED: "NM022",
    Origin.DATASET: "NM024",
}

# 1 + decay * t and 1 - beta ** t, which lengthen or shorten a step.
_SCHEDULE = re.compile(r"\(?1(\.0)? [+-] [^+]*\*[^+]*\)?")
# Adam and its like divide by the root of what they remember of the squares.
_ADAPTIVE = re.compile(r"\(?([\w.]*sqrt\((?!.*\blen\().+\)|[\w.\[\]]+\.sqrt\(\)) \+ .+")
# Data that everybody may see, by what is made of it.
_PUBLIC = re.compile(r"^pub(lic)?_?(grad|mean|batch|data|sum|update|delta|loss|model|param|weight)", re.IGNORECASE)


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
    beside = {script.statement_of(one) for one in (*followed.moved(script), *followed.computed(script))}
    beside |= followed.cancelled(script)
    for one in sorted(Candidates(script.syntax).statements(), key=lambda one: (one.role is Role.NOISE, one.line)):
        rule = _rule(one)
        if rule is None or one.line in seen:
            continue
        node = script.statements_at.get(one.line, script.tree)
        if node in beside:
            # a mean that is taken off, and no noisy one; or one that is a sum again before there is noise
            continue
        if (one.noisy or _gets_noise(node, script)) and not _is_another(one, node, script):
            if rule == "NM021" and OF_THE_DATA & set(one.origins) == {Origin.BATCH}:
                # rows that are the same in every round are not those of a batch
                rule = _RULES[rows.counted(one.by, node, script)]
            place = (script.function_of(node), rule)
            of_noise = one.role is Role.NOISE or node in scaled
            if of_noise and place in done:
                continue
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
    results = _results(node) | (set() if function is None else {function.name})
    for one in noise_of(script).additions:
        if function is not None and one.scope.function is function:
            return True
        if results & set(names_behind(one.gradient, one.scope, script, 6)):
            return True
    return False


def _is_another(one: Statement, node: ast.AST, script: Script) -> bool:
    """Whether it is no noisy mean after all: of what was released in earlier rounds, or where nothing is private."""
    if is_released(node, script) or _SCHEDULE.fullmatch(one.by) or _is_public(node, script):
        return True
    if _ADAPTIVE.fullmatch(one.by):
        return True
    function = script.function_of(node)
    own = [each for each in noise_of(script).additions if each.scope.function is function and function is not None]
    return bool(own) and all(_excludes(node, each, one, script) for each in own)


def _is_public(node: ast.AST, script: Script) -> bool:
    """Whether the result is called public, or goes into a list that is."""
    results = _results(node)
    collected = [
        last_name(one.owner)
        for one in script.calls_of("append|extend")
        if one.owner is not None
        and one.arguments
        and results & set(names_in(one.arguments[0]))
        and one.scope is script.scope_of(node)
    ]
    return any(map(_PUBLIC.search, (*results, *collected)))


def _results(node: ast.AST) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {name for one in targets if isinstance(one, ast.expr) for name in names_in(one)}


def _excludes(node: ast.AST, addition: Addition, one: Statement, script: Script) -> bool:
    """Whether a run that comes by a node does not come by an addition of noise: they are in two branches."""
    child = node
    for around in script.ancestors(node):
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        branches: list[list[ast.AST]] = []
        match around:
            case ast.If(body=body, orelse=orelse):
                branches = [[*body], [*orelse]]
            case ast.IfExp(body=chosen, orelse=otherwise):
                branches = [[chosen], [otherwise]]
        for own in (branch for branch in branches if child in branch):
            other = branches[branches[0] is own]
            inside = {each for part in own for each in script.work.walk(part)}
            there = any(addition.node in script.work.walk(part) for part in other)
            leaves = isinstance(own[-1], ast.Return) and addition.node not in script.work.walk(around)
            quiet = not any(_is_noise(each) for each in inside)
            if addition.node not in inside and (there or leaves) and (quiet or not one.noisy):
                return True
        child = around
    return False


def _is_noise(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and any("nois" in name for name in names_in(node))


EACH = (divides,)
