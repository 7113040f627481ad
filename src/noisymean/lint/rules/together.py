"""Which functions of a file belong together: one step of a training is often spread over several.

A function leads to those that it names, whether it calls them or hands them on, and to those that stand in it. Two functions
belong together if something in the file leads to both. Names are compared, so more may be taken together than does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import final

from noisymean.lint.script import Script
from noisymean.probe.reading.nodes import Scope


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

    def _leads_to(self, scope: Scope) -> list[Scope]:
        found = list(self._inside.get(scope, ()))
        for name in scope.names:
            several = self._named.get(name, ())
            self.script.work.spend(len(several) + 1)
            found += several
        return [one for one in found if one is not scope]

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
