"""Run a command that ends when we do: `python -I leash.py COMMAND ARGUMENTS`.

Its standard input is a pipe that whoever started it holds open. If that end is closed, by whatever end its holder came to, the
command is ended. What a shell or an installer has begun would otherwise go on alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading


def main() -> int:
    """The exit code of the command."""
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)

    def follow() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        command.kill()

    threading.Thread(target=follow, daemon=True).start()
    return command.wait()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # without waiting for the reader, which holds its lock on standard input
    os._exit(code & 0xFF)
