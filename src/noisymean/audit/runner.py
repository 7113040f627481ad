r"""Run the blocks of a plan: here, in processes of their own, or on many machines (dask).

Every worker computes `run_block(plan, index)`; what comes back, in any order, goes to the store at once. Ctrl-C stops handing out
blocks and keeps what is finished.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, final

from noisymean.audit import isolation
from noisymean.audit.store import Store
from noisymean.audit.trials import Block, FaultyTrial, Plan, run_block, runs_one_by_one
from noisymean.errors import InvalidInput, MissingDependency, NoisymeanError
from noisymean.targets import registry

LOCAL_CLUSTER = "local"
# Blocks in flight for each worker of a cluster.
_AHEAD = 4


class Workers(Protocol):
    """Who computes the blocks."""

    def run(self, plan: Plan, indices: Sequence[int]) -> Iterator[Block]:
        """The blocks of these numbers, each as soon as it is finished."""


class ClusterGone(NoisymeanError):
    """The scheduler of a cluster went away in the middle of an audit."""


@final
@dataclass(frozen=True)
class Processes:
    """So many processes on this machine; one is this process itself, unless trials are isolated from it or limited in time.

    `trial_timeout`: seconds that a trial may take.
    """

    count: int = 1
    isolate: bool = False
    trial_timeout: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.count <= 4096:
            raise InvalidInput("jobs", self.count, "a whole number from 1 to 4096")
        isolation.check_limit(self.trial_timeout)

    def run(self, plan: Plan, indices: Sequence[int]) -> Iterator[Block]:
        if self.count == 1 and not self.isolate and self.trial_timeout is None:
            yield from (run_block(plan, index) for index in indices)
            return
        limit = _limit(plan, self.trial_timeout)
        yield from isolation.blocks(plan, indices, _name(plan), count=self.count, limit=limit)


@final
@dataclass(frozen=True)
class Dask:
    """Workers of a dask cluster: its scheduler's address, or `local` for one on this machine; the rest as of `Processes`."""

    address: str
    count: int = 1
    # seconds to wait for the scheduler
    patience: float = 10.0
    isolate: bool = False
    trial_timeout: float | None = None

    def __post_init__(self) -> None:
        isolation.check_limit(self.trial_timeout)

    def run(self, plan: Plan, indices: Sequence[int]) -> Iterator[Block]:
        try:
            dask: Any = importlib.import_module("dask.distributed")
        except ImportError:
            raise MissingDependency("distributed", "distributed") from None
        if self.address == LOCAL_CLUSTER:
            with (
                _quiet(),
                _single_threaded(),
                dask.LocalCluster(
                    n_workers=self.count, threads_per_worker=1, dashboard_address=None, silence_logs=50
                ) as cluster,
                dask.Client(cluster) as client,
            ):
                client.run(_ignore_interrupts)
                yield from self._submitted(dask, client, plan, indices, self.count)
            return
        try:
            client = dask.Client(self.address, timeout=self.patience)
        except (OSError, ValueError, TimeoutError) as fault:
            raise InvalidInput(
                "dask", self.address, "the address of a running scheduler, or local", f"e.g. tcp://host:8786 ({fault})"
            ) from None
        with _quiet():
            try:
                yield from self._submitted(dask, client, plan, indices, max(1, len(client.nthreads())))
            except (OSError, TimeoutError, CancelledError) as fault:
                raise ClusterGone(
                    f"--dask={self.address}: the scheduler went away in the middle of the audit ({type(fault).__name__});"
                    " start one, and go on with --resume from what --store has"
                ) from None
            finally:
                # one that is gone is not waited for
                with suppress(OSError, TimeoutError, CancelledError):
                    client.close(timeout=self.patience if client.status == "running" else 0)

    def _submitted(self, dask: Any, client: Any, plan: Plan, indices: Sequence[int], workers: int) -> Iterator[Block]:
        waiting = iter(indices)
        isolated = self.isolate or self.trial_timeout is not None
        name, limit = _name(plan), _limit(plan, self.trial_timeout)

        def submit(count: int) -> list[Any]:
            return [
                client.submit(_on_a_cluster, plan, index, name, isolated, limit, retries=2)
                for index in islice(waiting, count)
            ]

        running = dask.as_completed(submit(_AHEAD * workers))
        for future in running:
            try:
                block = future.result()
            except dask.KilledWorker:
                raise _dead_worker(plan) from None
            if isinstance(block, FaultyTrial):
                raise block
            yield block
            future.release()
            running.update(submit(1))
        if isolated:
            client.run(isolation.dismiss)


def _on_a_cluster(plan: Plan, index: int, name: str, isolated: bool, limit: float | None) -> Block | FaultyTrial:
    """A target's fault is an answer: it would be the same again, and dask tries again what raises."""
    try:
        return isolation.block(plan, index, name, limit) if isolated else run_block(plan, index)
    except FaultyTrial as fault:
        return fault


def _limit(plan: Plan, seconds: float | None) -> float | None:
    if seconds is not None and not runs_one_by_one(plan):
        raise InvalidInput(
            "trial_timeout", seconds, "left out for this target", "its trials are drawn many at a time, by code of ours"
        )
    return seconds


def _name(plan: Plan) -> str:
    return registry.rebuilt(json.loads(plan.target)).name


def _dead_worker(plan: Plan) -> FaultyTrial:
    """A complaint that nothing was judged: silence would look like an answer."""
    return FaultyTrial(
        f"{_name(plan)}: a worker process died in the middle of a trial (it was killed, crashed, or ran out of memory), so"
        " nothing was judged"
    )


def _ignore_interrupts() -> None:
    # Ctrl-C reaches the whole group of processes; it is for the first of them alone to answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _quiet() -> Iterator[None]:
    """What dask logs of connections that are lost is said by us, in a line.

    Where it was left by a fault it stays quiet: threads of a client that has lost its scheduler complain until the very end.
    """
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """New processes leave the linear algebra to one thread each."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: value or "1" for name, value in before.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


@final
@dataclass(frozen=True, eq=False)
class Finished:
    """The blocks that are there, and whether that is all of them."""

    blocks: list[Block]
    interrupted: bool


def run(
    plan: Plan,
    workers: Workers,
    *,
    store: Store | None = None,
    resume: bool = False,
    progress: Callable[[int], None] = lambda trials: None,
) -> Finished:
    """Every block of `plan` that the store does not have yet; `progress` is told how many trials are finished."""
    blocks = [] if store is None else store.blocks(plan)
    if blocks and not resume:
        raise InvalidInput(
            "store",
            str(store.path if store else ""),
            f"a file without results of this very audit ({len(blocks)} of {plan.blocks} blocks are there)",
            "add --resume to go on from there",
        )
    finished = sum(block.trials for block in blocks)
    progress(finished)
    there = {block.index for block in blocks}
    missing = [index for index in range(plan.blocks) if index not in there]
    found = workers.run(plan, missing) if missing else iter(())
    try:
        for block in found:
            if store is not None:
                store.add(plan, block)
            blocks.append(block)
            finished += block.trials
            progress(finished)
    except KeyboardInterrupt:
        return Finished(blocks, interrupted=True)
    finally:
        if isinstance(found, Generator):
            # its processes end now, and not when nobody holds it any more
            found.close()
    return Finished(blocks, interrupted=False)
