"""Text on its way to a terminal that cannot show all of it: other characters instead of a traceback.

A terminal may know ASCII or cp1252 only. What it cannot encode is spelled out (>= for ≥, sigma for σ) or, where there is no
spelling, written as its code; names of files that are no text in any encoding end the same way.
"""

from __future__ import annotations

import codecs
import contextlib
import sys
import unicodedata
from collections.abc import Iterator
from typing import TextIO

_HANDLER = "noisymean-spelled-out"
_SPELLED = {
    "≥": ">=", "≤": "<=", "≠": "!=", "≈": "~", "±": "+-", "×": "x", "·": "*", "−": "-", "–": "-", "—": "-", "…": "...",
    "→": "->", "←": "<-", "∞": "inf", "⌊": "floor(", "⌋": ")", "⌈": "ceil(", "⌉": ")", "√": "sqrt", "‘": "'", "’": "'",
    "“": '"', "”": '"', "•": "*", "ε": "epsilon", "δ": "delta", "σ": "sigma", "α": "alpha", "β": "beta", "γ": "gamma",
    "μ": "mu", "λ": "lambda", "\N{NO-BREAK SPACE}": " ",
}  # fmt: skip


def spelled(character: str) -> str:
    """A character in ASCII, or its code.

    >>> [spelled(one) for one in "≥σ─│┼²é☃"]
    ['>=', 'sigma', '-', '|', '+', '2', 'e', '\\\\u2603']
    """
    if character in _SPELLED:
        return _SPELLED[character]
    name = unicodedata.name(character, "")
    if name.startswith(("BOX DRAWINGS", "BLOCK")):
        kind = name.split(" ", 3)[-1]
        return {"HORIZONTAL": "-", "VERTICAL": "|"}.get(kind, "+")
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode("ascii")
    return plain or character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _spell_out(fault: UnicodeError) -> tuple[str, int]:
    """An error handler of `codecs`: what cannot be encoded is spelled out, everything else is an error as before."""
    if not isinstance(fault, UnicodeEncodeError):
        raise fault
    return "".join(map(spelled, fault.object[fault.start : fault.end])), fault.end


@contextlib.contextmanager
def any_encoding() -> Iterator[None]:
    """Standard output and standard error take any text for as long as this lasts."""
    codecs.register_error(_HANDLER, _spell_out)
    before: list[tuple[TextIO, str]] = []
    for stream in (sys.stdout, sys.stderr):
        # a stream that somebody put in the place of the real one may have no encoding at all
        reconfigure, errors = getattr(stream, "reconfigure", None), getattr(stream, "errors", None)
        if reconfigure is not None and isinstance(errors, str):
            with contextlib.suppress(ValueError, OSError):
                reconfigure(errors=_HANDLER)
                before.append((stream, errors))
    try:
        yield
    finally:
        for stream, errors in before:
            with contextlib.suppress(ValueError, OSError, AttributeError):
                stream.reconfigure(errors=errors)  # type: ignore[attr-defined]
