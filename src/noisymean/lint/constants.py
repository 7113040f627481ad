"""Numbers that are made of numbers that are written down: `2 * 20`, `max(LOT, 1)`, `int(64.0)`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

Constant: TypeAlias = bool | int | float | str
_LARGEST = 10**15


def arithmetic(operator: ast.operator, left: Constant | None, right: Constant | None) -> Constant | None:
    """Of two numbers, small enough to be worked out."""
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    if max(abs(left), abs(right)) > _LARGEST:
        return None
    try:
        match operator:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
            case ast.FloorDiv():
                return left // right
            case ast.Pow() if abs(right) <= 20:
                value = float(left) ** right
                exact = isinstance(left, int) and isinstance(right, int) and right >= 0 and abs(value) <= _LARGEST
                return left**right if exact else value if isinstance(value, float) else None
            case _:
                return None
    except (ArithmeticError, ValueError):
        return None


_OF_ONE: dict[str, Callable[[int | float], int | float]] = {
    "int": int, "float": float, "round": round, "floor": math.floor, "ceil": math.ceil, "abs": abs
}  # fmt: skip
_OF_SEVERAL: dict[str, Callable[[Sequence[int | float]], int | float]] = {
    "max": max, "maximum": max, "min": min, "minimum": min
}  # fmt: skip
CALLS = frozenset({*_OF_ONE, *_OF_SEVERAL})


def called(name: str, given: Sequence[Constant | None]) -> int | float | None:
    """What one of these functions gives for numbers that are all known."""
    numbers = [one for one in given if isinstance(one, int | float) and math.isfinite(one)]
    if len(numbers) != len(given):
        return None
    if name in _OF_ONE and len(numbers) == 1:
        return _OF_ONE[name](numbers[0])
    return _OF_SEVERAL[name](numbers) if name in _OF_SEVERAL and len(numbers) > 1 else None
