"""Sums, products and quotients of things: where noise meets gradients, and where gradients meet their bound."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

from noisymean.lint.walked.things import (
    DRAWN,
    HALF,
    OTHER,
    Clip,
    Compared,
    Guarded,
    Norm,
    Power,
    Ratio,
    Rows,
    Scale,
    Thing,
    drawn,
    merged,
    number,
    times,
    to_the,
)

# What keeps a norm from being nought is no bound.
_TINY = 0.01
# No step length is that large: a number of records, which is part of a scale.
_LEAST_SIZE = 8


def _scale(thing: Thing) -> Scale:
    """Of a number; one that is written down counts if it may be a size."""
    if thing.value is None or abs(thing.value) < _LEAST_SIZE:
        return thing.scale
    return ((f"{thing.value:g}", Fraction(1)),)


@final
@dataclass(frozen=True, eq=False)
class Added:
    """Noise is added to something."""

    node: ast.AST
    target: Thing
    noise: Thing
    within: tuple[ast.AST, ...]


@final
@dataclass(frozen=True, eq=False)
class Summed:
    """Rows of records become one."""

    node: ast.AST
    thing: Thing
    within: tuple[ast.AST, ...]


@final
@dataclass(frozen=True, eq=False)
class Scaled:
    """Something noisy is multiplied by a number of those who were drawn."""

    node: ast.AST
    thing: Thing


@final
@dataclass(frozen=True, eq=False)
class Divided:
    """Something without noise is divided by these sizes; or multiplied by them again, so that none of them is left."""

    node: ast.AST
    sizes: frozenset[str]
    again: bool


@final
@dataclass(frozen=True, eq=False)
class Beside:
    """Several things are given back, put together or written down."""

    node: ast.AST
    things: tuple[Thing, ...]
    within: tuple[ast.AST, ...]
    told: bool = False


@final
@dataclass
class Seen:
    """What happened in one function, and in the helpers that it called."""

    function: ast.AST
    added: list[Added] = field(default_factory=list)
    summed: list[Summed] = field(default_factory=list)
    scaled: list[Scaled] = field(default_factory=list)
    divided: list[Divided] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)
    clips: list[Clip] = field(default_factory=list)
    computed: list[ast.AST] = field(default_factory=list)
    leaves: list[tuple[ast.If, Thing]] = field(default_factory=list)


@final
@dataclass
class Arithmetic:
    """Of one function; `within` are the loops and functions around, `tests` the comparisons that hold."""

    seen: Seen
    within: tuple[ast.AST, ...] = ()
    tests: tuple[Compared, ...] = ()

    # --- sums -----------------------------------------------------------------------------------------------------------

    def add(self, one: Thing, other: Thing, node: ast.AST, text: str = "") -> Thing:
        """Also a difference."""
        if one.zero or other.zero:
            return other if one.zero else one
        if one.pure != other.pure:
            noise, target = (one, other) if one.pure else (other, one)
            return self._noisy(target, noise, node)
        if one.pure:
            same = one.scale == other.scale
            return replace(one, scale=one.scale if same else (("?", Fraction(1)),), draws=(*one.draws, *other.draws))
        for norm, number_ in ((one, other), (other, one)):
            if isinstance(norm.special, Norm) and not norm.statistic:
                return self._longer(norm, norm.special, number_)
        for array, number_ in ((one, other), (other, one)):
            if array.gradient and number_.value is not None:
                return array
        if one.gradient or other.gradient:
            return self._together(one, other, node)
        small = next((each for each in (one, other) if each.value is not None and abs(each.value) <= 1), None)
        if small is not None:
            return other if small is one else one
        return replace(
            number(text or "?"), count=one.count or other.count, statistic=one.statistic or other.statistic,
            draws=(*one.draws, *other.draws),
        )  # fmt: skip

    def _noisy(self, target: Thing, noise: Thing, node: ast.AST) -> Thing:
        if target.value is not None or (not target.gradient and target.clip is None and target.special is None):
            # 2 u - 1 is noise still; what else it is added to is no gradient
            return (
                noise
                if target.value is not None
                else replace(target, draws=(*target.draws, *noise.draws), statistic=False)
            )
        if target.special is not None:
            return Thing(draws=noise.draws)
        self.seen.added.append(Added(node, target, noise, self.within))
        half = target.draws + noise.draws
        return replace(target, draws=half)

    def _longer(self, thing: Thing, norm: Norm, other: Thing) -> Thing:
        """A norm and what keeps it from nought, or two squares of norms."""
        if other.value is not None and abs(other.value) <= _TINY:
            return thing
        if other.value is None and not isinstance(other.special, Norm) and not other.statistic:
            # an epsilon of the caller's
            return (
                thing
                if other.name and "eps" in other.name.lower()
                else replace(thing, special=replace(norm, order="?"))
            )
        if isinstance(other.special, Norm) and norm.squared and other.special.squared:
            return replace(thing, special=replace(norm, layer=False))
        return replace(thing, special=replace(norm, order="?"))

    def _together(self, one: Thing, other: Thing, node: ast.AST) -> Thing:
        """Two arrays: rows of records, and their own mean, are no longer those of single records."""
        for rows, mean in ((one, other), (other, one)):
            if rows.gradient and rows.rows is not Rows.SUM and self._is_statistic(mean) and rows.clip is None:
                return self._moved(rows, mean, node)
        found = merged(one, other)
        if other.draws and one.draws:
            found = replace(found, draws=tuple(dict.fromkeys((*one.draws, *other.draws))))
        return found

    def _moved(self, rows: Thing, statistic: Thing, node: ast.AST) -> Thing:
        if statistic.computed is not None:
            self.seen.computed.append(statistic.computed)
        return replace(rows, centred=rows.centred or node)

    def _is_statistic(self, thing: Thing) -> bool:
        return thing.gradient and thing.rows is Rows.SUM and thing.statistic and not thing.draws

    # --- products -------------------------------------------------------------------------------------------------------

    def multiply(self, one: Thing, other: Thing, node: ast.AST, *, same: bool = False) -> Thing:
        """Of two things; `same` if both are written in the same way."""
        if one.zero or other.zero:
            return one if one.zero else other
        if same and (one.gradient or isinstance(one.special, Norm)):
            return self.power(one, Fraction(2))
        for factor, array in ((one, other), (other, one)):
            if isinstance(factor.special, Ratio):
                return self._by_ratio(array, factor, factor.special, node)
            if factor.mask and not array.mask:
                return replace(array, chosen=True)
        for number_, thing in ((one, other), (other, one)):
            if thing.pure or thing.gradient or thing.clip is not None:
                return self._scaled(thing, number_, node)
        return self._numbers(one, other, 1)

    def _by_ratio(self, array: Thing, factor: Thing, ratio: Ratio, node: ast.AST) -> Thing:
        if array.gradient or array.clip is not None:
            return self._scaled(array, Thing(), node) if ratio.inverse else self.clipped(array, ratio, node)
        if array.pure or array.special is not None:
            return OTHER
        if array.value == 1:
            return factor
        bound = self._numbers(ratio.bound, array, -1 if ratio.inverse else 1)
        return replace(factor, special=replace(ratio, bound=bound))

    def divide(self, one: Thing, other: Thing, node: ast.AST) -> Thing:
        """Of two things."""
        if one.zero:
            return one
        match one.special, other.special:
            case _, Ratio() as ratio:
                return self._over_ratio(one, other, ratio, node)
            case Guarded(norm=norm, bound=bound, above=False), Norm():
                return Thing(special=Ratio(bound, norm, limit="right"))
            case _, Guarded(norm=norm, bound=bound, above=True):
                return self._over_guarded(one, norm, bound, node)
            case Norm() as norm, None:
                return Thing(special=Ratio(other, norm, inverse=True))
            case _, Norm() as norm if one.gradient:
                return self.clipped(one, Ratio(Thing(value=1.0), norm), node)
            case None, Norm() as norm:
                return Thing(special=Ratio(one, norm))
            case Ratio() as ratio, None:
                bound = self._numbers(ratio.bound, other, 1 if ratio.inverse else -1)
                return replace(one, special=replace(ratio, bound=bound))
            case _:
                pass
        if one.gradient and one.rows is not Rows.SUM and self._is_statistic(other) and one.clip is None:
            return self._moved(one, other, node)
        if one.pure or one.gradient or one.clip is not None:
            return self._scaled(one, other, node, -1)
        return self._numbers(one, other, -1)

    def _over_ratio(self, one: Thing, other: Thing, ratio: Ratio, node: ast.AST) -> Thing:
        if one.gradient or one.clip is not None:
            return self.clipped(one, ratio, node) if ratio.inverse else self._scaled(one, Thing(), node)
        if one.value is not None or not one.special:
            # 1 / max(1, norm / C)
            return replace(other, special=replace(ratio, inverse=not ratio.inverse))
        return OTHER

    def _over_guarded(self, one: Thing, norm: Norm, bound: Thing, node: ast.AST) -> Thing:
        """`g / max(norm, C)` is clipped to C, and over C then; `C / max(norm, C)` is the factor itself."""
        if one.gradient or one.clip is not None:
            found = self.clipped(one, Ratio(bound, norm, limit="right"), node)
            return replace(found, scale=times(found.scale, bound.scale, -1))
        same = one.scale == bound.scale and one.value == bound.value
        return Thing(special=Ratio(one, norm, limit="right" if same else ""))

    def _numbers(self, one: Thing, other: Thing, power: int) -> Thing:
        if one.value == 1 and power == 1:
            return other
        if one.value is not None and other.value is not None:
            return Thing()
        scale = times(_scale(one), _scale(other), power)
        return Thing(
            scale=scale, count=one.count or other.count, statistic=one.statistic or other.statistic,
            draws=(*one.draws, *other.draws), layer=one.layer or other.layer,
        )  # fmt: skip

    def _scaled(self, thing: Thing, by: Thing, node: ast.AST, power: int = 1) -> Thing:
        """An array times or over a number."""
        if by.gradient or by.special is not None:
            by = number("?")
        scale = times(thing.scale, _scale(by), power)
        found = replace(thing, scale=scale)
        if not thing.draws:
            self._note(node, thing.scale, scale)
        if thing.draws and not thing.pure and by.count and drawn(scale) > max(drawn(thing.scale), Fraction(0)):
            self.seen.scaled.append(Scaled(node, found))
        return found

    def _note(self, node: ast.AST, before: Scale, after: Scale) -> None:
        """What a sum is divided by, or multiplied by again."""
        one, other = dict(before), dict(after)
        less = frozenset(name for name, power in one.items() if power < 0 and name not in other)
        more = frozenset(name for name, power in other.items() if power < one.get(name, 0))
        for sizes, again in ((more, False), (less, True)):
            if sizes:
                self.seen.divided.append(Divided(node, sizes, again))

    def power(self, thing: Thing, to: Fraction) -> Thing:
        """A square, or a root."""
        match thing.special:
            case Norm() as norm if to == 2:
                return replace(thing, special=replace(norm, squared=True))
            case Norm() as norm if to == HALF:
                return replace(
                    thing, special=replace(norm, squared=False) if norm.squared else replace(norm, order="?")
                )
            case Ratio() as ratio if to == HALF:
                bound = replace(ratio.bound, scale=to_the(ratio.bound.scale, HALF))
                return replace(thing, special=replace(ratio, bound=bound, norm=replace(ratio.norm, squared=False)))
            case None:
                pass
            case _:
                return OTHER
        if thing.gradient and to == 2 and not thing.pure:
            return Thing(special=Power(thing, "squares"), gradient=False)
        return replace(thing, scale=to_the(thing.scale, to), name="")

    # --- bounds ---------------------------------------------------------------------------------------------------------

    def clipped(self, array: Thing, ratio: Ratio, node: ast.AST) -> Thing:
        """An array times a bound over its norm, however that was cut off."""
        limit = ratio.limit
        for test in self.tests if not limit else ():
            if test.bound.scale == ratio.bound.scale:
                limit = "right" if test.larger else "wrong"
        norm = replace(ratio.norm, order="squares") if ratio.norm.squared and ratio.norm.order == "2" else ratio.norm
        found = Clip(node, array, norm, ratio.bound, limit or "none", ratio.norm.layer)
        self.seen.clips.append(found)
        rows = Rows.EACH if norm.axis == 1 and array.rows is Rows.UNKNOWN else array.rows
        return replace(array, clip=found, rows=rows, gradient=True, scale=())

    def limited(self, things: Sequence[Thing], how: str) -> Thing:
        """The smaller, or the larger, of several things."""
        for one in things:
            others = [each for each in things if each is not one]
            match one.special:
                case Ratio() as ratio if not ratio.limit:
                    right = (how == "min") != ratio.inverse
                    return replace(one, special=replace(ratio, limit="right" if right else "wrong"))
                case Norm() as norm if others:
                    tiny = others[0].value is not None and others[0].value <= _TINY
                    return one if tiny or others[0].statistic else Thing(special=Guarded(norm, others[0], how == "max"))
                case _:
                    pass
            if one.pure:
                return replace(one, draws=tuple(replace(each, cut=True) for each in one.draws))
        numbers = [one for one in things if one.value is None]
        return numbers[0] if len(numbers) == 1 else merged(numbers[0], numbers[-1]) if numbers else OTHER

    # --- records --------------------------------------------------------------------------------------------------------

    def summed(self, thing: Thing, node: ast.AST, *, mean: bool = False, statistic: bool = False) -> Thing:
        """Over the records."""
        self.seen.summed.append(Summed(node, thing, self.within))
        scale: Scale = times(thing.scale, ((DRAWN, Fraction(-1)),)) if mean else thing.scale
        if mean and not thing.draws:
            self._note(node, thing.scale, scale)
        return replace(
            thing, rows=Rows.SUM, scale=scale, statistic=(mean or statistic) and not thing.draws, computed=node
        )
