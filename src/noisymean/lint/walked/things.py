"""What is known of a value in a step: whether it is made of gradients, with which rows; noise and its scale; norms; numbers.

A scale is a product of names with exponents: `sigma * C / B**0.5` is sigma^1 C^1 B^(-1/2). Numbers that are written down are no
part of it. What is not understood is a name of its own, so that it is equal to nothing else.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import TypeAlias, final

Scale: TypeAlias = tuple[tuple[str, Fraction], ...]
# The number of those who were drawn, as a factor.
DRAWN = "|B|"
# The same of a batch that somebody else drew, who may have drawn as many every time.
HANDED = "the batch that was handed over"
HALF = Fraction(1, 2)


class Rows(Enum):
    """What the first axis of an array is, or what the array is of."""

    UNKNOWN = "unknown"
    EACH = "a row for each record"
    ONE = "one record"
    SUM = "a sum over records"


@final
@dataclass(frozen=True, eq=False)
class Draw:
    """Random numbers: where they are drawn, by which law, in which function and loops."""

    node: ast.Call
    law: str
    each: bool = False
    half: bool = False
    cut: bool = False
    within: tuple[ast.AST, ...] = ()


@final
@dataclass(frozen=True, eq=False)
class Norm:
    """A norm, or its square; the axis is None for all of an array, and -2 where it is not known."""

    of: Thing
    order: str = "2"
    axis: int | None = None
    squared: bool = False
    layer: bool = False


@final
@dataclass(frozen=True, eq=False)
class Ratio:
    """A bound over a norm, or the other way round; `limit` is how it was cut off at one."""

    bound: Thing
    norm: Norm
    inverse: bool = False
    limit: str = ""


@final
@dataclass(frozen=True, eq=False)
class Power:
    """Squares or absolute values of an array, coordinate by coordinate."""

    of: Thing
    kind: str


@final
@dataclass(frozen=True, eq=False)
class Shape:
    """The shape of an array, or a part of it without the first axis."""

    of: Thing
    whole: bool = True


@final
@dataclass(frozen=True, eq=False)
class Guarded:
    """A norm that is kept above a bound, or below one."""

    norm: Norm
    bound: Thing
    above: bool


@final
@dataclass(frozen=True, eq=False)
class Compared:
    """Whether a norm is larger than a bound."""

    norm: Norm
    bound: Thing
    larger: bool


Special: TypeAlias = Norm | Ratio | Power | Shape | Guarded | Compared


@final
@dataclass(frozen=True, eq=False)
class Clip:
    """Where an array was scaled by a bound over its norm; `limit`: right, wrong, none (always scaled), coordinates, named."""

    node: ast.AST
    array: Thing
    norm: Norm | None
    bound: Thing
    limit: str
    layer: bool


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Thing:
    """What is known of one value."""

    gradient: bool = False
    rows: Rows = Rows.UNKNOWN
    clip: Clip | None = None
    # drawn rows of more than there are; a batch that was drawn elsewhere
    chosen: bool = False
    handed: bool = False
    draws: tuple[Draw, ...] = ()
    # nothing but a draw and its scale
    pure: bool = False
    scale: Scale = ()
    special: Special | None = None
    # how many were drawn, and whether each one was
    count: bool = False
    mask: bool = False
    # computed from records, without noise
    statistic: bool = False
    zero: bool = False
    items: tuple[Thing, ...] | None = None
    each: Thing | None = None
    # over the layers of a model; of one layer
    layers: bool = False
    layer: bool = False
    # joined to itself by its own sum or statistic over the records
    centred: ast.AST | None = None
    # where a statistic of the records was computed
    computed: ast.AST | None = None
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None = None
    value: float | None = None
    name: str = field(default="")

    @property
    def noisy(self) -> bool:
        return bool(self.draws)


OTHER = Thing()


def number(name: str) -> Thing:
    """Some number of that name."""
    return Thing(scale=((name, Fraction(1)),), name=name)


def constant(value: float) -> Thing:
    """A number that is written down."""
    return Thing(value=value, zero=value == 0)


def drawn(scale: Scale) -> Fraction:
    """The exponent of the number of those who were drawn."""
    return exponent(scale, DRAWN) + exponent(scale, HANDED)


def times(one: Scale, other: Scale, power: Fraction | int = 1) -> Scale:
    """The product of a scale and a power of another."""
    found = dict(one)
    for name, exponent in other:
        found[name] = found.get(name, Fraction(0)) + exponent * power
    return tuple(sorted((name, exponent) for name, exponent in found.items() if exponent))


def to_the(one: Scale, power: Fraction | int) -> Scale:
    """A power of a scale."""
    return times((), one, power)


def exponent(scale: Scale, name: str) -> Fraction:
    """Of one name in a scale."""
    return dict(scale).get(name, Fraction(0))


def merged(one: Thing | None, other: Thing | None) -> Thing:
    """What may be either: where one of them has noise, or is clipped, that one is believed."""
    if one is None or one is other:
        return other or OTHER
    if other is None:
        return one
    if one.zero != other.zero:
        return other if one.zero else one
    if bool(one.draws) != bool(other.draws):
        return one if one.draws else other
    if (one.clip is None) != (other.clip is None):
        return other if one.clip is None else one
    if one.scale != other.scale and not one.gradient:
        # another number in each branch
        exact = (one.statistic or other.statistic) and not (one.noisy or other.noisy)
        return replace(other, scale=(("?", Fraction(1)),), statistic=exact, name="")
    return other
