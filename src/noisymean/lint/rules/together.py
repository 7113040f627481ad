"""Which functions of a file belong together: one step of a training is often spread over several.

A function leads to those that it names, whether it calls them or hands them on, and to those that stand in it. Two functions
belong together if something in the file leads to both. Names are compared, so more may be taken together than does. What may be
called is more than that: by the name of an object whatever its class has, by a parameter whatever is handed over for it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import final

from noisymean.lint.script import Script
from noisymean.probe.reading.nodes import Scope, last_name, names_in

_MOST_CALLS = 9


@final
class Together:
    """The functions of one file, by what leads to what."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._named: dict[str, list[Scope]] = {}
        scopes = script.syntax.scopes
        for node, scope in scopes.items():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._named.setdefault(node.name, []).append(scope)
        # objects and their classes, by the names of variables and attributes
        self._objects: dict[str, list[Scope]] = {}
        self._classes = {node.name for node in scopes if isinstance(node, ast.ClassDef)}
        for node in script.nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    self._made(targets, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._made([target], value)
                case _:
                    pass
        self._inside: dict[Scope, list[Scope]] = {}
        for node, scope in scopes.items():
            if scope.parent is None:
                continue
            # what stands at the top of a file is not one thing for that; what is called when a class is, is part of it
            around = scope.parent
            if around.parent is not None or isinstance(node, ast.Lambda):
                self._inside.setdefault(around, []).append(scope)
        self._towards: dict[Scope, set[Scope]] = {}
        for scope in scopes.values():
            for other in self._leads_to(scope):
                self._towards.setdefault(other, set()).add(scope)
        self._found: dict[Scope, frozenset[Scope]] = {}

    def _made(self, targets: list[ast.expr], value: ast.expr) -> None:
        """`bound = Bound(1.0)`, `self.bound, self.lot = Bound(1.0), lot`."""
        for target in targets:
            match target, value:
                case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                    for one, each in zip(names, values, strict=True):
                        self._made([one], each)
                case ast.Name() | ast.Attribute(), ast.Call(func=function) if last_name(function) in self._classes:
                    made = self._objects.setdefault(last_name(target), [])
                    made += [one for one in self._named[last_name(function)] if one not in made]
                case _:
                    pass

    def _handed(self, scope: Scope) -> Iterator[Scope]:
        """What the calls of a function hand over to it."""
        for parameter in scope.parameters():
            for value in self.script.syntax.passed(parameter, scope)[:_MOST_CALLS]:
                if isinstance(value.expression, ast.Lambda):
                    yield self.script.syntax.scopes[value.expression]
                for name in names_in(value.expression):
                    yield from (*self._named.get(name, ()), *self._objects.get(name, ()))

    def _may_call(self, scope: Scope) -> list[Scope]:
        """All that a function leads to, by objects and parameters as well."""
        of_objects = [one for name in scope.names for one in self._objects.get(name, ())]
        self.script.work.spend(len(of_objects) + 1)
        return [*self._leads_to(scope), *of_objects, *self._handed(scope)]

    def _leads_to(self, scope: Scope) -> list[Scope]:
        found = list(self._inside.get(scope, ()))
        for name in scope.names:
            several = self._named.get(name, ())
            self.script.work.spend(len(several) + 1)
            found += several
        return [one for one in found if one is not scope]

    def called(self, node: ast.AST, *, alone: bool = False) -> frozenset[Scope]:
        """Whatever may be called by those that belong together with the one that a node is in, or by that one alone."""
        start = {self.script.scope_of(node)} if alone else set(self.of(node))
        return frozenset(self._reached(start, self._may_call))

    def of(self, node: ast.AST) -> frozenset[Scope]:
        """The scopes that belong together with the one that a node is in."""
        start = self.script.scope_of(node)
        if start not in self._found:
            above = self._reached({start}, lambda one: self._towards.get(one, ()))
            self._found[start] = frozenset(self._reached(above, self._leads_to))
        return self._found[start]

    def _reached(self, start: set[Scope], on: Callable[[Scope], Iterable[Scope]]) -> set[Scope]:
        found, waiting = set(start), list(start)
        while waiting:
            for other in on(waiting.pop()):
                self.script.work.spend()
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return found


@lru_cache(maxsize=1)
def together_of(script: Script) -> Together:
    """The same for all rules of one file."""
    return Together(script)
