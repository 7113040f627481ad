"""How much is followed in one file: code of people needs little, and code that is made to be followed forever needs a limit.

Whoever follows a value spends a step for each node, value or call that is looked at. When the steps of a file are used up
`Exhausted` is raised, and that file was not followed to the end: whoever asked says so and goes on with the next one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

# Of Opacus, optax, TensorFlow Privacy and PyTorch itself no file needs a tenth of it.
MOST_STEPS = 1_000_000


class Exhausted(Exception):
    """A file was followed as far as any file is."""


@final
@dataclass
class Work:
    """Steps that are left, for each file by itself."""

    most: int = MOST_STEPS
    _file: str = ""
    _left: dict[str, int] = field(default_factory=dict)
    _now: int = field(init=False)

    def __post_init__(self) -> None:
        self._now = self.most

    def begin(self, file: str) -> None:
        """From now on steps are those of this file."""
        if file != self._file:
            self._left[self._file] = self._now
            self._file, self._now = file, self._left.get(file, self.most)

    def spend(self, steps: int = 1) -> None:
        """Exhausted once there are none left."""
        self._now -= steps
        if self._now < 0:
            raise Exhausted

    @property
    def spent(self) -> int:
        """By the file that is followed now."""
        return self.most - self._now

    def walk(self, node: ast.AST) -> Iterator[ast.AST]:
        """`ast.walk`, a step for each node."""
        for one in ast.walk(node):
            self.spend()
            yield one
