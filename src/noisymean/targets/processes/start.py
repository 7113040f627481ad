"""Start a module of ours in an environment that has nothing that noisymean needs: `python -I start.py MODULE FOLDER...`.

`import noisymean` would import scipy and more. So the packages above the module are put in place empty, with their folders but
without their own code, and what the module imports of us is all that runs. The folders come after the standard library, as
packages do, and are put on the path as they are: no `.pth` in them is read.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path

_SOURCE = Path(__file__).resolve().parents[3]


def main() -> int:
    """Run `main` of the module."""
    parent = os.getppid()
    name = sys.argv[1]
    parts = name.split(".")[:-1]
    for count in range(1, len(parts) + 1):
        package = types.ModuleType(".".join(parts[:count]))
        package.__path__ = [str(_SOURCE.joinpath(*parts[:count]))]
        sys.modules[package.__name__] = package
    importlib.import_module("noisymean.targets.processes.begin").end_with(parent)
    sys.path.extend(sys.argv[2:])
    return int(importlib.import_module(name).main())


if __name__ == "__main__":
    sys.exit(main())
