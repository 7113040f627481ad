"""What was read, as values: statements that divide by a size, where the size comes from, and what Poisson sampling there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, final


class Origin(Enum):
    """Where a size comes from."""

    BATCH = "|B|"
    DATASET = "N"
    EXPECTED = "N q"
    FLOOR = "floor(N q)"
    NUMBER = "a number in the source"
    CALLER = "a number of the caller's"
    PASSED = "whatever each call passes"
    NORM = "a norm"
    UNKNOWN = "unknown"


# What one record more may change, and what it cannot; everything else has not been understood.
OF_THE_DATA = frozenset({Origin.BATCH, Origin.DATASET, Origin.EXPECTED, Origin.FLOOR})
CONSTANTS = frozenset({Origin.NUMBER, Origin.CALLER})


class Role(Enum):
    """What is divided."""

    GRADIENT = "gradient"
    NOISE = "noise"
    COUNT = "count"
    UNCLEAR = "unclear"


class Sure(Enum):
    """How it is known that something noisy, or about to be, is divided by a size."""

    NAMED = "by name"
    FOLLOWED = "followed"
    UNSURE = "perhaps not noisy"


@final
@dataclass(frozen=True)
class Statement:
    """A statement that divides by a size."""

    file: str
    line: int
    text: str
    role: Role
    by: str
    origins: tuple[Origin, ...]
    sure: Sure
    # noise was found in what is divided
    noisy: bool
    guards: tuple[str, ...]

    @property
    def place(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"

    @property
    def divided_by(self) -> str:
        """The expression, and what it is."""
        return f"{self.by}: {' or '.join(origin.value for origin in self.origins)}"


@final
@dataclass(frozen=True)
class Poisson:
    """What the source offers for Poisson sampling."""

    samplers: tuple[str, ...]
    switch: str | None
    default: bool | None
    refuses_larger: bool


@final
@dataclass(frozen=True)
class Source:
    """Everything that was read in a package."""

    statements: tuple[Statement, ...]
    poisson: Poisson
    files: int
    unreadable: tuple[str, ...]

    def dividing(self, role: Role = Role.GRADIENT) -> tuple[Statement, ...]:
        """The statements of one role."""
        return tuple(one for one in self.statements if one.role is role)


def to_json(source: Source) -> dict[str, Any]:
    """Plain values."""
    plain = asdict(source)
    for one, statement in zip(plain["statements"], source.statements, strict=True):
        one["role"], one["sure"] = statement.role.value, statement.sure.value
        one["origins"] = [origin.value for origin in statement.origins]
    return plain


def from_json(plain: Mapping[str, Any]) -> Source:
    """The inverse of `to_json`."""
    statements = []
    for one in plain["statements"]:
        typed = {"role": Role(one["role"]), "sure": Sure(one["sure"]), "origins": tuple(map(Origin, one["origins"]))}
        statements.append(Statement(**{**one, **typed, "guards": tuple(one["guards"])}))
    poisson = {**plain["poisson"], "samplers": tuple(plain["poisson"]["samplers"])}
    return Source(tuple(statements), Poisson(**poisson), plain["files"], tuple(plain["unreadable"]))
