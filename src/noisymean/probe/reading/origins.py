"""Where a size comes from: an expression followed through assignments, attributes, parameters and returned values.

Every name is followed once; what leads nowhere is unknown. Arithmetic keeps what the data may change: the length of a batch plus
one is still |B|; N times or over anything is N q, and a whole number made of that is floor(N q).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from noisymean.probe.reading import names
from noisymean.probe.reading.literals import is_number, is_set_from_outside, is_written_down
from noisymean.probe.reading.nodes import Scope, Trail, Value, factors, last_name, names_in, parts
from noisymean.probe.reading.source import CONSTANTS, OF_THE_DATA, Origin
from noisymean.probe.reading.syntax import NOT_SIZES, Syntax

# How many names are followed, one into the next.
DEPTH = 60
_MOST_NAMES = 500
# Of a function that cuts values off.
_LIMITS = ("min", "max", "a_min", "a_max", "fill_value")


@final
@dataclass(frozen=True, eq=False)
class Origins:
    """Follows names through one package, from one statement."""

    syntax: Syntax
    start: Scope
    in_rounds: bool = False

    def of(self, value: Value, trail: Trail) -> set[Origin]:
        """Where an expression's value comes from."""
        node, scope = value.expression, value.scope
        self.syntax.work.spend()
        if trail.depth == 0 or len(trail.seen) > _MOST_NAMES:
            return {Origin.UNKNOWN}

        match node:
            case ast.Constant(value=bool() | int() | float()):
                return {Origin.NUMBER}
            case ast.Call():
                return self._call(node, value, trail)
            case ast.BinOp() | ast.UnaryOp():
                circles = len(trail.circles)
                found = (
                    self._arithmetic(node, scope, trail)
                    if isinstance(node, ast.BinOp)
                    else self._in(parts(node), scope, trail)
                )
                # made of itself: it goes up or down, who knows how often
                return _counted(found) if len(trail.circles) > circles else found
            case ast.BoolOp() | ast.IfExp():
                return self._in(parts(node), scope, trail)
            case ast.Subscript():
                return self._element(node, scope, trail)
            case ast.Attribute(attr="size", value=owner) if _is_choice(owner):
                return self._rows(owner, scope)
            case ast.Attribute(attr="shape", value=owner) if value.index == 0:
                return {Origin.UNKNOWN} if _is_part(node) else self._rows(owner, scope)
            case ast.Name(id=name):
                return self._named(name, scope, trail)
            case ast.Attribute():
                return self._attribute(node, trail)
            case _:
                return {Origin.UNKNOWN}

    def _in(self, nodes: Iterable[ast.expr], scope: Scope, trail: Trail) -> set[Origin]:
        """Where the values of several expressions of one scope come from."""
        return self._of_all([Value(one, scope) for one in nodes], trail)

    def _arithmetic(self, node: ast.BinOp, scope: Scope, trail: Trail) -> set[Origin]:
        """A sum, difference, product or quotient; how the work is split up (steps, devices) is no factor of a size."""
        match node.op:
            case ast.Div() | ast.FloorDiv() as division:
                above, below = (self._in([one], scope, trail) for one in parts(node))
                found = _quotient(node.left, above, below)
                return _whole(found) if isinstance(division, ast.FloorDiv) else found
            case ast.Mult() if _is_rate_times_count(node) and not any(
                self._is_public(one, scope) for one in parts(node)
            ):
                # an N that is written down is a number, but whether it is to follow the data cannot be read
                sides = [self.of(Value(one, scope), Trail(trail.depth - 1)) for one in parts(node)]
                return {Origin.UNKNOWN} if all(side == {Origin.NUMBER} for side in sides) else {Origin.EXPECTED}
            case ast.Mult():
                sizes = [one for one in factors(node) if not self._is_no_size(one, scope)]
                return _together(self._in(sizes, scope, trail)) if sizes else {Origin.CALLER}
            case _:
                return _together(self._in(parts(node), scope, trail), product=False)

    def _element(self, node: ast.Subscript, scope: Scope, trail: Trail) -> set[Origin]:
        """x.shape[0] is the number of rows; x[:, None] is x with another axis; x[i] is one of several, and not followed."""
        owner, chosen = node.value, node.slice
        shaped = "shape" in names_in(owner)
        if shaped and isinstance(chosen, ast.Constant) and chosen.value == 0:
            array = owner.value if isinstance(owner, ast.Attribute) else owner
            return {Origin.UNKNOWN} if _is_part(owner) else self._rows(array, scope)
        found = self._in([owner], scope, trail)
        spread = not isinstance(chosen, ast.Constant | ast.Name) or found <= {Origin.NORM}
        return found if spread and not shaped else {Origin.UNKNOWN}

    def _call(self, node: ast.Call, value: Value, trail: Trail) -> set[Origin]:
        """What a call gives: a length, a count, a norm, its argument in another shape, or what a function here returns."""
        name, scope = last_name(node.func), value.scope
        if names.MACHINES.fullmatch(name):
            return {Origin.CALLER}
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None

        if name in self.syntax.defined and name in self.syntax.returned:
            return self._returned(name, value.index, trail)
        if name == "len" and node.args:
            found = _length(node.args[0])
            return self._rows(node.args[0], scope) if found == {Origin.BATCH} else found
        if name == "size" and owner is not None and _first_axis(node):
            return self._rows(owner, scope)
        if name in ("numel", "nelement") and owner is not None and not node.args and _is_choice(owner):
            return self._rows(owner, scope)
        if names.NORM_CALLS.fullmatch(name):
            return {Origin.NORM}
        if names.COUNTS.fullmatch(name):
            return self._sum(node, owner, value, trail)
        if name in ("ones_like", "ones", "pi"):
            return {Origin.NUMBER}
        if name == "next" and node.args and isinstance(node.args[0], ast.GeneratorExp):
            return self._in(parts(node.args[0]), scope, trail)
        if names.WHOLE.fullmatch(name):
            cut = node.args[:1] or ([] if owner is None else [owner])
            return _whole(self._in(cut, scope, trail) or {Origin.UNKNOWN})
        if names.CASTS.fullmatch(name):
            limits = [one.value for one in node.keywords if one.arg in _LIMITS]
            values = [one for one in (*node.args, *limits) if _is_value(one)]
            if owner is not None and not self.syntax.is_module(owner):
                values.append(owner)
            return _together(self._in(values, scope, trail), product=False) or {Origin.UNKNOWN}
        return {Origin.UNKNOWN}

    def _rows(self, array: ast.expr, scope: Scope) -> set[Origin]:
        """Of an array of records: those of a batch, or all of them where batches are drawn from it by chance."""
        name = array.id if isinstance(array, ast.Name) else ""
        at = scope.visible(name)
        if at is not None and is_written_down(name, at, self.syntax):
            return {Origin.NUMBER}
        places = () if at is None else {id(one): one for one in (scope, at)}.values()
        chosen = [Value(one, place) for place in places for one in place.picked.get(name, ())]
        return {Origin.DATASET if any(self._is_by_chance(one, Trail(4)) for one in chosen) else Origin.BATCH}

    def _is_by_chance(self, value: Value, trail: Trail) -> bool:
        """Whether rows are chosen by random numbers: a part of a permutation, a choice, coins."""
        for node in ast.walk(value.expression):
            self.syntax.work.spend()
            match node:
                case ast.Call(func=function) if names.CHANCE.fullmatch(last_name(function)):
                    return True
                case ast.Name(id=name) if trail.depth and (at := value.scope.visible(name)) is not None:
                    if trail.first(name, id(at)):
                        behind = (*at.assigned.get(name, ()), *at.looped.get(name, ()))
                        if any(self._is_by_chance(one, trail.on()) for one in behind):
                            return True
                case _:
                    pass
        return False

    def _sum(self, node: ast.Call, owner: ast.expr | None, value: Value, trail: Trail) -> set[Origin]:
        """What `x.sum()` or `sum(x)` says of a size.

        Where x is a mask, with a 0 or a 1 for each record, the sum counts the records of a batch. A sum of squares becomes a norm
        once its root is taken. Any other sum says nothing.
        """
        summed = (
            owner if owner is not None and not self.syntax.is_module(owner) else node.args[0] if node.args else None
        )
        if summed is None:
            return {Origin.UNKNOWN}
        called = names_in(summed)
        powers = any(isinstance(one, ast.Pow) or _squares(one) for one in ast.walk(summed))
        powers = powers or bool({"square", "norm", "pow"} & set(called))
        if powers and not any(names.MASK.search(name) for name in called):
            return {Origin.NORM}
        return {Origin.BATCH if self._is_mask(Value(summed, value.scope), Trail(trail.depth)) else Origin.UNKNOWN}

    def _is_mask(self, value: Value, trail: Trail) -> bool:
        """Whether an expression has a 0 or a 1 for each record: a comparison, coin flips, or something named like a mask."""
        node = value.expression
        match node:
            case ast.Compare():
                return True
            case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
                return isinstance(element, ast.Constant | ast.Compare) or "len" in names_in(element)
            case ast.Call(func=function) if last_name(function) in ("bernoulli", "binomial", "rand_bool"):
                return True
            case ast.Name(id=name):
                if trail.depth == 0 or not trail.first(name, id(value.scope)):
                    return False
                assigned = value.scope.assigned.get(name, [])
                return bool(names.MASK.search(name)) or any(self._is_mask(one, trail.on()) for one in assigned)
            case ast.Attribute(attr=name):
                return bool(names.MASK.search(name))
            case _:
                return False

    def _is_public(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a factor is a number at the top of the file whose name says that everybody knows it."""
        match node:
            case ast.Name(id=name) if (at := scope.visible(name)) is not None:
                values = at.assigned.get(name, [])
                several = len(values) != 1 or name in at.looped or name in at.parameters() or name in at.counted
                if several or is_set_from_outside(name, at, self.syntax):
                    return False
                [value] = values
                if names.PUBLIC.search(name) and at.parent is None and is_number(value.expression):
                    return True
                # another name of it
                return (
                    value.index is None and value.line < node.lineno and self._is_public(value.expression, value.scope)
                )
            case ast.Call(func=ast.Name(id="int" | "float"), args=[inside]):
                return self._is_public(inside, scope)
            case _:
                return False

    def _is_no_size(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a factor is, by its name, no number of records; where its value can be followed that counts, not the name."""
        name = last_name(node)
        return bool(NOT_SIZES.search(name)) and not names.NORM.search(name) and name not in scope.assigned

    def _named(self, name: str, scope: Scope, trail: Trail) -> set[Origin]:
        """A variable: what is assigned to it where it is visible, or what is passed for it as a parameter."""
        if names.MACHINES.fullmatch(name):
            return {Origin.CALLER}
        at = scope.visible(name)
        if at is None:
            return _by_name(name)
        if not trail.first(name, id(at)):
            trail.again(name, id(at))
            return set()
        with trail.following(name, id(at)):
            return self._of_visible(name, at, trail)

    def _of_visible(self, name: str, at: Scope, trail: Trail) -> set[Origin]:
        """A variable of a scope, by all that gives it a value."""
        found = self._of_all(at.assigned.get(name, []), trail)
        if Origin.BATCH in found and names.DATASET.search(name):
            # num_train = x.shape[0]
            found = found - {Origin.BATCH} | {Origin.DATASET}
        if name in at.counted:
            found = _counted(found)
        if at.function is None:
            # a name of a module may be set from outside it, or come from another one
            found |= self._of_all(self.syntax.attributes(ast.Attribute(ast.Name("module"), name)), trail)
            found |= {Origin.UNKNOWN} if name in self.syntax.imported else set()
        if name in at.looped:
            found |= {Origin.NORM if names.NORM.search(name) else Origin.UNKNOWN}
        if name in at.parameters():
            found |= self._passed(name, at, trail)
        return found

    def _attribute(self, node: ast.Attribute, trail: Trail) -> set[Origin]:
        """An attribute: what is assigned to one of that name anywhere, else what is passed under that keyword."""
        name, assigned = node.attr, self.syntax.attributes(node)
        if names.MACHINES.fullmatch(name):
            return {Origin.CALLER}
        if not trail.first(name, None):
            trail.again(name, None)
            return set()
        with trail.following(name, None):
            return self._of_values(node, assigned, trail)

    def _of_values(self, node: ast.Attribute, assigned: list[Value], trail: Trail) -> set[Origin]:
        """An attribute, by all that gives it a value."""
        name = node.attr
        found = self._of_all(assigned, trail)
        if name in self.syntax.counted:
            found = _counted(found)
        if name in self.syntax.fields:
            found |= self._field(name, trail)
        if name in self.syntax.properties:
            found |= self._returned(name, None, trail)
        if assigned or name in self.syntax.fields or name in self.syntax.properties:
            return found
        if names.SETTINGS.search(last_name(node.value)):
            # a setting that is computed somewhere is not only the user's
            computed = self._by_keyword(name, None, trail) - CONSTANTS
            unclear = computed or names.EITHER.fullmatch(name) or names.DATASET.search(name)
            return {Origin.UNKNOWN} if unclear else {Origin.CALLER}
        return _by_name(name)

    def _field(self, name: str, trail: Trail) -> set[Origin]:
        """A field of a data class: what it is made with; if nobody here makes one, the caller does, once if it holds settings."""
        values: list[Value] = []
        hidden = False
        for owner, position in self.syntax.fields[name]:
            given, starred = self._by_position(owner, position)
            values += given
            hidden = hidden or starred or owner in self.syntax.handed_on
        found = self._of_all(values, trail) | self._by_keyword(name, None, trail)
        if found and not hidden:
            return found
        fixed = all(names.HOLDERS.search(owner) for owner, _ in self.syntax.fields[name])
        return found | {Origin.CALLER if fixed and not names.EITHER.fullmatch(name) and not hidden else Origin.PASSED}

    def _of_all(self, values: Sequence[Value], trail: Trail) -> set[Origin]:
        return set().union(*(self.of(one, trail.on()) for one in values))

    def _passed(self, name: str, scope: Scope, trail: Trail) -> set[Origin]:
        """What the package passes for a parameter; if it never does, the number is the caller's."""
        called = scope.called
        values, starred = self._by_position(called, scope.position(name))
        hidden = starred or called in self.syntax.handed_on or isinstance(scope.function, ast.Lambda)
        again = (name, -1) in trail.seen
        found = self._of_all(values, trail) | self._by_keyword(name, called, trail)
        if hidden and not again and not found & OF_THE_DATA:
            return found | self._from_outside(name, scope, hidden=True)
        # what was followed from elsewhere already is not the caller's for that
        return found or (set() if again else self._from_outside(name, scope, hidden=False))

    def _by_position(self, called: str, position: int) -> tuple[list[Value], bool]:
        """What calls of `called` have at one position, and whether one has `*args` or `**kwargs`, which may hide it."""
        values, starred = [], False
        calls = self.syntax.calls.get(called, [])
        self.syntax.work.spend(len(calls))
        for call, at in calls:
            if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
                starred = True
            elif 0 <= position < len(call.args):
                values.append(Value(call.args[position], at))
        return values, starred

    def _from_outside(self, name: str, scope: Scope, *, hidden: bool) -> set[Origin]:
        """A parameter that nobody here computes: fixed once by the caller, or another number at every call for all we know."""
        if names.DATASET.search(name):
            return {Origin.DATASET}
        if _by_name(name) == {Origin.NORM}:
            return {Origin.NORM}
        if names.EITHER.fullmatch(name):
            return {Origin.PASSED}
        made = self.start.within(scope)
        once = (
            names.ONCE.fullmatch(scope.name)
            or (made is not None and self.syntax.makes(scope, made))
            or (self.start is scope and self.in_rounds)
        )
        # a function that is handed on may be called with anything, more than once
        fixed = (once and not hidden) or names.FIXED.search(name) or names.BOUND.search(name)
        return {Origin.CALLER if fixed else Origin.PASSED}

    def _by_keyword(self, name: str, called: str | None, trail: Trail) -> set[Origin]:
        """What is passed under that keyword; every keyword is followed once. What other packages are told does not count."""
        if not trail.first(name, -1):
            return set()
        given = self.syntax.keywords.get(name, [])
        self.syntax.work.spend(len(given))
        values = [value for call, value in given if self._may_reach(call, called)]
        return self._of_all(values, trail)

    def _may_reach(self, call: ast.Call, called: str | None) -> bool:
        """Whether a call may be one of `called`: by its name, or since its own name is a variable's."""
        name = last_name(call.func)
        root = names_in(call.func)[-1:] or [""]
        if called is None or name in (called, "__init__", "partial"):
            return True
        return name not in self.syntax.imported and root[0] not in self.syntax.imported

    def _returned(self, name: str, index: int | None, trail: Trail) -> set[Origin]:
        """What functions of that name return, or one element of it."""
        if not trail.first(f"{name}()", index):
            return set()
        found: set[Origin] = set()
        for one in self.syntax.returned.get(name, ()):
            whole = one.expression
            elements = (
                [whole] if index is None else whole.elts[index : index + 1] if isinstance(whole, ast.Tuple) else []
            )
            found |= self._in(elements, one.scope, trail) if elements else {Origin.UNKNOWN}
        return found


def _counted(found: set[Origin]) -> set[Origin]:
    """Of a number that goes up or down: it is no constant, however it begins and by whatever it goes."""
    return found | {Origin.UNKNOWN} if found <= CONSTANTS else found


def _by_name(name: str) -> set[Origin]:
    """Of a name whose value is nowhere in view: a norm where it is called one, and is no bound on norms."""
    return {Origin.NORM} if names.NORM.search(name) and not names.BOUND.search(name) else {Origin.UNKNOWN}


def _length(node: ast.expr) -> set[Origin]:
    """What len(x) is: a model always has as many parts, a dataset has N records, anything else is taken for a batch."""
    name = last_name(node)
    if not name and isinstance(node, ast.Call):
        name = last_name(node.func)
    if _is_part(node) or re.fullmatch(r"(named_)?parameters|children|modules", name):
        return {Origin.NUMBER}
    if names.DATA.search(name) and not names.BATCH.search(name):
        return {Origin.DATASET}
    return {Origin.BATCH}


def _squares(node: ast.AST) -> bool:
    """`vdot(x, x)`."""
    match node:
        case ast.Call(func=function, args=[one, other]) if last_name(function) in ("vdot", "dot", "inner"):
            return ast.dump(one) == ast.dump(other)
        case _:
            return False


def _first_axis(call: ast.Call) -> bool:
    """`x.size(0)`, `x.size(dim=0)`."""
    told = [*call.args, *(one.value for one in call.keywords if one.arg in ("dim", "axis"))]
    return [getattr(one, "value", None) for one in told] == [0]


def _is_choice(node: ast.expr) -> bool:
    """Called like the numbers of records that were drawn: of these, the number of elements is that of records."""
    return bool(names.CHOICE.search(last_name(node)))


def _is_part(node: ast.expr) -> bool:
    """The parameters, layers or devices, by name."""
    called = [name for name in names_in(node) if name not in ("shape", "self", "list", "tuple")]
    return any(names.PARTS.search(name) for name in called) and not any("grad" in name for name in called)


def _together(found: set[Origin], product: bool = True) -> set[Origin]:
    """Of the origins of several terms or factors, those of the result.

    Where the data may change one of them, it may change the result, and it does not matter where the constants come from.
    """
    if Origin.DATASET in found and product:
        found = found - {Origin.DATASET} | {Origin.EXPECTED}
    if found & OF_THE_DATA or Origin.NORM in found:
        return found - CONSTANTS - {Origin.PASSED}
    return found


def _quotient(left: ast.expr, above: set[Origin], below: set[Origin]) -> set[Origin]:
    """N over anything is an expected size; anything over what the data may change is as well."""
    if Origin.PASSED in above and names.EITHER.fullmatch(last_name(left)):
        above = above - {Origin.PASSED} | {Origin.DATASET}
    return _together(above | below)


def _whole(found: Iterable[Origin]) -> set[Origin]:
    """A whole number made of these."""
    return {Origin.FLOOR if one is Origin.EXPECTED else one for one in found}


def _is_value(node: ast.expr) -> bool:
    """Neither a device, a type nor a shape."""
    return (
        not isinstance(node, ast.Tuple)
        and not re.search(r"float|int|dtype|device|shape", last_name(node))
        and not (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )


def _is_rate_times_count(node: ast.BinOp) -> bool:
    """By the names of its factors: q N, sample_rate * len(dataset)."""
    # decay_rate * num_steps counts no records
    sides = [[name for name in names_in(one) if not names.OF_STEPS.search(name)] for one in parts(node)]
    return any(
        any(map(names.RATE.search, one)) and any(map(names.COUNT.search, other)) for one, other in (sides, sides[::-1])
    )
