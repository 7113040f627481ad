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
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from noisymean.targets.processes import wire


class Session(Protocol):
    """What a request `open` has made."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What a request asks for; arrays are filled in place."""


Open = Callable[[Mapping[str, Any], wire.Borrower], Session]


def serve(opened: Open) -> NoReturn:
    """Answer with sessions until the other side goes away."""
    sessions, borrower = dict[int, Session](), wire.Borrower()

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        for number in request["forget"]:
            sessions.pop(number, None)
        borrower.keep(request["keep"])
        if request["do"] == "open":
            sessions[request["session"]] = opened(request, borrower)
        return sessions[request["session"]].answer(request)

    answer_all(answer)


def answer_all(answer: Callable[[Mapping[str, Any]], Mapping[str, Any]], *files: Path) -> NoReturn:
    """Answer whatever is asked. Where no more can come the process ends at once, and takes away what may have been left.

    That is the names of arrays, which the other side takes away itself unless it was killed, and `files` with their folders.
    """
    # the pipe belongs to the protocol: whatever a library prints goes to standard error
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked, files), daemon=True).start()
    try:
        while True:
            try:
                wire.send(out, answer(asked.get()))
            except BrokenPipeError:
                raise
            except Exception as fault:  # the boundary of the process: the other side says it in one line
                said = " ".join(str(fault).split())[:500]
                wire.send(out, {"fault": f"{type(fault).__name__}: {said}"})
    except BaseException:
        traceback.print_exc()
    # without waiting for the reader, which holds its lock on standard input
    os._exit(1)


def _listen(asked: queue.SimpleQueue[dict[str, Any]], files: Sequence[Path]) -> None:
    arrays: Sequence[str] = ()
    while (request := wire.receive(sys.stdin.buffer)) is not None:
        arrays = request.get("keep", ())
        asked.put(request)
    for file in (*map(Path, arrays), *files):
        with contextlib.suppress(OSError):
            file.unlink()
    for file in files:
        with contextlib.suppress(OSError):
            file.parent.rmdir()
    os._exit(0)
