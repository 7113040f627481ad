"""Our side of a worker: start it, ask it, and have its faults in one line.

A worker belongs to the process that started it and ends with it. It holds any number of sessions; those that are gone here are
told with the next question. Arrays are in memory that both have mapped (`wire`). One whose answer was not waited for, or is none,
is ended: what it says next would be taken for the answer to another question.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from noisymean.errors import NoisymeanError
from noisymean.targets.processes import wire

_PATIENCE = 5.0


class WorkerFault(NoisymeanError):
    """The code that was run raised, or its process ended."""

    def __init__(self, name: str, what: str) -> None:
        self.name, self.what = name, what
        super().__init__(name, what)

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@final
class Worker:
    """A process that answers: `command` starts it, `name` is what its faults are said of.

    With `seconds` it is ended if a question takes longer.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], seconds: float | None = None
    ) -> None:
        self.name, self.owner, self.seconds = name, os.getpid(), seconds
        self.lender = wire.Lender()
        self.gone: list[int] = []
        self.numbers = itertools.count()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=dict(environment),
        )
        self.close = weakref.finalize(self, _end, self.process, self.log, self.owner)

    @property
    def usable(self) -> bool:
        """Whether it is ours and still there."""
        return self.owner == os.getpid() and self.process.poll() is None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One question, one answer; a fault of the other side is one line."""
        # sessions that end meanwhile are told with the next question
        forget = [self.gone.pop() for _ in range(len(self.gone))]
        try:
            with self._in_time() as late:
                answer = self._answer({**request, "keep": self.lender.paths(), "forget": forget})
        except BaseException:
            # an answer that nobody takes must not be the next one's
            self._kill()
            raise
        finally:
            self.lender.unlink()
        if answer is None:
            raise WorkerFault(self.name, self._why_not(late=late.is_set()))
        if "fault" in answer:
            raise WorkerFault(self.name, str(answer["fault"]))
        return answer

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            wire.send(self.process.stdin, request)
        except BrokenPipeError:
            return None
        return wire.receive(self.process.stdout)

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[threading.Event]:
        """A process that is killed answers at once: with nothing."""
        late = threading.Event()
        if self.seconds is None:
            yield late
            return

        def over() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(self.seconds, over)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def _why_not(self, *, late: bool) -> str:
        if late:
            self.process.wait()
            return f"does not answer within {self.seconds:g} seconds"
        try:
            self.process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill()
            return "what it answers is no answer; something in it writes to where answers go"
        return f"its process ended: {self._last_words()}"

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _last_words(self) -> str:
        self.log.seek(0)
        said = self.log.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else f"exit code {self.process.returncode}"


def _end(process: subprocess.Popen[bytes], log: Any, owner: int) -> None:
    """Close its input, which ends it; a forked copy of us has no say in it."""
    if os.getpid() != owner:
        return
    for pipe in (process.stdin, process.stdout, log):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
