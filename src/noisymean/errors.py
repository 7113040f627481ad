"""Every complaint of noisymean: one line that names the value, what is allowed, and the remedy.

NoisymeanError
|- InvalidInput        a value outside its range; also a ValueError            (exit code 2)
|  `- Undefined        a legal value for which the quantity does not exist
|     `- Unproved      a run for which no bound is known; says why in a sentence
`- MissingDependency   an optional package is not installed; also an ImportError

Contradiction is no complaint about the input: two of our own numbers cannot both be right             (exit code 70)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike


class NoisymeanError(Exception):
    """Base of everything raised on purpose."""


class _Portable(NoisymeanError):
    """Crosses from one process to another as its message: its arguments need not be there."""

    def __reduce__(self) -> tuple[Callable[..., _Portable], tuple[type[_Portable], str]]:
        return _Portable._again, (type(self), str(self))

    @staticmethod
    def _again(kind: type[_Portable], message: str) -> _Portable:
        return kind.__new__(kind, message)


class InvalidInput(_Portable, ValueError):
    """name=value: the allowed range; the remedy."""

    def __init__(self, name: str, value: object, allowed: str, remedy: str = "") -> None:
        super().__init__(f"{name}={_shown(value)}: must be {allowed}{'; ' + remedy if remedy else ''}")


class Undefined(InvalidInput):
    """The input is legal but the quantity asked for does not exist there."""


class Unproved(Undefined):
    """The run is legal, and nothing is proved about it: the whole message is the reason, for notes and pages."""

    def __init__(self, reason: str) -> None:
        NoisymeanError.__init__(self, reason)


class Contradiction(ArithmeticError):
    """A fault of ours that was noticed before its numbers were shown."""

    def __init__(self, found: str, where: object) -> None:
        super().__init__(f"{found} for {where}: one of them is wrong, so neither is shown; please report this setting")


class MissingDependency(_Portable, ImportError):
    """An optional package is needed; names the extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; install it with: pip install 'noisymean[{extra}]'")


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


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
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(name, value, "a number", remedy) from None
    inside = np.isfinite(array) & (array >= least) & (array <= most)
    if above is not None:
        inside &= array > above
    if not inside.all():
        low = f"> {above:g}" if above is not None else (f">= {least:g}" if np.isfinite(least) else "")
        high = f"<= {most:g}" if np.isfinite(most) else "finite"
        bad = np.asarray(value).ravel()[np.argmin(inside.ravel())] if array.ndim else value
        raise InvalidInput(name, bad, " and ".join(part for part in (low, high) if part), remedy)
    return value


def check_probability(name: str, value: ArrayLike) -> ArrayLike:
    """`value` if it lies in [0, 1]."""
    return check_number(name, value, least=0.0, most=1.0)
