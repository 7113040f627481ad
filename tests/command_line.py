"""A command line, run in this process."""

from __future__ import annotations

import contextlib
import io
from typing import NamedTuple

from noisymean.cli import main


class Result(NamedTuple):
    """What came out of it."""

    code: int
    out: str
    err: str


def run(*words: str) -> Result:
    """One command line, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return Result(code, out.getvalue(), err.getvalue())
