"""The other side of a worker: sessions that answer until the input ends.

The input is read by a thread of its own: a process that computes, or waits for another one, still ends with whoever asked it, and
so do the processes that it has started. Foreign code finds no questions on its standard input, and what it prints is no answer.

Nothing but the standard library and numpy is imported here: it runs in environments that have no more.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

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
    questions = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(questions, asked, files), daemon=True).start()
    try:
        while True:
            try:
                wire.send(out, answer(asked.get()))
            except BrokenPipeError:
                raise
            except Exception as fault:  # the boundary of the process: the other side says it in one line
                wire.send(out, {"fault": f"{type(fault).__name__}: {_said(fault)}"})
    except BaseException:
        traceback.print_exc()
    # without waiting for the reader, which holds its lock on the questions
    os._exit(1)


def _said(fault: Exception) -> str:
    """On one line; the message of a foreign exception is foreign code as well."""
    try:
        return " ".join(str(fault).split())[:500]
    except Exception:
        return "its message cannot be read"


def _listen(questions: IO[bytes], asked: queue.SimpleQueue[dict[str, Any]], files: Sequence[Path]) -> None:
    arrays: Sequence[str] = ()
    while (request := wire.receive(questions)) is not None:
        arrays = request.get("keep", ())
        asked.put(request)
    for file in (*map(Path, arrays), *files):
        with contextlib.suppress(OSError):
            file.unlink()
    for file in files:
        with contextlib.suppress(OSError):
            file.parent.rmdir()
    _end_what_was_started()
    os._exit(0)


def _end_what_was_started() -> None:
    """Where this process leads its group: all others of it, and then itself."""
    if os.name == "posix" and os.getpgrp() == os.getpid():
        with contextlib.suppress(OSError):
            os.killpg(os.getpgrp(), signal.SIGKILL)
