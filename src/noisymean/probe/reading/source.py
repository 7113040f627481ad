"""What was read, as values: statements that divide by a size, where the size comes from, and what Poisson sampling there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, final


class Origin(Enum):
    """Where a size comes from."""

    BATCH = "|B|"
    EXPECTED = "N q"
    FLOOR = "floor(N q)"
    CALLER = "a number of the caller's"
    UNKNOWN = "unknown"


class Role(Enum):
    """What is divided."""

    GRADIENT = "gradient"
    NOISE = "noise"
    COUNT = "count"


@final
@dataclass(frozen=True)
class Statement:
    """A statement that divides by a size."""

    file: str
    line: int
    text: str
    role: Role
    origins: tuple[Origin, ...]
    guards: tuple[str, ...]

    @property
    def place(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"


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
        one["role"], one["origins"] = statement.role.value, [origin.value for origin in statement.origins]
    return plain


def from_json(plain: Mapping[str, Any]) -> Source:
    """The inverse of `to_json`."""
    statements = tuple(
        Statement(
            one["file"], one["line"], one["text"], Role(one["role"]), tuple(Origin(name) for name in one["origins"]),
            tuple(one["guards"]),
        )
        for one in plain["statements"]
    )  # fmt: skip
    poisson = {**plain["poisson"], "samplers": tuple(plain["poisson"]["samplers"])}
    return Source(statements, Poisson(**poisson), plain["files"], tuple(plain["unreadable"]))
