"""The environment of a library: a folder of the user's cache with its packages, built once, whole or not there.

pip is called by package name with an argument list and with checksums that this package knows (`wheels.pins`); wheels only, so
that nothing is executed by installing. They are kept beside what was unpacked of them, and both are verified each time before
anything is run. Packages that a library names but does not need for what is run here are left out.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from noisymean.folder import cache_folder, own_folder
from noisymean.targets.processes.pip import InstallFailed, locked
from noisymean.targets.wheels import tree
from noisymean.targets.wheels.kept import download, known
from noisymean.targets.wheels.pins import pins_of

_FOLDER, _WHEELS, _PACKAGES = "environments", "wheels", "packages"
Tell = Callable[[str], None]


@final
@dataclass(frozen=True)
class Environment:
    """One library at one version, what is installed with it, and roughly how large that is on disk.

    `needs` are installed with their dependencies, `alone` without: for a library whose own pins cannot be met, or that names much
    more than it takes to run it. What that came to, version by version, is pinned with checksums. `module` is what is imported.
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
        return cache_folder() / _FOLDER / f"{self.library}-{self.version}-py{sys.version_info[0]}{sys.version_info[1]}"

    @property
    def packages(self) -> Path:
        """What is put on the path of an interpreter that has nothing else of anybody's."""
        return self.place / _PACKAGES

    @property
    def is_built(self) -> bool:
        """Whether it is there: whole, since it is renamed into its place."""
        return self.packages.is_dir()

    def installed(self) -> dict[str, str]:
        """The version of every package in it."""
        return {name: version for name, _, version in (pin.title.partition("==") for pin in pins_of(self.title))}

    def source(self) -> Path:
        """The folder of the package, to be read."""
        if (self.packages / self.module).is_dir():
            return self.packages / self.module
        raise InstallFailed(f"{self.title}: {self.place} has no {self.module}; delete it and try again")


def built(environment: Environment, tell: Tell = lambda words: None) -> Environment:
    """The environment, installed now if it is not there; `InstallFailed` says in a line why it could not be."""
    if environment.is_built:
        return environment
    place = environment.place
    try:
        folder = own_folder(_FOLDER)
        with locked(folder / f".{place.name}.lock"):
            if not environment.is_built:
                tell(f"installing {environment.title}, about {environment.megabytes} MB on disk, in {place}")
                _build(environment)
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise InstallFailed(
            f"{environment.title}: {place} could not be written ({reason}); see NOISYMEAN_CACHE"
        ) from None
    return environment


def verified(environment: Environment) -> Path:
    """Its packages, every file of which is as it was published; `InstallFailed` names one that is not."""
    try:
        own_folder(_FOLDER, environment.place.name, _PACKAGES)
        wheels = known(pins_of(environment.title), environment.place / _WHEELS, environment.title)
        tree.verify(wheels, environment.packages, environment.title)
    except (OSError, zipfile.BadZipFile) as fault:
        raise InstallFailed(f"{environment.title}: {fault}; delete {environment.place} and try again") from None
    return environment.packages


def _build(environment: Environment) -> None:
    begun = f".installing-{environment.place.name}-"
    # where there are locks we hold it, so nobody is at work on what is left of one that was killed
    for left in environment.place.parent.glob(f"{begun}*") if os.name == "posix" else ():
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=environment.place.parent, prefix=begun) as scratch:
        folder = Path(scratch) / "environment"
        folder.mkdir(mode=0o700)
        wheels = download(pins_of(environment.title), folder / _WHEELS, environment.title)
        tree.unpack(wheels, folder / _PACKAGES)
        with contextlib.suppress(OSError):
            folder.rename(environment.place)
    if not environment.is_built:
        raise InstallFailed(f"{environment.title}: {environment.place} could not be written; see NOISYMEAN_CACHE")


# Versions are those of the tables in docs/field.md. What a library needs and does not pin itself is pinned where that matters.
OPTAX = Environment("optax", "0.2.8", "optax", 690, ("optax==0.2.8", "jax==0.10.2"))
# its code asks for names that jax 0.5 has dropped, and for six without saying so
OBJAX = Environment("objax", "1.8.0", "objax", 830, ("objax==1.8.0", "jax<0.5", "six"))
JAX_PRIVACY = Environment(
    "jax-privacy", "2.0.0", "jax_privacy", 750, ("jax-privacy==2.0.0", "jax==0.10.2", "keras==3.15.1")
)
# it needs the TensorFlow of its time; its own pins would take the newest, with which it cannot be imported
TENSORFLOW_PRIVACY = Environment(
    "tensorflow-privacy", "0.9.0", "tensorflow_privacy", 1680,
    ("tensorflow-cpu==2.15.1", "scikit-learn", "dm-tree", "cloudpickle", "decorator", "attrs", "mpmath"),
    ("tensorflow-privacy==0.9.0", "dp-accounting==0.4.4", "tensorflow-probability==0.22.1"),
)  # fmt: skip
PFL = Environment("pfl", "0.6.0", "pfl", 230, ("pfl==0.6.0",))
# of the many packages that it names only those that its strategies import
FLWR = Environment(
    "flwr", "1.41.0", "flwr", 320,
    ("numpy", "protobuf<7", "cryptography", "grpcio", "httpx", "typer", "pycryptodome", "iterators", "dp-accounting==0.6.0"),
    ("flwr==1.41.0",),
)  # fmt: skip
ENVIRONMENTS = (OPTAX, OBJAX, TENSORFLOW_PRIVACY, JAX_PRIVACY, PFL, FLWR)
