"""What a loop goes through: records, layers, or the rounds of a run; and what one element of it is."""

from __future__ import annotations

import ast
from dataclasses import replace
from enum import Enum
from typing import final

from noisymean.lint.rules.noise import noise_of
from noisymean.lint.rules.rounds import is_round
from noisymean.lint.script import Script
from noisymean.lint.walked import spelled
from noisymean.lint.walked.things import OTHER, Rows, Thing, number
from noisymean.probe.reading.nodes import last_name, names_in


class Kind(Enum):
    """What changes from one time to the next."""

    RECORDS = "records"
    LAYERS = "layers"
    ROUNDS = "rounds"
    OTHER = "something else"


@final
class Loops:
    """Of one file."""

    def __init__(self, script: Script) -> None:
        self.noise = noise_of(script)
        self._kinds: dict[ast.AST, Kind] = {}
        self.functions = {
            one.name: one for one in script.nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }

    def kind(self, loop: ast.AST, over: Thing) -> Kind:
        """By what is gone through, else by the names."""
        self._kinds[loop] = found = self._kind(loop, over)
        return found

    def _kind(self, loop: ast.AST, over: Thing) -> Kind:
        node = getattr(loop, "iter", None)
        if over.layers or (node is not None and any(spelled.LAYERS.fullmatch(name) for name in names_in(node))):
            return Kind.LAYERS
        if over.gradient and over.each is None:
            return Kind.LAYERS if over.rows in (Rows.ONE, Rows.SUM) else Kind.RECORDS
        if over.each is not None and over.each.rows is Rows.ONE:
            return Kind.RECORDS
        if isinstance(loop, ast.For | ast.AsyncFor | ast.While):
            inside = next(iter(loop.body))
            if not isinstance(loop, ast.While) and self.noise.is_over_records(loop):
                return Kind.RECORDS
            return Kind.ROUNDS if is_round(loop) and inside is not None else Kind.OTHER
        return Kind.RECORDS if self.noise.is_over_records(loop) else Kind.OTHER

    def innermost(self, within: tuple[ast.AST, ...]) -> Kind | None:
        """The loop that is gone through right now."""
        return next((self._kinds[one] for one in reversed(within) if one in self._kinds), None)

    def is_in(self, within: tuple[ast.AST, ...], kind: Kind) -> bool:
        """Whether any loop around is of that kind."""
        return any(self._kinds.get(one) is kind for one in within)

    def rounds(self, within: tuple[ast.AST, ...]) -> list[ast.AST]:
        """The loops over rounds among these."""
        return [one for one in within if self._kinds.get(one) is Kind.ROUNDS]

    def element(self, over: Thing, kind: Kind, loop: ast.AST) -> Thing:
        """One of what is gone through."""
        return element(over, kind, loop)


def element(over: Thing, kind: Kind, loop: ast.AST) -> Thing:
    """One of what is gone through."""
    if over.name == "zip" and over.items is not None:
        return Thing(items=tuple(element(one, kind, loop) for one in over.items))
    if over.each is not None:
        return over.each
    if over.zero:
        return over
    if kind is Kind.LAYERS:
        return replace(over, layers=False, layer=True) if over.gradient else Thing(layer=True, name="layer")
    if over.gradient:
        return replace(over, rows=Rows.ONE, chosen=False)
    node = getattr(loop, "iter", None)
    counted = isinstance(node, ast.Call) and last_name(node.func) in ("range", "trange", "arange", "count")
    if kind is Kind.ROUNDS and not counted:
        # a batch of the loader's
        return Thing(handed=True)
    return number("index") if counted else OTHER
