"""Start a module as a process that ends with its parent: `python -P begin.py PARENT MODULE ARGUMENTS`.

What a module imports may take seconds, and until then nobody reads its standard input, whose end is what else tells it that it is
alone. So this comes first, and is small.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

_LOOK_SECONDS = 0.5


def end_with(parent: int) -> None:
    """From now on this process, and those that it has started, end soon after the one of that number."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        if os.name == "posix" and os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


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
