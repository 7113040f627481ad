"""What one step returns, in parts: its release, a number for each parameter, and whatever it returns beside it.

A release may come in layers (a dictionary, a list of arrays): in their order they are one row. Beside it there may be a loss, the
size of the batch, a learning rate: whoever sees the release sees these as well, so they are kept, with their names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.targets.returned import NotNumbers, numbers_of

# parts within parts, of which nobody needs more
_DEEPEST = 8
_NOTHING: Array = np.zeros(0)


@final
@dataclass(frozen=True, eq=False)
class Parts:
    """The release, and what came beside it, each number with the name of the part that it is of."""

    release: Array
    beside: Array
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """What comes beside the release, in words."""
        count = len(self.beside)
        named = [name for name in dict.fromkeys(self.names) if name]
        words = f"{count} number{'s' if count != 1 else ''} beside the {len(self.release)} of its parameters"
        return f"{words} ({', '.join(named)})" if named else words


def parts_of(returned: Any, wide: int, leads: Callable[[], bool] = lambda: False) -> Parts | None:
    """The parts, where the release has `wide` numbers; `leads`: whether what is more in one longer row is in front.

    >>> parts_of({"weight": [1.0, 2.0], "bias": [3.0]}, 3)
    Parts(release=array([1., 2., 3.]), beside=array([], dtype=float64), names=())
    >>> str(parts_of(([1.0, 2.0, 3.0], {"size": 5}), 3))
    '1 number beside the 3 of its parameters (size)'
    """
    if returned is None:
        return None
    if type(returned) is np.ndarray and returned.shape == (wide,):
        return Parts(numbers_of(returned), _NOTHING)
    leaves = list(_leaves(returned, "", 0))
    rows = [row for _, row in leaves]
    total = sum(map(len, rows))
    if total < wide:
        shape = getattr(returned, "shape", (total,))
        raise NotNumbers(f"numbers of shape {shape}")
    names = [name for name, row in leaves for _ in row]
    everything = np.concatenate(rows)
    own = _place(rows, wide)
    if own is None:
        if len(rows) > 1:
            raise NotNumbers(
                f"parts of {', '.join(str(len(row)) for row in rows)} numbers, none of which is the release"
            )
        own = slice(total - wide, total) if leads() else slice(0, wide)
    beside = np.delete(everything, own)
    return Parts(everything[own], beside, tuple(names[: own.start] + names[own.stop :]))


def _place(rows: list[Array], wide: int) -> slice | None:
    """Where the release is: a part of just that length, else the first parts, or the last, that make up as much."""
    ends = np.cumsum([0, *map(len, rows)]).tolist()
    for row, start in zip(rows, ends, strict=False):
        if len(row) == wide:
            return slice(start, start + wide)
    if len(rows) > 1 and wide in ends:
        return slice(0, wide)
    if len(rows) > 1 and ends[-1] - wide in ends:
        return slice(ends[-1] - wide, ends[-1])
    return None


def _leaves(found: Any, name: str, depth: int) -> Iterator[tuple[str, Array]]:
    """Every part that is an array or a number, with the name that it has."""
    if depth > _DEEPEST:
        raise NotNumbers("parts within parts")
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        found = {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}
    if isinstance(found, tuple) and hasattr(found, "_asdict"):
        found = found._asdict()
    if isinstance(found, Mapping):
        for key, one in found.items():
            yield from _leaves(one, str(key)[:40], depth + 1)
    elif isinstance(found, tuple | list) and not all(
        isinstance(one, int | float | complex | np.generic) for one in found
    ):
        for one in found:
            yield from _leaves(one, name, depth + 1)
    elif found is None or isinstance(found, str | bytes):
        raise NotNumbers(f"{name or 'a part'}, which is {'nothing' if found is None else 'text'} and no number")
    else:
        yield name, numbers_of(found).ravel()
