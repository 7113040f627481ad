"""Our side of a worker: start it, ask it, and have its faults in one line.

A worker belongs to the process that started it and ends with it. It holds any number of sessions; those that are gone here are
told with the next question. Arrays are in memory that both have mapped (`wire`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
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
    """A process that answers: `command` starts it, `name` is what its faults are said of."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name, self.owner = name, os.getpid()
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
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # sessions that end meanwhile are told with the next question
        forget = [self.gone.pop() for _ in range(len(self.gone))]
        try:
            wire.send(self.process.stdin, {**request, "keep": self.lender.paths(), "forget": forget})
            answer = wire.receive(self.process.stdout)
        except BrokenPipeError:
            answer = None
        finally:
            self.lender.unlink()
        if answer is None:
            raise WorkerFault(self.name, f"its process ended: {self._last_words()}")
        if "fault" in answer:
            raise WorkerFault(self.name, answer["fault"])
        return answer

    def _last_words(self) -> str:
        self.process.wait()
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
