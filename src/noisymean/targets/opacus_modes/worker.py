"""A process in which a mode runs: `python -m noisymean.targets.opacus_modes.worker RANK PROCESSES STORE`.

Where there are two, they meet in the file STORE and talk over the loopback interface, by gloo. A request is one run. Its input is
read by a thread of its own, so that a process which waits for another one still ends with us.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from noisymean.targets.opacus_modes.modes import mode_named
from noisymean.targets.processes import wire

# for one collective operation; a run is bounded by who asks for it
_WAIT = timedelta(seconds=60)


def main() -> int:
    """Answer until the other side goes away."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    rank, processes, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    borrower = wire.Borrower()
    started = False
    while True:
        request = requests.get()
        try:
            if not started:
                _start(rank, processes, store)
                started = True
            borrower.keep(request["keep"])
            answer = _answer(request, borrower, rank)
        except Exception as fault:  # the boundary of the process: the other side says it in one line
            answer = {"fault": f"{type(fault).__name__}: {' '.join(str(fault).split())[:500]}"}
        wire.send(answers, answer)


def _listen(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Hand on what comes in; at the end of it, end at once, whatever the process is waiting for."""
    while (request := wire.receive(sys.stdin.buffer)) is not None:
        requests.put(request)
    os._exit(0)


def _start(rank: int, processes: int, store: str) -> None:
    import torch

    torch.set_num_threads(1)
    if processes == 1:
        return
    # only this machine's own interface: nothing listens to the outside
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    if loopback:
        os.environ["GLOO_SOCKET_IFNAME"] = loopback[0]
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=processes, timeout=_WAIT
    )


def _answer(request: Mapping[str, Any], borrower: wire.Borrower, rank: int) -> dict[str, Any]:
    import torch

    from noisymean.targets.opacus_modes.training import Order, Training, seeded

    rows = torch.from_numpy(borrower.borrow(request["rows"]).astype("float32"))
    sink = torch.from_numpy(borrower.borrow(request["into"]))
    seeded(int(request["seed"]), rank)
    training = Training(mode_named(request["mode"]), Order(**request["order"]), rows, sink if rank == 0 else None)
    return asdict(training.run())


if __name__ == "__main__":
    sys.exit(main())
