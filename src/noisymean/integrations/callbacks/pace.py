"""At which steps of a training run an account is made: it takes a tenth of a second to some seconds, and a step takes less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

from noisymean.errors import InvalidInput

_LEADING = (1, 2, 5)


@final
@dataclass(frozen=True)
class Every:
    """At every multiple of so many steps."""

    steps: int

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise InvalidInput("every", self.steps, "a whole number of steps, from 1 on")

    def after(self, taken: int) -> int:
        """The next one after so many steps."""
        return (taken // self.steps + 1) * self.steps


@final
@dataclass(frozen=True)
class Doubling:
    """At 1, 2, 5, 10, 20, 50, 100 steps and so on: about thirteen accounts in ten thousand steps, and evenly on a log scale."""

    def after(self, taken: int) -> int:
        """The next one after so many steps.

        >>> [Doubling().after(taken) for taken in (0, 1, 2, 4, 5, 99, 100)]
        [1, 2, 5, 5, 10, 100, 200]
        """
        decade = 1
        while True:
            for digit in _LEADING:
                if digit * decade > taken:
                    return digit * decade
            decade *= 10


Pace: TypeAlias = Every | Doubling
