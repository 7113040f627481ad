"""Our side of a worker: start it, ask it, and have its faults in one line.

A worker belongs to the process that started it and ends with it, and so does whatever it has started itself: it leads a group of
processes, which is ended as one. Ctrl-C in a terminal does not reach it. It holds any number of sessions; those that are gone
here are told with the next question. Arrays are in memory that both have mapped (`wire`). One whose answer was not waited for, or
is none, is ended: what it says next would be taken for the answer to another question.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from noisymean.errors import NoisymeanError
from noisymean.targets.processes import wire

_PATIENCE = 5.0
_BEGIN = Path(__file__).parent / "begin.py"


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

    With `seconds` it is ended if a question takes longer. What it says to standard error is kept for its last words; if `heard`,
    `relay` passes it on to ours.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        seconds: float | None = None,
        *,
        heard: bool = False,
    ) -> None:
        self.name, self.owner, self.seconds = name, os.getpid(), seconds
        self.lender = wire.Lender()
        self.gone: list[int] = []
        self.numbers = itertools.count()
        # it appends, wherever we read
        self.log = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - lives as long as the worker
        self._heard, self._relayed, self._ended_for = heard, 0, ""
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=dict(environment),
            start_new_session=True,
        )
        self.close = weakref.finalize(self, _end, self.process, self.log, self.owner)

    @property
    def usable(self) -> bool:
        """Whether it is ours and still there."""
        return self.owner == os.getpid() and self.process.poll() is None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One question, one answer; a fault of the other side is one line."""
        try:
            with self._in_time():
                return self.checked(self._answer(request))
        except WorkerFault:
            raise
        except BaseException:
            # an answer that nobody takes must not be the next one's
            self._kill()
            raise
        finally:
            self.lender.unlink()

    def tell(self, request: Mapping[str, Any]) -> None:
        """The question alone; whoever asks so reads the answer, takes `checked` of it and has the names of arrays unlinked."""
        assert self.process.stdin is not None
        # sessions that end meanwhile are told with the next question
        forget = [self.gone.pop() for _ in range(len(self.gone))]
        wire.send(self.process.stdin, {**request, "keep": self.lender.paths(), "forget": forget})

    def checked(self, answer: dict[str, Any] | None) -> dict[str, Any]:
        """An answer that is one; else what is wrong, in one line."""
        if answer is None:
            raise WorkerFault(self.name, self._why_not())
        if "fault" in answer:
            raise WorkerFault(self.name, str(answer["fault"]))
        return answer

    def end(self, why: str) -> None:
        """End it now; whoever waits for its answer is told why."""
        self._ended_for = self._ended_for or why
        end_group(self.process)

    def relay(self) -> None:
        """Pass on what it has said to standard error since the last time."""
        if not self._heard or sys.stderr is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self.log.seek(self._relayed)
            said = self.log.read()
            self._relayed += len(said)
            if said:
                sys.stderr.write(said.decode(errors="replace"))
                sys.stderr.flush()

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        try:
            self.tell(request)
        except BrokenPipeError:
            return None
        return wire.receive(self.process.stdout)

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        """A process that is killed answers at once: with nothing."""
        if self.seconds is None:
            yield
            return
        timer = threading.Timer(self.seconds, self.end, [f"does not answer within {self.seconds:g} seconds"])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _why_not(self) -> str:
        try:
            self.process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill()
            return "what it answers is no answer; something in it writes to where answers go"
        finally:
            # what it has started may hold its files open
            end_group(self.process)
            self.relay()
        return self._ended_for or f"its process ended: {self._last_words()}"

    def _kill(self) -> None:
        end_group(self.process)
        self.process.wait()

    def _last_words(self) -> str:
        code = self.process.returncode
        if code < 0:
            return in_words(code)
        self.log.seek(0)
        said = [] if self._heard else self.log.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else in_words(code)


def beginning(module: str, *arguments: str) -> list[str]:
    """The command that starts a module of ours in this environment; it ends with us from its first moment on."""
    return [sys.executable, "-P", str(_BEGIN), str(os.getpid()), module, *arguments]


def in_words(code: int) -> str:
    """How a process ended, by its exit code: of a signal its name and what it says.

    >>> in_words(3), in_words(-11)
    ('exit code 3', 'SIGSEGV (segmentation fault)')
    """
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
    return f"{name} ({(signal.strsignal(-code) or 'no name').lower()})"


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and all that it has started; nothing if they have ended."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _end(process: subprocess.Popen[bytes], log: Any, owner: int) -> None:
    """Close its input, which ends it; a forked copy of us has no say in it."""
    if os.getpid() != owner:
        return
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_PATIENCE)
    end_group(process)
    process.wait()
    with contextlib.suppress(OSError):
        log.close()
