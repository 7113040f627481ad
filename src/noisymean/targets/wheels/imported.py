"""Import a package out of the bytes of a wheel that were verified: what was hashed is what is compiled and run.

Nothing on disk is looked at again, so no file that was added, no bytecode and no change after the check can be run in its place.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Sequence
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import final

from noisymean.targets.wheels.kept import content_of


def import_from(wheel: Path, digest: str, package: str) -> None:
    """From now on `import PACKAGE` is what this wheel has; the wheel is read once, and is the one with this SHA-256."""
    sys.meta_path.insert(0, Importer(wheel, content_of(wheel, digest), package))


@final
class Importer(MetaPathFinder, ExecutionLoader):
    """The Python modules of one package, from memory. No other package that the wheel may have is offered."""

    def __init__(self, wheel: Path, content: bytes, package: str) -> None:
        self.wheel, self.package = wheel, package
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if name.startswith(f"{package}/") and name.endswith(".py")]
            self.files = {name: archive.read(name) for name in names}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self.package:
            return None
        if self._file(fullname) is None:
            # elsewhere there may be another release, or something that was put beside it
            raise ModuleNotFoundError(f"{self.wheel.name} has no module {fullname}", name=fullname)
        return spec_from_file_location(fullname, self.get_filename(fullname), loader=self)

    def is_package(self, fullname: str) -> bool:
        return (self._file(fullname) or "").endswith("/__init__.py")

    def get_filename(self, fullname: str) -> str:
        # as zipimport names them
        return str(self.wheel / (self._file(fullname) or ""))

    def get_source(self, fullname: str) -> str:
        return decode_source(self.files[self._file(fullname) or ""])

    def _file(self, fullname: str) -> str | None:
        plain = fullname.replace(".", "/")
        return next((name for name in (f"{plain}/__init__.py", f"{plain}.py") if name in self.files), None)
