"""Blocks in processes of their own: whatever a target does there, it does neither to us nor to what is kept.

A process that crashes, is killed, or is at one trial for too long is a complaint that names the trial and how to repeat it. All
of them end when the audit does not go on, and with us, whatever way we end. The bits are those of a run in this process.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, final

import numpy as np

from noisymean.audit.trials import Block, FaultyTrial, Plan, named
from noisymean.errors import InvalidInput, Shown, check_number
from noisymean.targets import underway
from noisymean.targets.files import place_of
from noisymean.targets.processes import wire
from noisymean.targets.processes.client import Worker, WorkerFault, beginning
from noisymean.targets.protocol import Target
from noisymean.targets.underway import Stage

_MODULE = "noisymean.audit.worker"
_SOURCE = str(Path(__file__).parents[2])
_LOOK_SECONDS = 0.1
# What a file imports may take its time; that is no trial.
_IMPORT_SECONDS = 60.0
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_WORDS = {
    Stage.STARTING: "before it began",
    Stage.OURS: "between two trials",
    Stage.IMPORT: "while its file was imported",
    Stage.ATTRIBUTE: "while its claim was read",
    Stage.FIRST_RUN: "in a first run",
}


class Broken(RuntimeError):
    """A fault of ours in another process, with its traceback."""


def check_limit(seconds: float | None) -> None:
    """Complain about a limit that no trial could keep."""
    if seconds is not None:
        check_number("trial_timeout", seconds, above=0.0, most=1e6, remedy="or left out, for no limit")


@final
class _Process:
    """One worker, what it is at, and since when."""

    def __init__(self, *, alone: bool) -> None:
        self.alone, self.folder = alone, os.getcwd()
        path = os.pathsep.join(filter(None, [_SOURCE, os.environ.get("PYTHONPATH")]))
        # several leave the linear algebra to one thread each
        threads = {} if alone else {name: os.environ.get(name) or "1" for name in _THREADS}
        self.worker = Worker(
            "target",
            beginning(_MODULE),
            {**os.environ, **threads, "PYTHONPATH": path},
            heard=True,
        )
        self.numbers, place = self.worker.lender.lend((underway.SIZE,), underway.KIND)
        self.numbers[...] = 0
        given = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        self._first: dict[str, Any] = {"path": [entry or os.getcwd() for entry in sys.path]}
        self._first |= {"place": place, "environment": given}
        self._plan: Plan | None = None
        self._seen, self._since = -1, 0.0

    def tell(self, what: Mapping[str, Any], plan: Plan | None = None) -> None:
        """Ask; the set-up and the plan are said once."""
        more = dict(self._first)
        if plan is not None and plan != self._plan:
            more["plan"] = asdict(plan)
        self._first, self._plan, self._seen = {}, plan or self._plan, -1
        try:
            self.worker.tell({**what, **more})
        except BrokenPipeError:
            # the answer says that there is none
            return

    def answer(self) -> dict[str, Any] | None:
        """Waits for it; in a thread."""
        assert self.worker.process.stdout is not None
        return wire.receive(self.worker.process.stdout)

    @property
    def place(self) -> underway.Place:
        return underway.place_in(self.numbers)

    def look_after(self, limit: float | None) -> None:
        """End it if it is at one trial for longer than that; and what it has started, if it has ended itself."""
        self.worker.relay()
        if self.worker.process.poll() is not None:
            self.worker.end("")
        place, now = self.place, monotonic()
        if place.begun != self._seen:
            self._seen, self._since = place.begun, now
        if limit is None or place.stage in (Stage.STARTING, Stage.OURS):
            return
        allowed = limit + (_IMPORT_SECONDS if place.stage is Stage.IMPORT else 0.0)
        if now - self._since > allowed:
            self.worker.end(f"it did not end within {allowed:g} seconds (trial_timeout={limit:g}), and was ended")

    def checked(self, found: dict[str, Any] | None, name: str) -> dict[str, Any]:
        """The answer, or the complaint that it is."""
        try:
            answer = self.worker.checked(found)
        except WorkerFault as fault:
            raise FaultyTrial(f"{name}, {self._where()}: {fault.what}{self._again()}") from None
        finally:
            self.worker.lender.unlink()
            self.worker.relay()
        if "invalid" in answer:
            about, value, allowed, remedy = answer["invalid"]
            raise InvalidInput(about, Shown(value), allowed, remedy)
        if "faulty" in answer:
            raise FaultyTrial(answer["faulty"])
        if "memory" in answer:
            raise MemoryError(answer["memory"])
        if "broken" in answer:
            raise Broken(f"in a process of its own:\n{answer['broken']}")
        return answer

    def _where(self) -> str:
        place = self.place
        if place.stage is Stage.TRIAL and self._plan is not None:
            return named(self._plan, place.block, place.side, place.run)
        return _WORDS.get(place.stage, "")

    def _again(self) -> str:
        """How to make the generator of the trial that it is at, as `files.how_to` says it."""
        place = self.place
        if place.stage is not Stage.TRIAL or self._plan is None:
            return ""
        return f"; its generator: Generator(SFC64(SeedSequence({self._plan.seed}, spawn_key={place.key})))"


# Processes that wait for another audit of this process; they end with it.
_SPARE: list[_Process] = []
_LOCK = threading.Lock()


def _taken(count: int, *, alone: bool) -> list[_Process]:
    """So many processes; those that wait come first, if they were begun in the folder that names of files begin from."""
    here = os.getcwd()
    with _LOCK:
        fit = [one for one in _SPARE if one.worker.usable and (one.alone, one.folder) == (alone, here)][:count]
        _SPARE[:] = [one for one in _SPARE if one.worker.usable and one not in fit]
    return fit + [_Process(alone=alone) for _ in range(count - len(fit))]


def _given_back(processes: Sequence[_Process]) -> None:
    with _LOCK:
        _SPARE.extend(processes)


def dismiss() -> None:
    """End all processes that wait."""
    with _LOCK:
        waiting, _SPARE[:] = list(_SPARE), []
    for one in waiting:
        one.worker.close()


def blocks(
    plan: Plan, indices: Sequence[int], name: str, *, count: int = 1, limit: float | None = None
) -> Generator[Block, None, None]:
    """The blocks of these numbers, each as soon as it is finished, by so many processes."""
    todo = iter(indices)
    alone = count == 1
    processes = _taken(max(1, min(count, len(indices))), alone=alone)
    readers = ThreadPoolExecutor(len(processes), thread_name_prefix="noisymean-blocks")
    reading: dict[Future[dict[str, Any] | None], tuple[_Process, int]] = {}

    def ask(process: _Process) -> None:
        for index in islice(todo, 1):
            process.tell({"do": "block", "index": index}, plan)
            reading[readers.submit(process.answer)] = process, index

    whole = False
    try:
        for process in processes:
            ask(process)
        while reading:
            finished, _ = wait(reading, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for process, _ in reading.values():
                process.look_after(limit)
            for future in finished:
                process, index = reading.pop(future)
                answer = process.checked(future.result(), name)
                # it goes on while this one is being kept
                ask(process)
                yield Block(index, _side(answer["smaller"]), _side(answer["larger"]))
        whole = True
    finally:
        if whole:
            _given_back(processes)
        else:
            for process in processes:
                process.worker.end("the audit was ended")
        readers.shutdown(wait=True)
        if not whole:
            for process in processes:
                process.worker.close()


def _side(answer: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    rows, columns = answer["shape"]
    return np.array(answer["numbers"], dtype=np.float64).reshape(rows, columns)


def block(plan: Plan, index: int, name: str, limit: float | None = None) -> Block:
    """One block, by a process of this one that waits for the next."""
    (found,) = blocks(plan, [index], name, limit=limit)
    return found


def first_look(text: str, *, jobs: int = 1, limit: float | None = None) -> tuple[int, int] | None:
    """Import FILE.py:NAME and run it once, in a process of its own; rounds and numbers of its release, where it tells them.

    What would have ended this process is a complaint.
    """
    file, attribute = place_of(text)
    (process,) = _taken(1, alone=jobs == 1)
    whole = False
    with ThreadPoolExecutor(1, thread_name_prefix="noisymean-look") as reader:
        try:
            process.tell({"do": "look", "file": str(file), "attribute": attribute})
            reading = reader.submit(process.answer)
            while not wait([reading], timeout=_LOOK_SECONDS).done:
                process.look_after(limit)
            answer = process.checked(reading.result(), f"{file.name}:{attribute}")
            whole = True
        finally:
            if whole:
                _given_back([process])
            else:
                process.worker.end("the audit was ended")
                process.worker.close()
    seen = answer["seen"]
    return None if seen is None else (int(seen[0]), int(seen[1]))


def looked_at(thing: Any, build: Callable[[Any], Target], *, limit: float | None = None) -> Target:
    """The target that `build` makes of `thing`; a user's file is first imported, and its function run, in another process."""
    named_file = isinstance(thing, str | Path) and ".py:" in str(thing)
    seen = first_look(str(thing), limit=limit) if named_file else None
    target = build(thing)
    described = target.configuration()
    if described["target"] != "callable":
        return target
    seen = seen or first_look(f"{described['file']}:{described['attribute']}", limit=limit)
    one_of_a_file: Any = target
    found: Target = replace(one_of_a_file, seen=seen)
    return found
