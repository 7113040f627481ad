"""pip, by package name and with argument lists: wheels only, so that nothing of a package is executed by installing it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from noisymean.errors import NoisymeanError

_LEASH = Path(__file__).parent / "leash.py"


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
    code, errors = _leashed(command)
    if code == 0:
        return None
    said = [line for line in errors.decode(errors="replace").splitlines() if line.startswith("ERROR")]
    return said[-1].removeprefix("ERROR: ") if said else ""


def _leashed(command: Sequence[str]) -> tuple[int, bytes]:
    """The exit code of a command that ends when we do, and what it has said to standard error."""
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [sys.executable, "-I", str(_LEASH), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        ) as running,
    ):
        code = running.wait()
        errors.seek(0)
        return code, errors.read()


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
