"""The environment of a library: a folder of the user's cache with a Python of its own, built once, whole or not there.

pip is called by package name with an argument list; wheels only, so that nothing is executed by installing. What was installed is
written beside it, version by version. Packages that a library names but does not need for what is run here are left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from noisymean.folder import cache_folder
from noisymean.targets.processes.pip import InstallFailed, locked, run_pip

_LISTED = "installed.json"
Tell = Callable[[str], None]


@final
@dataclass(frozen=True)
class Environment:
    """One library at one version, what is installed with it, and roughly how large that is on disk.

    `needs` are installed with their dependencies, `alone` without: for a library whose own pins cannot be met, or that names much
    more than it takes to run it. `module` is what is imported.
    """

    library: str
    version: str
    module: str
    megabytes: int
    needs: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The library and its version, as a requirement has them."""
        return f"{self.library}=={self.version}"

    @property
    def place(self) -> Path:
        """Where it is, or will be: the interpreter is part of the name, because its wheels are its own."""
        return (
            cache_folder() / "libraries" / f"{self.library}-{self.version}-py{sys.version_info[0]}{sys.version_info[1]}"
        )

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return _python(self.place)

    @property
    def is_built(self) -> bool:
        """Whether it is there: whole, since it is renamed into its place."""
        return (self.place / _LISTED).is_file()

    def installed(self) -> dict[str, str]:
        """The version of every package in it, once it is built."""
        found: dict[str, str] = json.loads((self.place / _LISTED).read_text(encoding="utf-8"))
        return found

    def source(self) -> Path:
        """The folder of the package, to be read."""
        for folder in [*sorted(self.place.glob("lib*/python*/site-packages")), self.place / "Lib" / "site-packages"]:
            if (folder / self.module).is_dir():
                return folder / self.module
        raise InstallFailed(f"{self.title}: {self.place} has no {self.module}; delete it and try again")


def built(environment: Environment, tell: Tell = lambda words: None) -> Environment:
    """The environment, installed now if it is not there; `InstallFailed` says in a line why it could not be."""
    if environment.is_built:
        return environment
    place = environment.place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.parent / f".{place.name}.lock"):
            if not environment.is_built:
                tell(f"installing {environment.title}, about {environment.megabytes} MB on disk, in {place}")
                _build(environment)
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise InstallFailed(
            f"{environment.title}: {place} could not be written ({reason}); see NOISYMEAN_CACHE"
        ) from None
    return environment


def _python(folder: Path) -> Path:
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def _build(environment: Environment) -> None:
    begun = f".installing-{environment.place.name}-"
    # where there are locks we hold it, so nobody is at work on what is left of one that was killed
    for left in environment.place.parent.glob(f"{begun}*") if os.name == "posix" else ():
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=environment.place.parent, prefix=begun) as scratch:
        folder = Path(scratch) / "environment"
        # our own pip installs into it, so it needs none
        made = subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(folder)],
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        if made.returncode:
            said = made.stderr.decode(errors="replace").strip().splitlines() or ["no reason was given"]
            raise InstallFailed(f"{environment.title}: no environment could be made: {said[-1]}")
        for packages, alone in ((environment.needs, False), (environment.alone, True)):
            failed = (
                run_pip("install", packages, "--no-compile", python=_python(folder), alone=alone) if packages else None
            )
            if failed is not None:
                raise InstallFailed(f"{environment.title}: {failed or 'pip gave no reason; check the network'}")
        listed = sorted(path.name for path in folder.glob("**/site-packages/*.dist-info"))
        names = (name.removesuffix(".dist-info").rpartition("-") for name in listed)
        (folder / _LISTED).write_text(json.dumps({name: version for name, _, version in names}), encoding="utf-8")
        with contextlib.suppress(OSError):
            folder.rename(environment.place)
    if not environment.is_built:
        raise InstallFailed(f"{environment.title}: {environment.place} could not be written; see NOISYMEAN_CACHE")


# Versions are those of the tables in docs/field.md. What a library needs and does not pin itself is pinned where that matters.
OPTAX = Environment("optax", "0.2.8", "optax", 550, ("optax==0.2.8", "jax==0.10.2"))
# its code asks for names that jax 0.5 has dropped, and for six without saying so
OBJAX = Environment("objax", "1.8.0", "objax", 650, ("objax==1.8.0", "jax<0.5", "six"))
JAX_PRIVACY = Environment(
    "jax-privacy", "2.0.0", "jax_privacy", 630, ("jax-privacy==2.0.0", "jax==0.10.2", "keras==3.15.1")
)
# it needs the TensorFlow of its time; its own pins would take the newest, with which it cannot be imported
TENSORFLOW_PRIVACY = Environment(
    "tensorflow-privacy", "0.9.0", "tensorflow_privacy", 1400,
    ("tensorflow-cpu==2.15.1", "scikit-learn", "dm-tree", "cloudpickle", "decorator", "attrs", "mpmath"),
    ("tensorflow-privacy==0.9.0", "dp-accounting==0.4.4", "tensorflow-probability==0.22.1"),
)  # fmt: skip
PFL = Environment("pfl", "0.6.0", "pfl", 200, ("pfl==0.6.0",))
# of the many packages that it names only those that its strategies import
FLWR = Environment(
    "flwr", "1.41.0", "flwr", 270,
    ("numpy", "protobuf<7", "cryptography", "grpcio", "httpx", "typer", "pycryptodome", "iterators", "dp-accounting==0.6.0"),
    ("flwr==1.41.0",),
)  # fmt: skip
ENVIRONMENTS = (OPTAX, OBJAX, TENSORFLOW_PRIVACY, JAX_PRIVACY, PFL, FLWR)
