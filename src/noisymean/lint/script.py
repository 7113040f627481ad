"""One parsed file as rules see it: what names stand for, numbers that are written down, and what stands around a node.

Names are followed inside of the file only. `dotted` gives the place that a name comes from, with `()` for what a call returned:
after `import opacus as op; engine = op.PrivacyEngine()` the function of `engine.make_private(...)` is
`opacus.PrivacyEngine().make_private`. What cannot be followed is an empty string, a number that is not known is None: a rule that
needs to know finds nothing then.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

from noisymean.lint import constants
from noisymean.lint.catalogue import RULES
from noisymean.lint.constants import Constant
from noisymean.lint.findings import Finding
from noisymean.lint.settings import Settings
from noisymean.lint.text import Text
from noisymean.probe.reading.nodes import Scope, Trail, Value, last_name
from noisymean.probe.reading.origins import DEPTH, Origins
from noisymean.probe.reading.source import OF_THE_DATA, Origin
from noisymean.probe.reading.syntax import Syntax

Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
_FOLLOWED = 12
_LARGEST = 10**15
# Most people who train with DP say so somewhere; some words are also those of others, and count where two of them meet.
_VOCABULARY = re.compile(
    r"differential(ly)?[\s_-]*priva|\bdp[-_ ]?(sgd|gd\b|gradient|adam|fedavg|ftrl|train|optim|mech|noise\b)|dpsgd|dp_sgd"
    r"|\bprivate[-_ ]?(sgd|gd|gradient|learn|train|logistic|linear|regression|erm)"
    r"|privacy|privati[sz]|make_private|noise_?mult|opacus|l2_norm_clip|\b(compute_|get_)?rdp\b|rdp_?accountant|moments?_?accountant",
    re.IGNORECASE,
)
_LICENCE = re.compile(r"copyright|licen[cs]e|https?://", re.IGNORECASE)
_HINTS = (
    re.compile(r"max_grad_norm|clip_norm|norm_clip|clipping_norm", re.IGNORECASE),
    re.compile(r"per[-_ ]?(sample|example|record)|grad_sample", re.IGNORECASE),
    re.compile(r"private_|_private\b", re.IGNORECASE),
    re.compile(r"(epsilon|eps)\b[^\n]{0,40}\bdelta\b", re.IGNORECASE),
    re.compile(r"noise_(scale|std|level)|gaussian_mechanism|sensitivity", re.IGNORECASE),
)


@final
@dataclass(frozen=True, eq=False)
class Called:
    """One call; `functools.partial(f, ...)` counts as one of f, since its arguments are fixed there."""

    name: str
    dotted: str
    arguments: tuple[ast.expr, ...]
    keywords: dict[str, ast.expr]
    node: ast.Call
    scope: Scope
    # it has **keywords whose names are not in view
    hides: bool = False

    def argument(self, position: int, *names: str) -> ast.expr | None:
        """What is handed over under one of these names, or at a position."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        plain = [one for one in self.arguments if not isinstance(one, ast.Starred)]
        return plain[position] if 0 <= position < len(plain) else None

    @property
    def owner(self) -> ast.expr | None:
        """In front of the dot."""
        return self.node.func.value if isinstance(self.node.func, ast.Attribute) else None


