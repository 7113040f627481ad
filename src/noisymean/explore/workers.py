"""Questions answered in other processes, with a time limit.

A process can be stopped in the middle of a sum, a thread cannot. What is no longer wanted is given a moment to finish, because
it is then remembered and a new process takes a second to start; what takes longer than its limit is stopped. No process outlives
the one that started it, however that ended.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection
from queue import Empty, LifoQueue
from typing import Any, Literal, TypeAlias, final

from noisymean.errors import NoisymeanError
from noisymean.explore.answers import PARTS, REPORT
from noisymean.explore.settings import about, in_symbols
from noisymean.report.asked_run import AskedRun

LIMIT_SECONDS = 8.0
# A report has more points in its pictures than the page, and is asked for by a button.
REPORT_SECONDS = 600.0
_GRACE_SECONDS = 1.5
_LOOK_SECONDS = 0.05
_START_SECONDS = 60.0
_READY = ("ready", None)
_PROCESSES = 3
_REMEMBERED = 512
_MOST_PAGES = 256

Kind = Literal["complete", "slow", "refused", "failed", "unwanted"]
Report: TypeAlias = Callable[[AskedRun, str], str]


@final
@dataclass(frozen=True)
class Outcome:
    """complete: the answer. slow: what there was at the limit, or None. refused, failed: why. unwanted: nobody waits for it.

    `about` is the control or choice that is refused, where it is one.
    """

    kind: Kind
    answer: Any = None
    message: str = ""
    about: str = ""

    @classmethod
    def refused(cls, fault: NoisymeanError) -> Outcome:
        return cls("refused", message=in_symbols(fault), about=about(fault))


@final
class Newest:
    """Which request of a page is its latest; older ones are not wanted any more."""

    def __init__(self) -> None:
        self._serials: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def wanted(self, page: str, serial: int) -> Callable[[], bool]:
        """Note the request; the function says whether a newer one has come since."""
        with self._lock:
            self._serials[page] = max(serial, self._serials.pop(page, serial))
            while len(self._serials) > _MOST_PAGES:
                self._serials.popitem(last=False)
        return lambda: self._serials.get(page, serial) <= serial


@final
class _Worker:
    """One process, which answers one question at a time."""

    def __init__(self, report: Report) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, report), daemon=True)
        # Ctrl-C reaches the whole group of processes: only this one is to say something about it
        mask = getattr(signal, "pthread_sigmask", None)
        before = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask else None
        try:
            self._process.start()
        finally:
            if mask:
                mask(signal.SIG_SETMASK, before)
        theirs.close()
        self._ready = False

    def ready(self, wanted: Callable[[], bool]) -> bool:
        """Whether it has loaded the mathematics, which is waited for and counts for no limit."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready and wanted() and time.monotonic() < deadline:
            self._ready = self.connection.poll(_LOOK_SECONDS) and self.connection.recv() == _READY
        return self._ready

    def stop(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.join()


def _work(connection: Connection, report: Report) -> None:
    """Until the other end is closed: (part, question) in, ("partial", what there is so far) or an outcome out."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        connection.send(_READY)
        while True:
            _answer(connection, report, *connection.recv())


def _end_with_parent() -> None:
    """In the middle of a sum, too: the end of a connection is seen between two questions only."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(connection: Connection, report: Report, part: str, question: AskedRun, *more: str) -> None:
    try:
        if part == REPORT:
            answer = report(question, *more)
        else:
            answer = PARTS[part](question, lambda early: connection.send(("partial", early)))
    except NoisymeanError as fault:
        connection.send(Outcome.refused(fault))
    except OSError:
        raise
    except Exception as fault:  # the boundary of the process
        connection.send(Outcome("failed", message=f"{type(fault).__name__}: {fault}"))
    else:
        connection.send(Outcome("complete", answer))


@final
@dataclass
class _Slot:
    """Where an answer is kept once it is complete."""

    outcome: Outcome | None = None


@lru_cache(maxsize=_REMEMBERED)
def _slot(part: str, question: AskedRun) -> _Slot:
    return _Slot()


def _no_report(question: AskedRun, line: str) -> str:
    raise NoisymeanError("no report can be made here")


@final
@dataclass
class Workers:
    """Some processes; questions wait for an idle one."""

    limit: float = LIMIT_SECONDS
    report: Report = _no_report
    _idle: LifoQueue[_Worker] = field(default_factory=LifoQueue)
    _all: set[_Worker] = field(default_factory=set)
    _ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """In the background: each takes a second to load the mathematics."""
        for _ in range(_PROCESSES):
            self._add()

    def stop(self) -> None:
        """End every process, and start none in the place of one that was given up."""
        with self._lock:
            self._ended = True
            there = list(self._all)
        for worker in there:
            worker.stop()

    def ask(self, part: str, question: AskedRun, wanted: Callable[[], bool] = lambda: True) -> Outcome:
        """The answer, if it comes in time and is wanted until then."""
        slot = _slot(part, question)
        if slot.outcome is not None:
            return slot.outcome
        worker = self._take(wanted)
        if worker is None:
            return _late(wanted)
        none = _sent(worker, (part, question), wanted)
        if none is not None:
            if none.kind == "failed":
                self._replace(worker)
            else:
                self._idle.put(worker)
            return none
        waiting = _Waiting(worker, time.monotonic() + self.limit)
        outcome = waiting.outcome(wanted)
        if outcome.kind == "unwanted":
            threading.Thread(target=self._finish, args=(waiting, slot), daemon=True).start()
        else:
            self._done(waiting, slot, outcome)
        return outcome

    def make_report(self, question: AskedRun, line: str) -> Outcome:
        """The page of `noisymean report`, which may take longer and is not kept; `line` is the command that writes it.

        It has a process of its own, so that the page has all of the others in the meantime.
        """
        worker = self._made()
        if worker is None:
            return _DEAD
        try:
            none = _sent(worker, (REPORT, question, line), lambda: True)
            return none or _Waiting(worker, time.monotonic() + REPORT_SECONDS).outcome(lambda: True)
        finally:
            self._end(worker)

    def _take(self, wanted: Callable[[], bool]) -> _Worker | None:
        deadline = time.monotonic() + self.limit
        while wanted() and time.monotonic() < deadline:
            with suppress(Empty):
                return self._idle.get(timeout=_LOOK_SECONDS)
        return None

    def _finish(self, waiting: _Waiting, slot: _Slot) -> None:
        """Nobody waits, but an answer that is nearly there is worth keeping."""
        waiting.deadline = min(waiting.deadline, time.monotonic() + _GRACE_SECONDS)
        self._done(waiting, slot, waiting.outcome(lambda: True))

    def _done(self, waiting: _Waiting, slot: _Slot, outcome: Outcome) -> None:
        if outcome.kind in ("complete", "refused"):
            slot.outcome = outcome
        if waiting.ended:
            self._idle.put(waiting.worker)
        else:
            self._replace(waiting.worker)

    def _replace(self, worker: _Worker) -> None:
        self._end(worker)
        self._add()

    def _add(self) -> None:
        worker = self._made()
        if worker is not None:
            self._idle.put(worker)

    def _made(self) -> _Worker | None:
        """A new process; None once all have been ended."""
        with self._lock:
            if self._ended:
                return None
            worker = _Worker(self.report)
            self._all.add(worker)
            return worker

    def _end(self, worker: _Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.stop()


_DEAD = Outcome("failed", message="the process that computed it ended; try again")


def _late(wanted: Callable[[], bool]) -> Outcome:
    return Outcome("slow" if wanted() else "unwanted")


def _sent(worker: _Worker, message: tuple[object, ...], wanted: Callable[[], bool]) -> Outcome | None:
    """None once the worker has the question; else the outcome of having asked."""
    try:
        if not worker.ready(wanted):
            return _late(wanted)
        worker.connection.send(message)
    except (EOFError, OSError):
        return _DEAD
    return None


@final
@dataclass
class _Waiting:
    """For one answer of one worker."""

    worker: _Worker
    deadline: float
    ended: bool = False
    _early: Any = None

    def outcome(self, wanted: Callable[[], bool]) -> Outcome:
        """What came until the deadline, or until it was not wanted any more."""
        connection = self.worker.connection
        while (left := self.deadline - time.monotonic()) > 0.0:
            try:
                if connection.poll(min(left, _LOOK_SECONDS)):
                    found = connection.recv()
                    if isinstance(found, Outcome):
                        self.ended = True
                        return found
                    _, self._early = found
                    continue
            except (EOFError, OSError):
                return _DEAD
            if not wanted():
                return Outcome("unwanted")
        return Outcome("slow", self._early)
