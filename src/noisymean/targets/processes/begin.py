"""Start a module as a process that ends with its parent: `python -P begin.py PARENT MODULE ARGUMENTS`.

What a module imports may take seconds, and until then nobody reads its standard input, whose end is what else tells it that it is
alone. So this comes first, and is small.

Foreign code may start processes, crash, or keep every other thread of its process from running. So one more process, which
does nothing else, waits for this one to end, and then ends all that is left of its group.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sys
import threading
import time

_LOOK_SECONDS = 0.5


def end_with(parent: int) -> None:
    """From now on this process, and those that it has started, end soon after the one of that number."""
    _leave_a_guard()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        if os.name == "posix" and os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def _leave_a_guard() -> None:
    """A process of our group that is no child of ours: a target that waits for all of its children does not wait for it."""
    leader = os.getpid()
    if os.name != "posix" or os.getpgrp() != leader:
        return
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return
    if os.fork():
        os._exit(0)
    # pipes that it held open would never come to an end
    os.closerange(0, 64)
    _wait_for(leader)
    # itself as well
    os.killpg(leader, signal.SIGKILL)
    os._exit(0)


def _wait_for(number: int) -> None:
    """Until that process has ended, whether or not anybody has taken note of it. No other gets its number: a group has it."""
    try:
        ended = os.pidfd_open(number)
    except (AttributeError, OSError):
        while _is_there(number):
            time.sleep(_LOOK_SECONDS)
    else:
        select.select([ended], [], [])


def _is_there(number: int) -> bool:
    try:
        os.kill(number, 0)
    except OSError:
        return False
    return True


def main() -> None:
    """Run the module as if it were the program."""
    parent, module = int(sys.argv[1]), sys.argv[2]
    if os.getppid() != parent:
        # it ended before this began
        os._exit(1)
    end_with(parent)
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
