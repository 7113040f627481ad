"""Every function of a file that nobody in it calls, and what these call."""

from __future__ import annotations

import ast

from noisymean.lint.script import Script
from noisymean.lint.walked.frames import Env, Frame, Lost
from noisymean.lint.walked.sums import Seen
from noisymean.lint.walked.walker import Walker


def walked(script: Script) -> tuple[list[Seen], Walker]:
    """What happens in each, as far as it is understood; nothing of a file that has more than anybody follows, which says so."""
    walker = Walker(script)
    found: list[Seen] = []
    try:
        top = Frame({}, None)
        found.append(walker.root(script.tree, top))
        for function in _called_last(script):
            if function not in walker.called:
                frame = Frame(_own(function, script, walker, top), top)
                found.append(walker.root(function, frame))
        while walker.pending:
            inner, around = walker.pending.pop(0)
            if inner not in walker.called:
                found.append(walker.root(inner, Frame({}, around)))
    except (Lost, RecursionError):
        script.unwalked = True
        return [], walker
    return found, walker


def _called_last(script: Script) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods of the file; those that others call come after these, which take them along."""
    every = [one for one in script.nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    outer = [one for one in every if isinstance(script.parents.get(one), ast.Module | ast.ClassDef)]
    free = [one for one in outer if not script.syntax.calls.get(one.name) and one.name != "__init__"]
    return [*free, *(one for one in outer if one not in free and one.name != "__init__")]


def _own(function: ast.FunctionDef | ast.AsyncFunctionDef, script: Script, walker: Walker, top: Frame) -> Env:
    """What an object has since it was made."""
    around = script.parents.get(function)
    if not isinstance(around, ast.ClassDef):
        return {}
    made = next((one for one in around.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    if made is None:
        return {}
    frame = Frame({}, top)
    walker.root(made, frame)
    return {name: thing for name, thing in frame.env.items() if name.startswith("self.")}
