"""The other side of a worker: sessions that answer until the input ends.

The input is read by a thread of its own: a process that computes, or waits for another one, still ends with whoever asked it.

Nothing but the standard library and numpy is imported here: it runs in environments that have no more.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from noisymean.targets.processes import wire


class Session(Protocol):
    """What a request `open` has made."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a request asks for; arrays are filled in place."""


Open = Callable[[Mapping[str, Any], wire.Borrower], Session]


def answers() -> IO[bytes]:
    """Where answers go: the pipe belongs to the protocol, and whatever a library prints goes to standard error."""
    found = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    return found


def questions(*files: Path) -> Iterator[dict[str, Any]]:
    """Whatever is asked. Where no more can come the process ends at once, and takes away what the other side may have left.

    That is the names of arrays, which it takes away itself unless it was killed, and `files` with their folders.
    """
    found: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(found, files), daemon=True).start()
    while True:
        yield found.get()


def _listen(found: queue.SimpleQueue[dict[str, Any]], files: Sequence[Path]) -> None:
    arrays: Sequence[str] = ()
    while (request := wire.receive(sys.stdin.buffer)) is not None:
        arrays = request["keep"]
        found.put(request)
    for file in (*map(Path, arrays), *files):
        with contextlib.suppress(OSError):
            file.unlink()
    for file in files:
        with contextlib.suppress(OSError):
            file.parent.rmdir()
    os._exit(0)


def fault_of(fault: Exception) -> dict[str, Any]:
    """The answer that says what was raised, in one line."""
    return {"fault": f"{type(fault).__name__}: {' '.join(str(fault).split())[:500]}"}


def serve(opened: Open) -> NoReturn:
    """Answer until the other side goes away."""
    out = answers()
    sessions, borrower = dict[int, Session](), wire.Borrower()
    for request in questions():
        try:
            for number in request["forget"]:
                sessions.pop(number, None)
            borrower.keep(request["keep"])
            if request["do"] == "open":
                sessions[request["session"]] = opened(request, borrower)
            answer = sessions[request["session"]].answer(request)
        except Exception as fault:  # the boundary of the process: the other side says it in one line
            answer = fault_of(fault)
        wire.send(out, answer)
    raise AssertionError("questions do not end")
