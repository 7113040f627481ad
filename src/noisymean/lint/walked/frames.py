"""What a function knows while it is gone through: its names, and those around it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias, final

from noisymean.lint.walked.things import Thing

Defined: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Env: TypeAlias = dict[str, Thing]


class Lost(Exception):
    """More than anybody writes: what was seen is not believed."""


@final
@dataclass(eq=False)
class Frame:
    """One call: what its names are, and what it has given back."""

    env: Env
    around: Frame | None
    given: list[Thing] = field(default_factory=list)
    left: bool = False

    def look(self, name: str) -> Thing | None:
        """In this function or around it."""
        at: Frame | None = self
        while at is not None:
            if name in at.env:
                return at.env[name]
            at = at.around
        return None
