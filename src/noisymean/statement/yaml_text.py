r"""Plain data as YAML: mappings, lists of texts, texts and numbers, and nothing else.

There is no YAML in Python's library, and a statement needs so little of it that nothing is installed for it. Every text is
quoted, as JSON quotes it, which YAML reads the same; one of several lines is a literal block where all its characters may stand
in one. So no text is ever taken for a number, a date, a comment or a key, and what is read back is what was written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from noisymean.errors import InvalidInput

_INDENT = "  "


def yaml_text(record: Mapping[str, object]) -> str:
    """The record as a YAML document.

    >>> print(yaml_text({"name": "no", "items": ["1"], "delta": 1e-05}), end="")
    name: "no"
    items:
      - "1"
    delta: 1.0e-05
    """
    return "".join(f"{line}\n" for line in _mapping(record, 0))


def _mapping(record: Mapping[str, object], depth: int) -> list[str]:
    lines: list[str] = []
    for key, value in record.items():
        if not key.isidentifier():
            raise InvalidInput("key", key, "a name of letters, digits and underscores")
        start = f"{_INDENT * depth}{key}:"
        match value:
            case Mapping() if value:
                lines += [start, *_mapping(value, depth + 1)]
            case str():
                lines += _text(start, value, depth + 1)
            case Sequence() if value:
                lines += [start, *(f"{_INDENT * (depth + 1)}- {_scalar(one)}" for one in value)]
            case _:
                lines.append(f"{start} {_scalar(value)}")
    return lines


def _text(start: str, value: str, depth: int) -> list[str]:
    """On one line, or as a literal block."""
    parts = value.split("\n")
    if len(parts) > 1 and all(one.isprintable() and one.strip() and not one[0].isspace() for one in parts):
        return [f"{start} |-", *(f"{_INDENT * depth}{one}" for one in parts)]
    return [f"{start} {_quoted(value)}"]


def _scalar(value: object) -> str:
    match value:
        case str():
            return _quoted(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            # what has no point is text to readers of YAML 1.1
            digits, _, power = repr(value).partition("e")
            return f"{digits if '.' in digits else f'{digits}.0'}{f'e{power}' if power else ''}"
        case Mapping():
            return "{}"
        case Sequence():
            return "[]"
    raise InvalidInput("value", value, "a text, a finite number, a mapping or a list of texts")


def _quoted(value: str) -> str:
    """In double quotes; what does not print is written out."""
    return "".join(one if one.isprintable() else _escape(one) for one in json.dumps(value, ensure_ascii=False))


def _escape(one: str) -> str:
    # an unpaired surrogate has no character
    code = 0xFFFD if 0xD800 <= ord(one) <= 0xDFFF else ord(one)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
