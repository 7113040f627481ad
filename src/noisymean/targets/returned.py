"""What foreign code returned, as numbers; nothing of it is lost on the way, and what is no number is not made one.

numpy would drop the imaginary part of a complex number and the mask of a masked array, and read numbers out of text.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from noisymean.errors import NoisymeanError
from noisymean.numerics.logs import Array
from noisymean.targets.foreign import Misbehaved, call

_COMPLEX = "complex numbers, of which a release has none: return real and imaginary parts side by side"
_MASKED = "a masked array, and what is masked is no number: return plain numbers, e.g. those of filled(0.0)"


@final
class NotNumbers(NoisymeanError):
    """It returned something else; says what: complex numbers."""


def numbers_of(found: Any) -> Array:
    """An array of doubles: of numbers, whole or real, of whatever kind and container.

    What is read may be code of whoever returned it: if that does not come to an end as it should, it is `Misbehaved`.

    >>> numbers_of([1, 2.5]), numbers_of([True])
    (array([1. , 2.5]), array([1.]))
    >>> numbers_of([1 + 2j])
    Traceback (most recent call last):
    noisymean.targets.returned.NotNumbers: complex numbers, of which ...
    """
    try:
        return call(lambda: _read(found))
    except Misbehaved as fault:
        if isinstance(fault.__cause__, NotNumbers):
            raise fault.__cause__ from None
        raise


def _read(found: Any) -> Array:
    if isinstance(found, np.ma.MaskedArray):
        raise NotNumbers(_MASKED)
    array = np.asarray(found)
    match array.dtype.kind:
        case "f" | "i" | "u" | "b":
            return np.asarray(array, dtype=np.float64)
        case "c":
            raise NotNumbers(_COMPLEX)
        case "O":
            for one in array.ravel():
                if isinstance(one, complex | np.complexfloating):
                    raise NotNumbers(_COMPLEX)
                if one is None or isinstance(one, str | bytes):
                    raise NotNumbers(f"a {type(found).__name__} that is not an array of numbers")
            return np.asarray(array, dtype=np.float64)
        case _:
            raise NotNumbers(f"a {type(found).__name__} that is not an array of numbers")
