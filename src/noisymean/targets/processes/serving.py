"""The other side of a worker: sessions that answer until the input ends.

Nothing but the standard library and numpy is imported here: it runs in environments that have no more.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from noisymean.targets.processes import wire


class Session(Protocol):
    """What a request `open` has made."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a request asks for; arrays are filled in place."""


Open = Callable[[Mapping[str, Any], wire.Borrower], Session]


def serve(opened: Open) -> int:
    """Answer until the other side goes away."""
    # the pipe belongs to the protocol: whatever a library prints goes to standard error
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    sessions, borrower = dict[int, Session](), wire.Borrower()
    while (request := wire.receive(sys.stdin.buffer)) is not None:
        try:
            for number in request["forget"]:
                sessions.pop(number, None)
            borrower.keep(request["keep"])
            if request["do"] == "open":
                sessions[request["session"]] = opened(request, borrower)
            answer = sessions[request["session"]].answer(request)
        except Exception as fault:  # the boundary of the process: the other side says it in one line
            answer = {"fault": f"{type(fault).__name__}: {_said(fault)}"}
        wire.send(answers, answer)
    return 0


def _said(fault: Exception) -> str:
    """Its words on one line; where a library has put a trace into them, without the places of files."""
    lines = (line.strip() for line in str(fault).splitlines())
    return " ".join(" ".join(line for line in lines if not line.startswith('File "')).split())[:500]