@final
class Script:
    """A file, with everything looked up by node."""

    def __init__(self, text: Text) -> None:
        self.text, self.tree = text, text.tree
        self.syntax = Syntax()
        self.work = self.syntax.work
        self.work.begin(text.file)
        self.syntax.add(text.file, text.tree)
        # what was followed once
        self._dotted: dict[ast.expr, str] = {}
        self._constants: dict[ast.expr, Constant | None] = {}
        self._calls_of: dict[str, list[Called]] = {}
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = [text.tree]
        for node in self.nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                self.nodes.append(child)
        # its steps were not followed statement by statement, since there is too much of them
        self.unwalked = False
        self._settings = Settings(self.syntax, self.nodes)

    def found(self, rule: str, node: ast.AST, *details: str) -> Finding:
        """A rule of the catalogue, at a node of this file."""
        return Finding(RULES[rule], self.text.place(node), details)

    # --- around a node --------------------------------------------------------------------------------------------------

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside out."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def scope_of(self, node: ast.AST) -> Scope:
        """The innermost function, class or module around a node."""
        at = next(one for one in (node, *self.ancestors(node)) if one in self.syntax.scopes)
        return self.syntax.scopes[at]

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The statement that a node is in."""
        found = next((one for one in (node, *self.ancestors(node)) if isinstance(one, ast.stmt)), None)
        return found or ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)

    def function_of(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function that a node is in; None at the top of the file."""
        around = self.ancestors(node)
        return next((one for one in around if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)), None)

    def loops_around(self, node: ast.AST) -> list[Loop]:
        """The loops of its own function that a node is in, from the inside out."""
        found: list[Loop] = []
        child = node
        for one in self.ancestors(node):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                break
            # what is looped over is worked out once
            if isinstance(one, Loop) and child is not getattr(one, "iter", None) and child not in one.orelse:
                found.append(one)
            child = one
        return found

    @cached_property
    def statements_at(self) -> dict[int, ast.stmt]:
        """By the line on which they begin; of several the innermost."""
        return {one.lineno: one for one in self.nodes if isinstance(one, ast.stmt)}

    # --- names ----------------------------------------------------------------------------------------------------------

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Names of this file that are imported, wherever that is done."""
        found: dict[str, str] = {}
        for node in self.nodes:
            match node:
                case ast.Import(names=names):
                    for one in names:
                        found[one.asname or one.name.partition(".")[0]] = (
                            one.name if one.asname else one.name.partition(".")[0]
                        )
                case ast.ImportFrom(module=module, names=names):
                    for one in names:
                        found[one.asname or one.name] = f"{module or ''}.{one.name}"
        return found

    @cached_property
    def modules(self) -> frozenset[str]:
        """Everything that is imported, by its dotted name."""
        found: set[str] = set()
        for node in self.nodes:
            match node:
                case ast.Import(names=names):
                    found.update(one.name for one in names)
                case ast.ImportFrom(module=str() as module):
                    found.add(module)
        return frozenset(found)

    def imports(self, *packages: str) -> bool:
        """Whether any of these packages is imported."""
        return any(one.partition(".")[0] in packages for one in self.modules)

    def dotted(self, node: ast.expr, scope: Scope, depth: int = _FOLLOWED) -> str:
        """Where a name comes from; empty where that is not in view."""
        self.work.spend()
        if depth <= 0:
            return ""
        if node not in self._dotted:
            # what leads back to itself leads nowhere
            self._dotted[node] = ""
            self._dotted[node] = self._follow(node, scope, depth)
        return self._dotted[node]

    def _follow(self, node: ast.expr, scope: Scope, depth: int) -> str:
        match node:
            case ast.Name(id=name):
                return self._dotted_name(name, scope, depth)
            case ast.Attribute(attr=name, value=owner):
                around = self.dotted(owner, scope, depth - 1)
                if around and not around.startswith("self"):
                    return f"{around}.{name}"
                return self._first(self.syntax.attributes(node, scope), depth) or (f"{around}.{name}" if around else "")
            case ast.Call(func=function):
                called = self.dotted(function, scope, depth - 1)
                if last_name(function) in self.syntax.defined and not isinstance(function, ast.Attribute):
                    made = self._first(self.syntax.returned.get(last_name(function), []), depth)
                    called = "" if made else called
                    return made or f"{called}()"
                return f"{called}()" if called else ""
            case ast.Constant(value=str() as name) if re.fullmatch(r"[\w.]+", name):
                # an annotation in quotes
                return self.aliases.get(name.partition(".")[0], "")
            case ast.BinOp(op=ast.BitOr(), left=left) | ast.Subscript(slice=ast.expr() as left):
                return self.dotted(left, scope, depth - 1)
            case _:
                return ""

    def _dotted_name(self, name: str, scope: Scope, depth: int) -> str:
        at = scope.visible(name)
        if at is not None:
            # torch.normal(0, s) binds nothing
            found = self._first([one for one in at.assigned.get(name, []) if not self._is_put_into(name, one)], depth)
            if not found and name in at.parameters() and at.function is not None:
                found = self._annotated(name, at, depth) or self._first(self.syntax.passed(name, at), depth)
            if found:
                return found
        return self.aliases.get(name, "self" if name in ("self", "cls") else "")

    def bound(self, name: str, scope: Scope) -> tuple[Scope | None, list[Value]]:
        """The innermost scope that binds a name, and to what; `rng.normal(0, 1)` puts something into rng and binds nothing."""
        for at in scope.outwards():
            values = [one for one in at.assigned.get(name, []) if not self._is_put_into(name, one)]
            if values or name in at.parameters() or name in at.looped:
                return at, values
        return None, []

    def _is_put_into(self, name: str, value: Value) -> bool:
        self.work.spend()
        told = value.expression
        around = told if isinstance(told, ast.Call) and _is_of(told, name) else self.parents.get(told)
        return isinstance(around, ast.Call) and _is_of(around, name)

    def _annotated(self, name: str, scope: Scope, depth: int) -> str:
        arguments = scope.function.args if scope.function is not None else None
        given = [] if arguments is None else [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        said = next((one.annotation for one in given if one.arg == name), None)
        kind = "" if said is None else self.dotted(said, scope, depth - 1)
        return f"{kind}()" if kind else ""

    def _first(self, values: list[Value], depth: int) -> str:
        """The first of several values that is known."""
        whole = [one for one in values if one.index is None]
        return next(filter(None, (self.dotted(one.expression, one.scope, depth - 2) for one in whole if depth > 2)), "")

    # --- calls ----------------------------------------------------------------------------------------------------------

    @cached_property
    def calls(self) -> list[Called]:
        """All calls, in the order of their lines."""
        found = []
        for several in self.syntax.calls.values():
            for call, scope in several:
                function, arguments = call.func, tuple(call.args)
                if last_name(function) == "partial" and arguments:
                    function, arguments = arguments[0], arguments[1:]
                keywords, hides = self._keywords(call, scope)
                dotted = self.dotted(function, scope)
                name = self._own_name(function, dotted)
                found.append(Called(name, dotted, arguments, keywords, call, scope, hides))
        return sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset))

    def _own_name(self, function: ast.expr, dotted: str) -> str:
        """What a function is called where it comes from: after `from opacus import PrivacyEngine as PE` that is what PE is."""
        name = last_name(function)
        known = isinstance(function, ast.Name) and not self.syntax.defined[name] and not dotted.endswith(")")
        return (dotted.rpartition(".")[2] or name) if known else name

    @cached_property
    def call_at(self) -> dict[ast.AST, Called]:
        """The same by their nodes."""
        return {one.node: one for one in self.calls}

    def calls_of(self, names: str) -> Iterator[Called]:
        """Calls of functions whose last name matches."""
        if names not in self._calls_of:
            pattern = re.compile(names)
            self.work.spend(len(self.calls))
            self._calls_of[names] = [one for one in self.calls if pattern.fullmatch(one.name)]
        self.work.spend(len(self._calls_of[names]))
        return iter(self._calls_of[names])

    def _keywords(self, call: ast.Call, scope: Scope) -> tuple[dict[str, ast.expr], bool]:
        """By name, those of a dictionary that is unpacked included."""
        found: dict[str, ast.expr] = {}
        hides = False
        for one in call.keywords:
            if one.arg is not None:
                found[one.arg] = one.value
                continue
            entries = self._settings.entries(one.value, scope)
            hides = hides or entries is None
            found = {**(entries or {}), **found}
        return found, hides

    # --- numbers --------------------------------------------------------------------------------------------------------

    def constant(self, node: ast.expr | None, scope: Scope, depth: int = _FOLLOWED) -> Constant | None:
        """What an expression always is, if that is written down in this file; options of a command line are not."""
        self.work.spend()
        if node is None or depth <= 0:
            return None
        if node not in self._constants:
            self._constants[node] = None
            self._constants[node] = self._worked_out(node, scope, depth)
        return self._constants[node]

    def _worked_out(self, node: ast.expr, scope: Scope, depth: int) -> Constant | None:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=inside):
                negated = self.constant(inside, scope, depth - 1)
                return -negated if isinstance(negated, int | float) else None
            case ast.UnaryOp(op=ast.Not(), operand=inside):
                denied = self.constant(inside, scope, depth - 1)
                return None if denied is None else not denied
            case ast.BinOp(left=left, op=operator, right=right):
                sides = (self.constant(one, scope, depth - 1) for one in (left, right))
                return constants.arithmetic(operator, *sides)
            case ast.Call(func=function, args=arguments, keywords=[]) if last_name(function) in constants.CALLS:
                module = isinstance(function, ast.Attribute) and self.syntax.is_module(function.value)
                if self.syntax.defined[last_name(function)] or not (module or isinstance(function, ast.Name)):
                    return None
                return constants.called(
                    last_name(function), [self.constant(one, scope, depth - 1) for one in arguments]
                )
            case ast.Name(id=name) if (at := scope.visible(name, looped=False)) is not None:
                values = at.assigned.get(name, [])
                if name in at.parameters():
                    values = [*values, *self._passed(name, at)]
                return self._only(values, depth)
            case ast.Attribute(attr=name):
                values = [*self.syntax.attributes(node, scope), *self._of_classes(name)]
                return self._only(values, depth)
            case ast.Subscript(value=ast.Name() as settings, slice=ast.Constant(value=str() as key)):
                return self.constant((self._settings.entries(settings, scope) or {}).get(key), scope, depth - 1)
            case _:
                return None

    def _of_classes(self, name: str) -> list[Value]:
        """What classes say about an attribute of that name, and what those who make their objects, or copies of them, say."""
        found: list[Value] = []
        for scope in self._class_scopes:
            if scope.function is None and name not in self.syntax.fields:
                found += scope.assigned.get(name, [])
        for owner, position in self.syntax.fields.get(name, []):
            if owner in self.syntax.handed_on or owner not in self.syntax.calls:
                # whoever is handed the class, a command line for one, may make it with anything
                found.append(Value(ast.Name(owner, ast.Load()), scope=self.syntax.scopes[self.tree]))
            for call, at in self.syntax.calls.get(owner, []):
                self.work.spend()
                given = next((one.value for one in call.keywords if one.arg == name), None)
                hides = any(one.arg is None for one in call.keywords) or any(
                    isinstance(one, ast.Starred) for one in call.args
                )
                if given is None and position < len(call.args):
                    given = call.args[position]
                if given is not None or hides:
                    # what is unpacked may be anything: no constant
                    found.append(Value(given or call, at))
        if name in self.syntax.fields:
            copies = ("replace", "evolve", "_replace", "model_copy")
            found += [value for call, value in self.syntax.keywords.get(name, []) if last_name(call.func) in copies]
        return found

    @cached_property
    def _class_scopes(self) -> list[Scope]:
        return [scope for node, scope in self.syntax.scopes.items() if isinstance(node, ast.ClassDef)]

    def number(self, node: ast.expr | None, scope: Scope) -> int | float | None:
        """A number that is always the same, or the default of an option of the command line."""
        value = self.constant(node, scope)
        if value is None and isinstance(node, ast.Attribute | ast.Name):
            given = node if isinstance(node, ast.Attribute) else self._alias_of(node, scope)
            value = None if given is None else self.options.get(given.attr)
            if value is None and given is not None and given.attr in self.syntax.fields:
                value = self._only(self.syntax.attributes(given, scope), _FOLLOWED)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def whole(self, node: ast.expr | None, scope: Scope) -> int | None:
        """The same, if it is a positive whole number."""
        value = self.number(node, scope)
        return int(value) if value is not None and 0 < value < _LARGEST and value == int(value) else None

    def _alias_of(self, node: ast.Name, scope: Scope) -> ast.Attribute | None:
        """The attribute that a name is another name of."""
        at = scope.visible(node.id)
        values = [] if at is None else at.assigned.get(node.id, [])
        one = values[0].expression if len(values) == 1 else None
        return one if isinstance(one, ast.Attribute) else None

    def _only(self, values: list[Value], depth: int) -> Constant | None:
        found = {
            None if one.index is not None else self.constant(one.expression, one.scope, depth - 1) for one in values[:9]
        }
        return found.pop() if len(found) == 1 and len(values) < 9 else None

    def _passed(self, name: str, scope: Scope) -> list[Value]:
        """What a parameter is in the calls that are in view; its default only where one of these leaves it out."""
        calls = self.syntax.calls.get(scope.called, []) if scope.called else []
        given = self.syntax.passed(name, scope)
        return given if len(given) >= len(calls) else [*given, *self._default(name, scope)]

    def _default(self, name: str, scope: Scope) -> list[Value]:
        """What a parameter is if nobody says otherwise."""
        if scope.function is None:
            return []
        given = scope.function.args
        plain = [*given.posonlyargs, *given.args]
        pairs = [*zip(plain[len(plain) - len(given.defaults) :], given.defaults, strict=True)]
        pairs += [
            (one, value) for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None
        ]
        return [Value(value, scope.parent or scope) for one, value in pairs if one.arg == name]

    @cached_property
    def options(self) -> dict[str, Constant]:
        """Defaults of options of the command line: argparse, click and absl flags, by the name of the attribute."""
        found: dict[str, Constant] = {}
        for one in self.calls_of(r"add_argument|option|DEFINE_\w+"):
            said = [arg.value for arg in one.arguments if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if not said:
                continue
            flag = one.name.startswith("DEFINE")
            name = said[0] if flag else max(said, key=len).lstrip("-").replace("-", "_")
            value = one.argument(1 if flag else -1, "default")
            known = self.constant(value, one.scope)
            if known is not None:
                found[name] = known
        return found

    # --- sizes ----------------------------------------------------------------------------------------------------------

    def origins(self, node: ast.expr, scope: Scope) -> set[Origin]:
        """Where a number comes from, followed through this file."""
        try:
            return Origins(self.syntax, scope).of(Value(node, scope), Trail(DEPTH))
        except RecursionError:
            return {Origin.UNKNOWN}

    def is_of_the_data(self, node: ast.expr, scope: Scope) -> bool:
        """Whether one record more may change a number."""
        return bool(self.origins(node, scope) & OF_THE_DATA)

    @cached_property
    def speaks_of_privacy(self) -> bool:
        """Whether anything in the file, its comments included, is about DP."""
        # a licence names its holders, not what the code does
        source = "\n".join(one.text for one in self.text.lines if not _LICENCE.search(one.text))
        return bool(_VOCABULARY.search(source)) or sum(bool(one.search(source)) for one in _HINTS) >= 2


def _is_of(call: ast.Call, name: str) -> bool:
    """A method of what has this name."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id == name
