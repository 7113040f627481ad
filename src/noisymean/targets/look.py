"""A first look at a user's file: import it, run its function once, read what it carries.

Whatever would end a process ends the one that looks, before any other does the same.
"""

from __future__ import annotations

from pathlib import Path

from noisymean.targets.callable_ import UserCallable, attached_claim
from noisymean.targets.files import loaded
from noisymean.targets.functions import is_builder, takes_gradients


def seen(file: Path, attribute: str) -> tuple[int, int] | None:
    """Rounds and numbers of a first run; None for a function of gradients, which is told both."""
    function = loaded(file, attribute)
    if takes_gradients(function) or is_builder(function):
        attached_claim(function, f"{file.name}:{attribute}")
        return None
    target = UserCallable.of(file, attribute)
    found = target.steps, target.dimension
    target.claim()
    target.known()
    return found
