"""Every complaint of noisymean: the value, what is allowed, and the remedy, as fields; the one line of text is made last.

NoisymeanError
|- InvalidInput        a value outside its range; also a ValueError            (exit code 2)
|  `- Undefined        a legal value for which the quantity does not exist
|     `- Unproved      a run for which no bound is known; says why in a sentence
`- MissingDependency   an optional package is not installed; also an ImportError

Contradiction is no complaint about the input: two of our own numbers cannot both be right             (exit code 70)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from noisymean.legible import on_a_line, shortened, text_of
from noisymean.words import Reason

# Of a value in a complaint.
_LONGEST = 60


class NoisymeanError(Exception):
    """Base of everything raised on purpose."""


class Shown(str):
    """A value as it is shown in a line of text: it crosses from one process to another when the value itself may not."""

    __slots__ = ()


class InvalidInput(NoisymeanError, ValueError):
    """name=value: the allowed range; the remedy."""

    def __init__(self, name: str, value: object, allowed: str, remedy: str = "") -> None:
        self.name, self.value, self.allowed, self.remedy = name, _shown(value), allowed, remedy
        super().__init__(name, self.value, allowed, remedy)

    def __reduce__(self) -> tuple[Callable[..., InvalidInput], tuple[object, ...]]:
        # by its fields: what a subclass was made of need not cross from one process to another
        return _again, (type(self), self.args, vars(self))

    def __str__(self) -> str:
        return text_of(f"{self.name}={self.value}: must be {self.allowed}{'; ' + self.remedy if self.remedy else ''}")


def _again(kind: type[InvalidInput], args: tuple[object, ...], fields: dict[str, object]) -> InvalidInput:
    fault = kind.__new__(kind, *args)
    vars(fault).update(fields)
    return fault


class Undefined(InvalidInput):
    """The input is legal but the quantity asked for does not exist there."""


class Unproved(Undefined):
    """The run is legal, and nothing is proved about it: its `reason` is one of `noisymean.words`."""

    reason: Reason

    def __init__(self, reason: Reason) -> None:
        self.name = self.allowed = self.remedy = ""
        self.value, self.reason = Shown(), reason
        NoisymeanError.__init__(self, reason)

    def __str__(self) -> str:
        return str(self.reason)


class Contradiction(ArithmeticError):
    """A fault of ours that was noticed before its numbers were shown."""

    def __init__(self, found: str, where: object) -> None:
        super().__init__(f"{found} for {where}: one of them is wrong, so neither is shown; please report this setting")


class MissingDependency(NoisymeanError, ImportError):
    """An optional package is needed; names the extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(package, extra)

    def __str__(self) -> str:
        return f"{self.package} is not installed; install it with: pip install 'noisymean[{self.extra}]'"


def _shown(value: object) -> Shown:
    if isinstance(value, Shown):
        return value
    if isinstance(value, str):
        # what is cut off need not be written out first
        text = repr(value[: 2 * _LONGEST])
    else:
        try:
            text = str(value)
        except Exception:
            # longer than Python writes a number out, nested too deeply, or of somebody's own making
            text = "an int of many digits" if isinstance(value, int) else f"a {type(value).__name__}"
    return Shown(shortened(" ".join(on_a_line(text).split()), _LONGEST))


def check_number(
    name: str,
    value: ArrayLike,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    above: float | None = None,
    remedy: str = "",
) -> ArrayLike:
    """`value` if all of it is finite and inside [least, most] (and > above); else InvalidInput."""
    array = _numbers(value)
    if array is None:
        raise InvalidInput(name, value, "a number", remedy)
    inside = np.isfinite(array) & (array >= least) & (array <= most)
    if above is not None:
        inside &= array > above
    if not inside.all():
        low = f"> {above:g}" if above is not None else (f">= {least:g}" if np.isfinite(least) else "")
        high = f"<= {most:g}" if np.isfinite(most) else "finite"
        bad = np.asarray(value).ravel()[np.argmin(inside.ravel())] if array.ndim else value
        raise InvalidInput(name, bad, " and ".join(part for part in (low, high) if part), remedy)
    return value


def is_number(value: object) -> bool:
    """Whether that is one real number; True is none."""
    kinds = (int, float, np.integer, np.floating, Fraction, Decimal)
    return isinstance(value, kinds) and not isinstance(value, bool)


def _numbers(value: object) -> np.ndarray | None:
    """Real numbers as doubles, one or many; None where there is anything else among them. What is too large is infinite."""
    if is_number(value):
        return np.asarray(as_double(value))
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            each = array.ravel().tolist()
            return (
                np.array([as_double(one) for one in each]).reshape(array.shape) if all(map(is_number, each)) else None
            )
        return array.astype(np.float64) if array.dtype.kind in "iuf" else None
    except Exception:
        # what somebody's own class may raise, and what is too long or nested too deeply to be an array
        return None


def as_double(number: Any) -> float:
    """The number as a double; infinite where it is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    except ValueError:
        # a signalling NaN
        return math.nan


def check_probability(name: str, value: ArrayLike) -> ArrayLike:
    """`value` if it lies in [0, 1]."""
    return check_number(name, value, least=0.0, most=1.0)
