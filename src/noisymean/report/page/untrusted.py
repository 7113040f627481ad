"""A value read from a file that nobody vouches for: every look into it says what must be there, and where it is not.

A complaint is one line: the file, the path to the value, the value, and what it must be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn, TypeVar, final

from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.legible import text_of
from noisymean.schema import SCHEMA

Choice = TypeVar("Choice", bound=Enum)
Found = TypeVar("Found")

MOST_BYTES = 64 * 2**20
_LONGEST_TEXT = 20_000
_MOST_ITEMS = 100_000
_WRITTEN_BY = "written by noisymean account --json, audit --json, probe --json or code-audit --json"


class BadRecord(NoisymeanError):
    """A file that is not what it should be."""


@final
@dataclass(frozen=True)
class Untrusted:
    """A value of a JSON file, the file, and the path to the value in it: `settings.noise_multiplier`, `notes[0]`."""

    value: Any
    file: str
    path: str = ""

    def refuse(self, allowed: str, remedy: str = "") -> NoReturn:
        raise BadRecord(f"{self.file}: {InvalidInput(self.path or 'the file', self.value, allowed, remedy)}")

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def __getitem__(self, key: str) -> Untrusted:
        """The value under a key that must be there."""
        self.mapping()
        if key not in self.value:
            raise BadRecord(f"{self.file}: {self._under(key)}: missing; the file must be one {_WRITTEN_BY}")
        return Untrusted(self.value[key], self.file, self._under(key))

    def get(self, key: str, default: Any = None) -> Untrusted:
        """The value under a key that may be missing."""
        self.mapping()
        return Untrusted(self.value.get(key, default), self.file, self._under(key))

    def _under(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    @property
    def missing(self) -> bool:
        """null, or not there."""
        return self.value is None

    def mapping(self) -> dict[str, Untrusted]:
        if not isinstance(self.value, dict) or len(self.value) > _MOST_ITEMS:
            self.refuse("an object")
        return {key: Untrusted(value, self.file, self._under(text_of(key))) for key, value in self.value.items()}

    def items(self) -> Iterator[Untrusted]:
        if not isinstance(self.value, list) or len(self.value) > _MOST_ITEMS:
            self.refuse(f"a list of at most {_MOST_ITEMS} items")
        return (Untrusted(one, self.file, f"{self.path}[{index}]") for index, one in enumerate(self.value))

    def text(self) -> str:
        if not isinstance(self.value, str) or len(self.value) > _LONGEST_TEXT:
            self.refuse(f"a text of at most {_LONGEST_TEXT} characters")
        return text_of(self.value)

    def texts(self) -> tuple[str, ...]:
        return tuple(one.text() for one in self.items())

    def one_of(self, *words: str) -> str:
        if not isinstance(self.value, str) or self.value not in words:
            self.refuse(f"one of {', '.join(words)}")
        return self.value

    def member(self, kind: type[Choice]) -> Choice:
        return kind(self.one_of(*(one.value for one in kind)))

    def maybe(self, read: Callable[[Untrusted], Found]) -> Found | None:
        """What `read` makes of it; None where it is null or not there."""
        return None if self.missing else read(self)

    def plain(self) -> str | float | bool:
        """A text, a number or a flag: no list and no object."""
        if isinstance(self.value, str):
            return self.text()
        return self.value if isinstance(self.value, bool) else self.number()

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self.refuse("true or false")
        return self.value

    def number(self, least: float = -math.inf, most: float = math.inf) -> float:
        try:
            value = float(self.value) if isinstance(self.value, int | float) else math.nan
        except OverflowError:
            value = math.nan
        if isinstance(self.value, bool) or not math.isfinite(value) or not least <= value <= most:
            span = f" from {least:g} to {most:g}" if math.isfinite(least) and math.isfinite(most) else ""
            span = span or (f" >= {least:g}" if math.isfinite(least) else "")
            self.refuse(f"a number{span}")
        return value

    def number_or_none(self, least: float = -math.inf, most: float = math.inf) -> float | None:
        return None if self.missing else self.number(least, most)

    def numbers(self, least: float, most: float, length: int | None = None) -> tuple[float, ...]:
        """A list of numbers, as long as it has to be."""
        values = tuple(one.number(least, most) for one in self.items())
        if length is not None and len(values) != length:
            self.refuse(f"a list of {length} numbers")
        return values

    def whole(self, least: int = 0) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not least <= self.value <= 10**18:
            self.refuse(f"a whole number >= {least}")
        return self.value


def parsed(content: bytes, file: str) -> Untrusted:
    """The JSON object in a file."""
    if len(content) > MOST_BYTES:
        raise BadRecord(f"{file}: must be at most {MOST_BYTES // 2**20} MB; give a file {_WRITTEN_BY}")
    try:
        value = json.loads(content.decode("utf-8-sig"), parse_constant=_no_number)
    except UnicodeDecodeError:
        raise BadRecord(f"{file}: must be UTF-8 text; give a file {_WRITTEN_BY}") from None
    except RecursionError:
        raise BadRecord(f"{file}: must not be nested that deeply; give a file {_WRITTEN_BY}") from None
    except ValueError as fault:
        why = "it is empty" if not content.strip() else str(fault)
        raise BadRecord(f"{file}: must be JSON ({why}); give a file {_WRITTEN_BY}") from None
    if not isinstance(value, dict):
        raise BadRecord(f"{file}: must hold one JSON object; give a file {_WRITTEN_BY}")
    version = Untrusted(value.get("schema", SCHEMA), file, "schema")
    if version.value != SCHEMA or isinstance(version.value, bool):
        version.refuse(f"{SCHEMA}", "another version of noisymean has written it: run its command again with this one")
    return Untrusted(value, file)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def unrecognised(found: Untrusted) -> BadRecord:
    """The complaint about an object that is none of the records that we know."""
    keys = ", ".join(sorted(text_of(str(key))[:40] for key in found.value)[:6]) or "none"
    return BadRecord(f"{found.file}: must be {_WRITTEN_BY}; its keys are {keys}")
