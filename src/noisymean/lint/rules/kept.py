"""Noise that is drawn once and kept: in a cache, or on an object that asks whether it has some already."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.rules import followed
from noisymean.lint.script import Script
from noisymean.probe.reading.nodes import names_in


def kept(script: Script) -> Iterator[ast.expr]:
    """Drawn by a function whose results are cached, or only where none is kept yet: `if self.noise is None`."""
    for draw in followed.draws(script):
        function = script.function_of(draw)
        told = [] if function is None else [names_in(one) for one in function.decorator_list]
        if any(
            re.fullmatch(r"lru_cache|cache|cached|memoize|cached_property", name) for names in told for name in names
        ):
            yield draw
        statement = script.statement_of(draw)
        around = script.parents.get(statement)
        if isinstance(around, ast.If) and statement in around.body and isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if _is_missing(around.test, target) and not _is_dropped(target, function, script):
                yield draw


def _is_missing(test: ast.expr, target: ast.expr) -> bool:
    """Whether a test asks for what is not there yet: `x is None`, `key not in kept`, `not hasattr(self, "x")`."""
    kept = target.value if isinstance(target, ast.Subscript) else target
    match test:
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            return ast.unparse(left) in (ast.unparse(target), ast.unparse(kept))
        case ast.Compare(ops=[ast.NotIn()], comparators=[several]):
            return ast.unparse(several) == ast.unparse(kept)
        case ast.UnaryOp(
            op=ast.Not(), operand=ast.Call(func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=name)])
        ):
            return isinstance(target, ast.Attribute) and target.attr == name
        case ast.BoolOp(op=ast.Or(), values=values):
            return False if len(values) > 1 else _is_missing(values[0], target)
        case _:
            return False


def _is_dropped(target: ast.expr, function: ast.AST | None, script: Script) -> bool:
    """Whether what is kept is taken away again, anywhere but where the object is made."""
    text = ast.unparse(target.value if isinstance(target, ast.Subscript) else target)
    for node in script.nodes:
        match node:
            case ast.Assign(targets=targets, value=value) if any(ast.unparse(one) == text for one in targets):
                around = script.function_of(node)
                anew = isinstance(value, ast.Constant | ast.Dict)
                if anew and around is not None and around.name != "__init__":
                    return True
            case ast.Delete(targets=targets) if any(ast.unparse(one).startswith(text) for one in targets):
                return True
            case ast.Call(func=ast.Attribute(attr="clear" | "pop", value=owner)) if ast.unparse(owner) == text:
                return True
            case _:
                pass
    return False
