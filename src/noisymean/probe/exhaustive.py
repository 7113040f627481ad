"""What `typing.assert_never` is from Python 3.11 on: `raise unhandled(kind)` where every kind has had its branch.

A kind without one is an error of the type checker, and of the program if it gets there.
"""

from __future__ import annotations

from typing import NoReturn


def unhandled(value: NoReturn) -> AssertionError:
    """Nothing can be given here, if every kind has its branch."""
    return AssertionError(value)
