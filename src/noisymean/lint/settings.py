"""What is handed over as a whole: `**options`, from a dictionary, from an object with its defaults, or through a parameter.

Where two places in view set an option to different things, what it is there is not known, and it is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeAlias, final

from noisymean.probe.reading.nodes import Scope, last_name
from noisymean.probe.reading.syntax import Syntax

Entries: TypeAlias = dict[str, ast.expr]
_FOLLOWED = 8
# Of the values that a dictionary is given under one name.
_MOST_VALUES = 20
# Of an object: dataclasses, attrs, pydantic and named tuples.
_AS_DICTIONARY = ("asdict", "vars")
_METHODS = ("_asdict", "model_dump", "to_dict", "asdict", "dict")
_COPIES = ("replace", "evolve", "_replace", "model_copy", "copy")


@final
class Settings:
    """The options of one file."""

    def __init__(self, syntax: Syntax, nodes: Sequence[ast.AST]) -> None:
        self._syntax, self._nodes = syntax, nodes

    def entries(self, node: ast.expr, scope: Scope, depth: int = _FOLLOWED) -> Entries | None:
        """What `**node` hands over, as far as it is written down; None where nothing of it is."""
        self._syntax.work.spend()
        if depth <= 0:
            return None
        match node:
            case ast.Dict(keys=keys, values=values):
                return self._of_dictionary(keys, values, scope, depth)
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
                return self._of_keywords(keywords, scope, depth)
            case ast.Call(func=function, args=[told, *_]) if last_name(function) in _AS_DICTIONARY:
                return self._of_object(told, scope, depth - 1)
            case ast.Call(func=ast.Attribute(attr=name, value=owner), args=[]) if name in _METHODS:
                return self.entries(owner, scope, depth - 1) if name == "copy" else self._of_object(owner, scope, depth)
            case ast.Attribute(attr="__dict__", value=owner):
                return self._of_object(owner, scope, depth - 1)
            case ast.Attribute():
                holder = self._classes.get(last_name(node.value))
                of_class = None if holder is None else _defaults(holder).get(node.attr)
                if of_class is not None:
                    return self.entries(of_class, scope, depth - 1)
                kept = self._syntax.attributes(node, scope)
                return _agreed(self.entries(one.expression, one.scope, depth - 1) for one in kept)
            case ast.Name(id=name) if (at := scope.visible(name)) is not None:
                return self._named(name, at, depth)
            case ast.Name(id=name) if (at := _gathers(name, scope)) is not None:
                return self._gathered(at, depth)
            case _:
                return None

    def _of_dictionary(
        self, keys: Iterable[ast.expr | None], values: Iterable[ast.expr], scope: Scope, depth: int
    ) -> Entries:
        """What comes later in `{**a, "b": 1}` holds."""
        found: Entries = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:
                found |= self.entries(value, scope, depth - 1) or {}
            elif isinstance(key, ast.Constant):
                found[str(key.value)] = value
        return found

    def _of_keywords(self, keywords: Iterable[ast.keyword], scope: Scope, depth: int) -> Entries:
        """Of a call: named ones before those that are unpacked."""
        found: Entries = {}
        for one in keywords:
            if one.arg is None:
                found = (self.entries(one.value, scope, depth - 1) or {}) | found
            else:
                found[one.arg] = one.value
        return found

    def _named(self, name: str, at: Scope, depth: int) -> Entries | None:
        found: Entries = {}
        for value in at.assigned.get(name, [])[-_MOST_VALUES:]:
            found |= self.entries(value.expression, value.scope, depth - 1) or {}
        if not found and name in at.parameters():
            handed = self._syntax.passed(name, at)
            return _agreed(self.entries(one.expression, one.scope, depth - 1) for one in handed)
        return (found | self._items.get(name, {})) or None

    def _gathered(self, at: Scope, depth: int) -> Entries | None:
        """What is handed to a function that gathers it: `def f(**options)`."""
        calls = self._syntax.calls.get(at.called, []) if at.called else []
        self._syntax.work.spend(len(calls))
        return _agreed(
            {
                name: value
                for name, value in self._of_keywords(call.keywords, there, depth - 1).items()
                if name not in at.parameters()
            }
            for call, there in calls
        )

    @cached_property
    def _items(self) -> dict[str, Entries]:
        """What is assigned to `name["key"]`."""
        found: dict[str, Entries] = {}
        for node in self._nodes:
            match node:
                case ast.Assign(
                    targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str() as key))]
                ):
                    found.setdefault(name, {})[key] = node.value
        return found

    # --- objects --------------------------------------------------------------------------------------------------------

    @cached_property
    def _classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self._nodes if isinstance(node, ast.ClassDef)}

    def _of_object(self, node: ast.expr, scope: Scope, depth: int) -> Entries | None:
        """The attributes of an object whose class is in view: its defaults, unless somebody sets them to something else."""
        made = self._class_of(node, scope, depth)
        if made is None:
            return None
        elsewhere = made.name in self._syntax.handed_on or made.name not in self._syntax.calls
        if elsewhere and last_name(node) != made.name:
            # whoever is handed the class, a command line for one, may make it with anything
            return None
        found = _defaults(made)
        known: Entries = {}
        for name in _fields(made):
            values = [one for one in self._set(made, name) if one is not None]
            unclear = None in self._set(made, name)
            several = {ast.dump(one) for one in values}
            if not unclear and len(several) <= 1 and (values or name in found):
                known[name] = values[0] if values else found[name]
        return known or None

    def _set(self, made: ast.ClassDef, name: str) -> list[ast.expr | None]:
        """What a field is given by all who make such an object, or change one; None where that is out of view."""
        found: list[ast.expr | None] = []
        calls = self._syntax.calls.get(made.name, [])
        self._syntax.work.spend(len(calls))
        default, position = _defaults(made).get(name), _fields(made).index(name)
        for call, _ in calls:
            told = {one.arg: one.value for one in call.keywords}
            starred = any(isinstance(one, ast.Starred) for one in call.args)
            if name in told:
                found.append(told[name])
            elif None in told or starred:
                found.append(None)
            else:
                found.append(call.args[position] if position < len(call.args) else default)
        copied = self._syntax.keywords.get(name, [])
        found += [value.expression for call, value in copied if last_name(call.func) in _COPIES]
        assigned = self._syntax.attributes(ast.Attribute(ast.Name(""), name))
        found += [one.expression for one in assigned if one.expression is not default]
        return found

    def _class_of(self, node: ast.expr, scope: Scope, depth: int) -> ast.ClassDef | None:
        self._syntax.work.spend()
        if depth <= 0:
            return None
        match node:
            case ast.Call(func=function, args=arguments):
                name = last_name(function)
                if name in self._classes:
                    return self._classes[name]
                return self._class_of(arguments[0], scope, depth - 1) if name in _COPIES and arguments else None
            case ast.Name(id=name) if (
                at := scope.visible(name, looped=False)
            ) is not None and name not in self._classes:
                values = [*at.assigned.get(name, [])]
                if not values and name in at.parameters():
                    said = _annotation(name, at)
                    if said in self._classes:
                        return self._classes[said]
                    values = self._syntax.passed(name, at)
            case ast.Name(id=name):
                # the class itself
                return self._classes.get(name)
            case ast.Attribute():
                values = self._syntax.attributes(node, scope)
            case _:
                return None
        made = [self._class_of(one.expression, one.scope, depth - 1) for one in values[:5]]
        return made[0] if made and all(one is made[0] for one in made) else None


def _agreed(several: Iterable[Entries | None]) -> Entries | None:
    """What all of them have, alike."""
    found = [one or {} for one in several]
    if not found:
        return None
    said = {name for name in found[0] if len({ast.dump(one[name]) if name in one else "" for one in found}) == 1}
    return {name: found[0][name] for name in found[0] if name in said} or None


def _gathers(name: str, scope: Scope) -> Scope | None:
    """The function around a place that gathers its other keywords under this name."""
    for at in scope.outwards():
        gathered = None if at.function is None else at.function.args.kwarg
        if gathered is not None and gathered.arg == name:
            return at
    return None


def _annotation(name: str, at: Scope) -> str:
    arguments = at.function.args if at.function is not None else None
    given = [] if arguments is None else [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    said = next((one.annotation for one in given if one.arg == name), None)
    if isinstance(said, ast.Constant) and isinstance(said.value, str):
        return said.value
    return "" if said is None else last_name(said)


def _defaults(made: ast.ClassDef) -> Entries:
    """What a class says about its fields."""
    found: Entries = {}
    for part in made.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
    return found


def _fields(made: ast.ClassDef) -> list[str]:
    """Their names in order: those with an annotation, which a data class takes by position, before the others."""
    annotated = [
        part.target.id for part in made.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    ]
    return [*annotated, *(name for name in _defaults(made) if name not in annotated)]
