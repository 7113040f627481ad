"""What two neighbouring datasets may differ in: a promise for one kind of neighbours is none for another."""

from __future__ import annotations

from enum import Enum


class Adjacency(Enum):
    """What two neighbouring datasets may differ in."""

    ADD_REMOVE = "add-remove"
    ZERO_OUT = "zero-out"
    REPLACE_ONE = "replace-one"

    @property
    def change(self) -> str:
        """What happens to a record, as it follows `one record`."""
        match self:
            case Adjacency.ADD_REMOVE:
                return "added or removed"
            case Adjacency.ZERO_OUT:
                return "zeroed out"
            case Adjacency.REPLACE_ONE:
                return "replaced"
