"""Other interpreters and older packages than those that `make` installs: `nox`, or `nox -s lowest`, `nox -l` for all of them.

An interpreter that is not on this machine is skipped, and said to be. Python 3.10 is not among them: its end of life has come,
and the project wants 3.11.
"""

from __future__ import annotations

import os
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.sessions = ["lint", "tests", "lowest"]
nox.options.error_on_missing_interpreters = False

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
# pyenv's own commands refuse a version that is not chosen: those that it has installed are put on the path themselves
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
_FOLDERS = [str(folder) for version in PYTHONS for folder in sorted(_PYENV.glob(f"{version}.*/bin"))]
os.environ["PATH"] = os.pathsep.join([*_FOLDERS, os.environ["PATH"]])
PROJECT = nox.project.load_toml("pyproject.toml")
# What the selection of `make check` needs beside the package itself; audits, which want torch, are left to `make test`.
EXTRAS = ("plots", "report", "frames")
TESTING = ("pytest", "pytest-xdist", "hypothesis", "mpmath")
CHECK = ("-n", "2", "-m", "not slow", "@tests/check.txt")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """What `make check` tries, with the newest packages that pip finds for this interpreter."""
    session.install(f".[{','.join(EXTRAS)}]", *_testing())
    session.run("python", "-m", "pytest", *CHECK, *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """The same with the lowest versions that pyproject.toml allows: its bounds are what has been tried."""
    session.install(*_lowest(), *_testing())
    session.install("--no-deps", ".")
    # old packages warn of what they use of newer ones; that is not ours to mend
    lenient = ("-W", "default::DeprecationWarning", "-W", "default::PendingDeprecationWarning")
    session.run("python", "-m", "pytest", *lenient, *CHECK, *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """`make lint`."""
    session.run("make", "lint", external=True)


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """`make docs`."""
    session.run("make", "docs", external=True)


def _lowest() -> list[str]:
    """Every requirement `name>=version` of the package and of EXTRAS as `name==version`."""
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    return [one.replace(">=", "==") for one in wanted]


def _testing() -> list[str]:
    """The tools that run the tests, in the versions that `make` installs."""
    lines = Path("constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.partition("==")[0] in TESTING]
