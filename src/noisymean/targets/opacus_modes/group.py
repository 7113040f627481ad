"""Our side: one process, or two that share each batch. They are asked together, and a run is bounded in time.

If one of two raises, the other would wait for it: both are ended, and the next run has new ones. So they are where they do not
answer in time. They belong to the process that started them, and end with it whatever way it ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from time import monotonic
from typing import Any, final

from noisymean.errors import NoisymeanError
from noisymean.targets.processes import wire
from noisymean.targets.processes.client import beginning

MODULE = "noisymean.targets.opacus_modes.worker"
SECONDS = 240.0
_PATIENCE = 5.0
_SOURCE = str(Path(__file__).parents[3])


class GroupFault(NoisymeanError):
    """What ran raises, ends, or does not answer in time; in one line."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        return self.what


@final
class Group:
    """So many processes, ready to run any mode that needs them."""

    def __init__(self, processes: int, module: str = MODULE) -> None:
        self.owner, self.count = os.getpid(), processes
        self.lender = wire.Lender()
        self.folder = tempfile.TemporaryDirectory(prefix="noisymean-", ignore_cleanup_errors=True)
        path = os.pathsep.join(filter(None, [_SOURCE, os.environ.get("PYTHONPATH")]))
        store = str(Path(self.folder.name, "store"))
        self.logs = [tempfile.TemporaryFile() for _ in range(processes)]  # noqa: SIM115 - live as long as the processes
        self.processes = [
            subprocess.Popen(
                beginning(module, str(rank), str(processes), store),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
            for rank, log in enumerate(self.logs)
        ]
        self.readers = ThreadPoolExecutor(processes, thread_name_prefix="noisymean-group")
        self.close = weakref.finalize(self, _end, self.processes, self.readers, self.logs, self.folder, self.owner)

    @property
    def usable(self) -> bool:
        """Whether it is ours, and all of it still there."""
        return self.owner == os.getpid() and all(one.poll() is None for one in self.processes)

    def ask(self, request: Mapping[str, Any], seconds: float = SECONDS) -> list[dict[str, Any]]:
        """The answers of all processes, in their order; the first fault of any ends the question."""
        waiting: dict[Future[dict[str, Any] | None], int] = {}
        try:
            for rank, process in enumerate(self.processes):
                assert process.stdin is not None
                assert process.stdout is not None
                with contextlib.suppress(BrokenPipeError):
                    wire.send(process.stdin, {**request, "keep": self.lender.paths()})
                waiting[self.readers.submit(wire.receive, process.stdout)] = rank
            return self._gathered(waiting, monotonic() + seconds, seconds)
        except GroupFault:
            raise
        except BaseException:
            # answers that nobody takes must not be those to the next question
            self.close()
            raise
        finally:
            self.lender.unlink()

    def _gathered(
        self, waiting: dict[Future[dict[str, Any] | None], int], until: float, seconds: float
    ) -> list[dict[str, Any]]:
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < self.count:
            left = [one for one, rank in waiting.items() if rank not in answers]
            done, _ = wait(left, timeout=max(0.0, until - monotonic()), return_when=FIRST_COMPLETED)
            if not done:
                self.close()
                raise GroupFault(f"does not answer within {seconds:g} seconds")
            for one in done:
                rank, answer = waiting[one], one.result()
                if answer is None:
                    said = self._why_not(rank)
                    self.close()
                    raise GroupFault(said)
                if "fault" in answer:
                    if self.count > 1:
                        # the others wait for this one
                        self.close()
                    raise GroupFault(f"raises {answer['fault']}")
                answers[rank] = answer
        return [answers[rank] for rank in range(self.count)]

    def _why_not(self, rank: int) -> str:
        """Its last words, if it has ended."""
        try:
            self.processes[rank].wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            return "answers what is no answer"
        log = self.logs[rank]
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
        return f"ends its process: {said[-1] if said else f'exit code {self.processes[rank].returncode}'}"


_GROUPS: dict[int, Group] = {}


def group_of(processes: int) -> Group:
    """The group of this process with so many processes, started when it is first needed."""
    group = _GROUPS.get(processes)
    if group is None or not group.usable:
        group = _GROUPS[processes] = Group(processes)
    return group


def dismiss() -> None:
    """End all processes of the modes."""
    while _GROUPS:
        _GROUPS.popitem()[1].close()


def _end(
    processes: Sequence[subprocess.Popen[bytes]],
    readers: ThreadPoolExecutor,
    logs: Sequence[Any],
    folder: Any,
    owner: int,
) -> None:
    """End them; a forked copy of us has no say in it. They hold nothing that could be lost."""
    if os.getpid() != owner:
        return
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
    # their ends of the pipes are closed now, so that nobody reads any more
    readers.shutdown(wait=True)
    for process in processes:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
    for log in logs:
        log.close()
    folder.cleanup()
