"""What `import noisymean` gives, and what it must not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import noisymean as nm

PUBLIC = [
    "ASGM",
    "EASGM",
    "FEASGM",
    "SGM",
    "Account",
    "Adjacency",
    "Calibration",
    "Curves",
    "InvalidInput",
    "MissingDependency",
    "NoisymeanError",
    "OpacusLoader",
    "Undefined",
    "__version__",
    "account",
    "calibrate",
    "ceiling",
    "ceiling_clt",
    "claimed",
    "curve",
    "guarantee",
    "guarantee_tight",
    "leakage",
    "per_pair",
]


def test_exactly_these_names() -> None:
    assert sorted(nm.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert hasattr(nm, name), name


def test_every_public_object_has_a_docstring() -> None:
    missing = [name for name in PUBLIC if not (getattr(nm, name).__doc__ or "").strip()]
    assert missing == []


@pytest.mark.parametrize("module", ["torch", "matplotlib", "typer", "opacus", "rich", "mpmath", "scipy.stats", "pandas"])
def test_import_loads_no_heavy_module(module: str) -> None:
    code = f"import noisymean, sys; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
