"""What is divided: whether noise or gradients are in it, followed backwards through assignments, loops, calls and parameters.

Names are a hint, and what is assigned to them is another. Noise comes from a generator (randn, normal, …) or from something that
is called noise; it stays in what is added to it, summed, stacked or handed to a function of the same source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import final

from noisymean.probe.reading.nodes import Scope, Trail, Value, last_name, parts
from noisymean.probe.reading.syntax import Syntax

# Called like gradients and noise, and numbers or switches all the same.
_NUMBERS = re.compile(
    r"^n(um)?_|counts?$|norms?$|bound|threshold|accum\w*_?(steps?|iter\w*|factor)|steps?$|mode$|requires|^(no|zero|enable|value_and|set|is)_|_fn$|hook|noise_mult|multiplier|interval|_max$"
    r"|factors?$|clip_(value|coef)|rate$|seed|key$",
    re.IGNORECASE,
)
GRADIENT_NAMES = re.compile(r"grad|summed|clipped|unclipped|update|^_?g$", re.IGNORECASE)
NOISE_NAMES = re.compile(r"noise|noisy|stddev|perturb|privati[sz]ed", re.IGNORECASE)
_GENERATORS = re.compile(
    r"randn|randn_like|(random_|truncated_|standard_|multivariate_)?normal_?|Normal|MultivariateNormal|gauss|normalvariate"
    r"|\w*laplace\w*|\w*gaussian\w*|add_noise",
    re.IGNORECASE,
)
# Neither values of the array nor anything made of them.
_SIZES = re.compile(
    r"len|shape|size|numel|ndim|dtype|device|norms?|vector_norm|global_norm|count_nonzero|range|split|key|PRNGKey|item"
)
# Functions of arrays that keep what is in them.
KEEPS = re.compile(
    r"n?an?sum|sum|reduce_sum|psum|stack|cat|concatenate|concat|array|asarray|tensor|as_tensor|where|tree_map|map|tree_multimap|list|tuple"
    r"|zip|enumerate|sorted|reversed|dict|items|values|add|subtract|sub|mul|multiply|div|divide|true_divide|mean|average|reduce_mean|einsum|dot"
    r"|matmul|reshape|ravel|ravel_pytree|flatten|tree_flatten|tree_leaves|leaves|unflatten|tree_unflatten|copy|deepcopy|clone|detach"
    r"|vmap|cumsum|expand_dims|squeeze|unsqueeze|broadcast_to|sqrt|abs|float|fori_loop|scan|reduce|next|iter|add_n"
)
_DEPTH = 40
# How many names one question may lead to; in a large package everything is connected with everything.
_MOST_NAMES = 200


class Contents(IntEnum):
    """What is in an expression, from nothing of interest to noise; the larger wins where they meet."""

    OTHER = 0
    UNSEEN = 1
    GRADIENT = 2
    NOISE = 3


@final
@dataclass(frozen=True, eq=False)
class Flow:
    """Follows arrays through one package."""

    syntax: Syntax
    _known: dict[tuple[ast.expr, int, int | None], Contents] = field(default_factory=dict)

    def of(self, value: Value, before: int | None = None) -> Contents:
        """What is in an expression; `before` leaves out what is assigned to its own names from that line on."""
        key = (value.expression, id(value.scope), before)
        if key not in self._known:
            self._known[key] = self._of(value, Trail(_DEPTH, before=before))
        return self._known[key]

    def _of(self, value: Value, trail: Trail) -> Contents:
        node, scope = value.expression, value.scope
        self.syntax.work.spend()
        if trail.depth == 0 or len(trail.seen) > _MOST_NAMES:
            return Contents.UNSEEN
        match node:
            case ast.Name(id=name):
                own = by_name(name)
                return own if own is Contents.NOISE else max(own, self._named(name, scope, trail))
            case ast.Attribute(attr=attribute) if _SIZES.fullmatch(attribute):
                return Contents.OTHER
            case ast.Attribute(attr=attribute, value=owner):
                own = by_name(attribute)
                own = own if own is Contents.NOISE else max(own, self._attribute(node, scope, trail))
                # grad_sample of a parameter is no noise, whatever was added to the parameter
                return own if own >= Contents.GRADIENT else max(own, self._in([owner], scope, trail))
            case ast.Call():
                return self._call(node, scope, trail)
            case _:
                return self._in(parts(node), scope, trail)

    def _in(self, nodes: Iterable[ast.expr], scope: Scope, trail: Trail) -> Contents:
        """What is in any of several expressions of one scope."""
        return self._of_any((Value(one, scope) for one in nodes), trail.on())

    def _of_any(self, values: Iterable[Value], trail: Trail) -> Contents:
        return _most(self._of(one, trail) for one in values)

    def _call(self, node: ast.Call, scope: Scope, trail: Trail) -> Contents:
        name = last_name(node.func)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if _SIZES.fullmatch(name):
            return Contents.OTHER
        if _GENERATORS.fullmatch(name):
            return Contents.NOISE
        named = by_name(name)
        # a method that several classes have is not followed: it might be any of them
        own = owner is None or last_name(owner) in ("self", "cls") or self.syntax.defined[name] == 1
        if own and name in self.syntax.defined and name in self.syntax.returned:
            if not trail.first(f"{name}()", None):
                return named
            return max(named, _most(self._of(one, trail.on(anywhere=True)) for one in self.syntax.returned[name]))
        arguments = [*node.args, *(one.value for one in node.keywords)]
        if owner is not None and not self.syntax.is_module(owner):
            # a method of an array keeps what is in it
            kept = self._in([owner], scope, trail)
            if kept < Contents.GRADIENT:
                return max(kept, named)
            return max(kept, named, min(self._in(arguments, scope, trail), kept))
        inside = self._in(arguments, scope, trail)
        if KEEPS.fullmatch(name):
            return max(named, inside)
        return max(named, Contents.UNSEEN if inside >= Contents.GRADIENT else Contents.OTHER)

    def _named(self, name: str, scope: Scope, trail: Trail) -> Contents:
        at = None if name in ("self", "cls") else scope.visible(name)
        if at is None or not trail.first(name, id(at)):
            return Contents.OTHER
        assigned = at.assigned.get(name, [])
        self.syntax.work.spend(len(assigned) // 8)
        values = trail.reached(assigned)
        found = self._of_any((*values, *at.looped.get(name, [])), trail.on())
        if name in at.parameters() and found is not Contents.NOISE:
            found = max(found, self._passed(name, at, trail))
        return found

    def _attribute(self, node: ast.Attribute, scope: Scope, trail: Trail) -> Contents:
        name = node.attr
        if last_name(node.value) not in ("self", "cls") and by_name(name) is Contents.OTHER and name != "data":
            # an attribute of anything: too many have the same name
            return Contents.OTHER
        if not trail.first(name, None):
            return Contents.OTHER
        found = self._of_any(trail.reached(self.syntax.attributes(node, scope)), trail.on())
        if name in self.syntax.properties and found is not Contents.NOISE:
            found = max(found, self._of_any(self.syntax.returned.get(name, ()), trail.on(anywhere=True)))
        return found

    def _passed(self, name: str, scope: Scope, trail: Trail) -> Contents:
        """What is handed over for a parameter, by position, by keyword or by a function that maps this one."""
        # of several functions of one name it is not known which is called
        called = "" if self.syntax.defined[scope.called] > 1 else scope.called
        values = self.syntax.passed(name, scope) if called else []
        own: str | ast.Lambda | None = scope.function if isinstance(scope.function, ast.Lambda) else called or None
        for call, at in self.syntax.mapped.get(own, []) if own is not None else []:
            others = [one for one in call.args if one is not own and last_name(one) != own]
            values += [Value(one, at) for one in others]
        return self._of_any(values, trail.on(anywhere=True)) if values else Contents.UNSEEN


def _most(found: Iterable[Contents]) -> Contents:
    """The largest; nothing is looked at once there is noise."""
    most = Contents.OTHER
    for one in found:
        most = max(most, one)
        if most is Contents.NOISE:
            break
    return most


@lru_cache(maxsize=65536)
def by_name(name: str) -> Contents:
    """What a name promises."""
    if _NUMBERS.search(name):
        return Contents.OTHER
    if NOISE_NAMES.search(name):
        return Contents.NOISE
    return Contents.GRADIENT if GRADIENT_NAMES.search(name) else Contents.OTHER
