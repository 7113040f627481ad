"""A process in which a mode runs: `python -m noisymean.targets.opacus_modes.worker RANK PROCESSES STORE`.

Where there are two, they meet in the file STORE and talk over the loopback interface, by gloo. A request is one run.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from noisymean.targets.opacus_modes.modes import mode_named
from noisymean.targets.processes import wire
from noisymean.targets.processes.serving import answer_all

# for one collective operation; a run is bounded by who asks for it
_WAIT = timedelta(seconds=60)


def main() -> NoReturn:
    """Answer until the other side goes away."""
    rank, processes, store = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    borrower = wire.Borrower()

    @cache
    def started() -> None:
        _start(rank, processes, store)

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        started()
        borrower.keep(request["keep"])
        return _answer(request, borrower, rank)

    answer_all(answer, store)


def _start(rank: int, processes: int, store: Path) -> None:
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
    main()
