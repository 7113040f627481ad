"""Files of results that a command is given: read, and held against what their settings give when they are computed again."""

from __future__ import annotations

import math
import sys

from noisymean import __version__, ordinary
from noisymean.accounts import Account
from noisymean.legible import shortened, text_of
from noisymean.report.page.records import AccountRecord
from noisymean.report.page.untrusted import MOST_BYTES, BadRecord

STANDARD_INPUT = "-"
# Numbers of a file and the same computed again: they may differ by rounding on another machine, and by nothing else.
_SAME = 1e-6


def shown(name: str) -> str:
    """The name of a file in a complaint about it."""
    return "standard input" if name == STANDARD_INPUT else shortened(text_of(name))


def content(name: str) -> bytes:
    """All of a file, or a little more than is accepted."""
    try:
        if name == STANDARD_INPUT:
            stream = getattr(sys.stdin, "buffer", None)
            found = b"" if stream is None else stream.read(MOST_BYTES + 1)
        else:
            found = ordinary.content(name, MOST_BYTES)
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise BadRecord(
            f"{shown(name)}: cannot be read ({reason}); give a file of results, or - for standard input"
        ) from None
    return bytes(found)


def compare(found: AccountRecord, answer: Account) -> None:
    """Nothing is shown that was not computed here. Another version may have known less; it must not have known better."""
    symbol = "epsilon" if answer.asked_delta else "delta"
    if found.version != __version__:
        _not_contradicted(found, answer)
        return
    for which in ("claimed", "leakage", "guarantee"):
        stated, computed = getattr(found, which), answer.value(getattr(answer, which))
        same = stated == computed
        if stated is not None and computed is not None:
            same = math.isclose(stated, computed, rel_tol=_SAME, abs_tol=1e-300)
        if not same:
            raise BadRecord(
                f"{found.file}: {which}.{symbol}={stated}: must be what these settings give, {computed}; the file was changed"
                f" or written by another version ({found.version}): write it again"
            )
    if found.verdict != answer.verdict:
        raise BadRecord(f"{found.file}: verdict={found.verdict}: must be {answer.verdict}; write the file again")


def _not_contradicted(found: AccountRecord, answer: Account) -> None:
    """What leaked for certain then is guaranteed not to be exceeded now, and the other way round."""
    leaked, sound = (answer.value(bound) for bound in (answer.leakage, answer.guarantee))
    for below, above in ((found.leakage, sound), (leaked, found.guarantee)):
        if below is not None and above is not None and below > above * (1.0 + _SAME):
            raise BadRecord(
                f"{found.file}: leakage and guarantee of version {found.version} contradict those of {__version__}, {below} above"
                f" {above}: the file was changed, or one of them is wrong; write it again"
            )
