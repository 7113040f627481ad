"""Text on its way to a terminal that cannot show all of it: other characters instead of a traceback.

A terminal may know ASCII or cp1252 only. What it cannot encode is spelled out (>= for ≥, sigma for σ) or, where there is no
spelling, written as its code; names of files that are no text in any encoding end the same way.
"""

from __future__ import annotations

import codecs
import contextlib
import re
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


_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True))


def spelled(text: str) -> str:
    """Our own signs in ASCII; anything else, which may be part of a name or of a source, as its code.

    >>> spelled("≥σ─│┼10⁻⁵é☃")
    '>=sigma-|+10^-5\\\\xe9\\\\u2603'
    """
    powers = re.sub(f"[{''.join(_RAISED)}]+", lambda found: "^" + "".join(map(_RAISED.__getitem__, found[0])), text)
    return "".join(map(_one, powers))


def _one(character: str) -> str:
    if character.isascii():
        return character
    if character in _SPELLED:
        return _SPELLED[character]
    name = unicodedata.name(character, "")
    if name.startswith("BOX DRAWINGS"):
        return {"HORIZONTAL": "-", "VERTICAL": "|"}.get(name.split(" ", 3)[-1], "+")
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _spell_out(fault: UnicodeError) -> tuple[str, int]:
    """An error handler of `codecs`: what cannot be encoded is spelled out, everything else is an error as before."""
    if not isinstance(fault, UnicodeEncodeError):
        raise fault
    return spelled(fault.object[fault.start : fault.end]), fault.end


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
