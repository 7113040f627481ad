"""Frozen values as plain data and back: what stores, caches and other processes are sent.

A dataclass becomes an object of its fields, an enumeration its value, a fraction its text, a tuple a list. The way back follows
the types of the fields. A field that may hold one of several dataclasses says which by the key `kind`, the name of the class.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """`value` as JSON has it.

    >>> to_plain({"rate": Fraction(1, 3)})
    {'rate': '1/3'}
    """
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        return {one.name: _named(getattr(value, one.name), hints[one.name]) for one in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {name: to_plain(one) for name, one in value.items()}
    return [to_plain(one) for one in value] if isinstance(value, tuple | list) else value


def from_plain(kind: type[T], plain: Mapping[str, Any]) -> T:
    """The value of that dataclass; fields that are missing have their defaults, keys that are no fields are not looked at."""
    hints = _hints(cast(Any, kind))
    given = {one.name: _read(hints[one.name], plain[one.name]) for one in fields(kind) if one.name in plain}  # type: ignore[arg-type]
    return kind(**given)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _choices(hint: Any) -> list[Any]:
    """The dataclasses that a field may hold one of, if it says so."""
    if get_origin(hint) not in (Union, types.UnionType):
        return []
    return [one for one in get_args(hint) if is_dataclass(one)]


def _named(value: Any, hint: Any) -> Any:
    plain = to_plain(value)
    return {**plain, "kind": type(value).__name__} if len(_choices(hint)) > 1 else plain


def _read(hint: Any, plain: Any) -> Any:
    if plain is None or is_dataclass(plain):
        return plain
    choices = _choices(hint)
    if len(choices) > 1:
        hint = next(one for one in choices if one.__name__ == plain["kind"])
    elif get_origin(hint) in (Union, types.UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    match get_origin(hint):
        case None if is_dataclass(hint):
            return from_plain(hint, plain)  # type: ignore[arg-type]
        case None if isinstance(hint, type) and issubclass(hint, Enum | Fraction):
            return hint(plain)
        case origin if origin is tuple:
            return tuple(_read(get_args(hint)[0], one) for one in plain)
        case _:
            return plain
