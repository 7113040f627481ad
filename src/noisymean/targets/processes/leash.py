"""Run a command that ends when we do: `python -I leash.py COMMAND ARGUMENTS`.

Its standard input is a pipe that whoever started it holds open. If that end is closed, by whatever end its holder came to, the
command is ended, and with it all that it has started. What an installer has begun would otherwise go on alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """The exit code of the command."""
    # a group of its own: installers start others
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def end() -> None:
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(command.pid, signal.SIGKILL)
            else:
                command.kill()

    def follow() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        end()

    threading.Thread(target=follow, daemon=True).start()
    try:
        return command.wait()
    except BaseException:
        # Ctrl-C reaches us and not the other group
        end()
        return 1


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # without waiting for the reader, which holds its lock on standard input
    os._exit(code & 0xFF)
