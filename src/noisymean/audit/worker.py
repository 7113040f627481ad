"""A process that computes blocks, started by `processes.begin`.

    look   import a user's file, run its function once and read what it carries, before anybody else does
    block  all trials of one block

The first request sets it up: our path of modules, and where it writes what it is at. It ends with its parent, whatever it is in
the middle of.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from noisymean.audit.trials import Plan, run_block
from noisymean.errors import InvalidInput, NoisymeanError
from noisymean.targets import underway
from noisymean.targets.processes import wire
from noisymean.targets.processes.serving import answer_all

# of prctl: the signal that comes when the parent ends
_PARENT_DEATH_SIGNAL = 1


def main() -> NoReturn:
    """Answer until the other side goes away."""
    _end_with_parent()
    # Ctrl-C is for the process that asks to answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer_all(answer)


def _end_with_parent() -> None:
    """By the kernel, where it can: code that never lets another thread run would otherwise live on."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


_BORROWER = wire.Borrower()
_PLAN: list[Plan] = []


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, or what is wrong: with the user's input, with a trial, or with us."""
    try:
        _set_up(request)
        match request["do"]:
            case "look":
                # imported by name, since it reads claims
                look = import_module("noisymean.targets.look")
                return {"seen": look.seen(Path(request["file"]), request["attribute"])}
            case _:
                return _block(request["index"])
    except InvalidInput as fault:
        return {"invalid": [fault.name, fault.value, fault.allowed, fault.remedy]}
    except NoisymeanError as fault:
        return {"faulty": str(fault)}
    except MemoryError as fault:
        return {"memory": str(fault)}
    except Exception:  # the boundary of the process: a fault of ours is one in the other as well
        return {"broken": traceback.format_exc()}


def _set_up(request: Mapping[str, Any]) -> None:
    if "path" in request:
        sys.path[:] = request["path"]
        os.environ.pop("PYTHONPATH", None)
        os.environ.update(request["environment"])
        underway.show_in(_BORROWER.borrow(request["place"]))
        # what a target is warned of is the user's to see
        warnings.simplefilter("default")
    if "plan" in request:
        _PLAN[:] = [Plan(**request["plan"])]


def _block(index: int) -> dict[str, Any]:
    found = run_block(_PLAN[0], index)
    # a double is written so that it is read again as it was
    return {
        name: {"shape": side.shape, "numbers": side.ravel().tolist()}
        for name, side in (("smaller", found.smaller), ("larger", found.larger))
    }


if __name__ == "__main__":
    main()
