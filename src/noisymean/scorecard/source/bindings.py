"""Names that are given a value once, and numbers that are written down.

Believed is only what no line of the file speaks against: a name that is bound once in all of the file, at the top of it or of its
function, and that no other file sets from outside. A name that is bound twice is not followed, whichever comes first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import final

from noisymean.lint.constants import arithmetic
from noisymean.lint.script import Script

# `module.NAME = ...` in any file may be meant for this one
_SET_FROM_OUTSIDE = (
    # and `module.NAME += ...`, `module.NAME: float = ...`
    rb"\.([A-Za-z_]\w*)\s*(?::[^=\n]*)?(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)",
    # `module.NAME, other = ...`, `for module.NAME in ...`, `with ... as module.NAME`
    rb"\.([A-Za-z_]\w*)\s*,[^=\n()]*=(?!=)",
    rb"\b(?:for|as)\b[^\n=()]*?\.([A-Za-z_]\w*)",
    # `setattr(module, "NAME", ...)`, `vars(module)["NAME"] = ...`
    rb"setattr\w*\s*\([^\n]*?[\"'](?:[\w.]*\.)?([A-Za-z_]\w*)[\"']",
    rb"(?:vars|globals)\s*\([^\n]*?\)\s*\[\\?[\"']([A-Za-z_]\w*)",
    rb"__dict__\s*\[\\?[\"']([A-Za-z_]\w*)",
)
_FROM_OUTSIDE = tuple(re.compile(one) for one in _SET_FROM_OUTSIDE)
# `DPOptimizer.step = ...`, `setattr(optimizers.DPOptimizer, "step", ...)`: what all objects of a class have from then on
_OF_A_CLASS = (
    re.compile(rb"\b[A-Z]\w*\.([A-Za-z_]\w*)\s*=(?!=)"),
    re.compile(rb"setattr\s*\(\s*(?:\w+\.)*[A-Z]\w*\s*,\s*[\"']([A-Za-z_]\w*)"),
)
_SET_BY_TEXT = re.compile(r"exec|eval|setattr|globals|locals|vars|__import__|import_module|reload|patch|load_module")
# Calls of `anything.NAME` that may set whatever they are told; `model.eval()` is none of them.
_SETTERS = frozenset(
    {
        *(
            "reload",
            "patch",
            "import_module",
            "exec",
            "setattr",
            "delattr",
            "__setattr__",
            "__delattr__",
            "load_module",
        ),
        "setitem",
    }
)
_DEEPEST = 12
# So many nodes are looked at in the time in which a value is followed by one step.
_AT_ONCE = 20


@final
class Bindings:
    """All names of one file, and the statements that give them a value."""

    def __init__(self, script: Script, outside: frozenset[str] = frozenset()) -> None:
        self.script, self._outside = script, outside

    def changed_outside(self, names: frozenset[str]) -> str | None:
        """One of these names, if another file sets an attribute that is called so."""
        return next(iter(sorted(self._outside & names)), None)

    def is_set_outside(self, *texts: str) -> bool:
        """Whether another file may set a name that is in one of these expressions."""
        return any(name in self._outside for text in texts for name in re.findall(r"[A-Za-z_]\w*", text))

    @cached_property
    def by_text(self) -> bool:
        """Whether names may be set in a way that is not seen: by their text, or in the cells of a notebook, in any order."""
        if any(one.cell is not None for one in self.script.text.lines):
            return True
        calls = (one for one in self.script.nodes if isinstance(one, ast.Call))
        named = any(
            (isinstance(one.func, ast.Name) and bool(_SET_BY_TEXT.fullmatch(one.func.id)))
            or (isinstance(one.func, ast.Attribute) and (one.func.attr in _SETTERS or _is_patch(one.func.value)))
            for one in calls
        )
        starred = any(
            isinstance(one, ast.ImportFrom) and any(name.name == "*" for name in one.names) for one in self.script.nodes
        )
        attributes = any(
            isinstance(one, ast.Attribute)
            and (one.attr == "__dict__" or (one.attr == "modules" and self.script.syntax.is_module(one.value)))
            for one in self.script.nodes
        )
        return named or starred or attributes

    def scan(self) -> list[ast.AST]:
        """All nodes of the file. To look at all of them is work, and there is a limit to that in each file."""
        self.script.work.spend(len(self.script.nodes) // _AT_ONCE + 1)
        return self.script.nodes

    @cached_property
    def _bound(self) -> dict[str, list[ast.AST]]:
        found: dict[str, list[ast.AST]] = {}
        for node in self.script.nodes:
            for name in _bound_by(node):
                found.setdefault(name, []).append(node)
        return found

    def nodes(self, name: str) -> list[ast.AST]:
        """Everything in the file that binds a name, in any scope."""
        return self._bound.get(name, [])

    def imported(self, name: str) -> bool:
        """Whether a name is that of an import and of nothing else."""
        bound = self.nodes(name)
        return bool(bound) and all(isinstance(one, ast.alias) for one in bound) and len(bound) == 1

    def comes_from(self, node: ast.expr, *places: str) -> bool:
        """Whether a function is one of an imported package, under a name that nothing else has."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or not self.imported(root.id) or self.by_text:
            return False
        return self.script.dotted(node, self.script.scope_of(node)) in places

    def is_builtin(self, name: str) -> bool:
        """Whether nobody in the file has given it another meaning."""
        return not self.nodes(name) and not self.by_text

    def value(self, name: ast.expr) -> ast.expr | None:
        """What a name is, if it is bound once in the file, outside of loops and conditions; None where that is not so."""
        if not isinstance(name, ast.Name) or self.by_text:
            return None
        bound = self.nodes(name.id)
        if len(bound) != 1 or name.id in self._outside:
            return None
        statement = self.script.parents.get(bound[0])
        match statement:
            case (
                ast.Assign(targets=[ast.Name()], value=value)
                | ast.AnnAssign(target=ast.Name(), value=ast.expr() as value)
            ):
                at, here = self.script.scope_of(statement), self.script.scope_of(name)
                # a name of another function is another name
                seen = at in tuple(here.outwards())
                return value if seen and self.is_plain(statement) else None
            case _:
                return None

    def is_plain(self, statement: ast.AST) -> bool:
        """Whether a statement runs each time that its function does, or that the file does: under no condition, in no loop."""
        child = statement
        for one in self.script.ancestors(statement):
            match one:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Module():
                    return True
                case ast.With() | ast.AsyncWith():
                    pass
                case ast.If(test=test) if is_main(test) and child in one.body:
                    pass
                case _:
                    return False
            child = one
        return False

    def number(self, node: ast.expr | None, depth: int = _DEEPEST) -> float | None:
        """A number that is written down, or worked out from such numbers."""
        if node is None or depth == 0:
            return None
        match node:
            case ast.Constant(value=int() | float() as written) if not isinstance(written, bool):
                return float(written) if abs(written) < 1e300 else None
            case ast.UnaryOp(op=ast.USub(), operand=inside):
                found = self.number(inside, depth - 1)
                return None if found is None else -found
            case ast.BinOp(left=left, op=operator, right=right):
                return _worked_out(operator, self.number(left, depth - 1), self.number(right, depth - 1))
            case ast.Name():
                value = self.value(node)
                return None if value is None else self.number(value, depth - 1)
            case _:
                return None

    def is_quotient(self, node: ast.expr | None, depth: int = _DEEPEST) -> bool:
        """Whether a number that is written down is written as one over another or as its power, here or behind a name."""
        match node:
            case ast.BinOp(op=ast.Div()):
                return True
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                # 60_000 ** -1.1, but not 10 ** -5
                return self.number(left, depth) != 10.0
            case ast.BinOp(left=left, right=right) if depth:
                return self.is_quotient(left, depth - 1) or self.is_quotient(right, depth - 1)
            case ast.Name() if depth:
                return self.is_quotient(self.value(node), depth - 1)
            case _:
                return False

    def rate(self, node: ast.expr | None) -> float | None:
        """A number, or one that is written as text, as in sample_rate="1/100"."""
        match node:
            case ast.Constant(value=str() as text):
                above, _, below = text.partition("/")
                try:
                    return float(above) / float(below or 1)
                except (ValueError, ZeroDivisionError):
                    return None
            case ast.Name() if isinstance(value := self.value(node), ast.Constant):
                return self.rate(value)
            case _:
                return self.number(node)


def set_from_outside(data: bytes) -> set[str]:
    """The names of attributes that the text of a file may set; those of a class once more, with a dot before them."""
    names = {name.decode("ascii", "replace") for one in _FROM_OUTSIDE for name in one.findall(data)}
    return names | {f".{name.decode('ascii', 'replace')}" for one in _OF_A_CLASS for name in one.findall(data)}


def _is_patch(owner: ast.expr) -> bool:
    """`patch.object`, `mock.patch.dict`."""
    return (isinstance(owner, ast.Attribute) and owner.attr == "patch") or (
        isinstance(owner, ast.Name) and owner.id in ("patch", "builtins")
    )


def is_main(test: ast.expr) -> bool:
    """`__name__ == "__main__"`."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return True
        case _:
            return False


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node gives a value, takes it away from or declares to be those of another scope."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0]
        case (
            ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name)
        ):
            yield name
        case ast.MatchMapping(rest=str() as name):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case _:
            pass


def _worked_out(operator: ast.operator, left: float | None, right: float | None) -> float | None:
    found = arithmetic(operator, left, right)
    return found if isinstance(found, int | float) else None
