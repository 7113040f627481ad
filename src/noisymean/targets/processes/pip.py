"""pip, by package name and with argument lists: wheels only, so that nothing of a package is executed by installing it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from noisymean.errors import NoisymeanError


class InstallFailed(NoisymeanError):
    """A package could not be obtained, or is not what it should be."""


def run_pip(
    what: str, packages: Sequence[str], *options: str, python: Path | None = None, alone: bool = True
) -> str | None:
    """`pip install` or `pip download` of wheels, without their dependencies if `alone`; for another interpreter if there is one.

    None if that was done; else the reason why not, empty if pip gave none.
    """
    elsewhere = [] if python is None else ["--python", str(python)]
    command = [
        sys.executable,
        "-m",
        "pip",
        *elsewhere,
        what,
        "--quiet",
        "--only-binary=:all:",
        "--disable-pip-version-check",
    ]
    command += [*(["--no-deps"] if alone else []), *options, *packages]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.decode(errors="replace").splitlines() if line.startswith("ERROR")]
    return said[-1].removeprefix("ERROR: ") if said else ""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time; without locks (Windows) the slower one throws its copy away."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
