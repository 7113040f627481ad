"""What `import noisymean` gives, and what it must not load."""

from __future__ import annotations

import subprocess
import sys

import noisymean as nm

PUBLIC = [
    "ASGM",
    "EASGM",
    "FEASGM",
    "SGM",
    "Account",
    "Adjacency",
    "Audit",
    "BatchDenominator",
    "Calibration",
    "Curves",
    "DatasetDenominator",
    "Finding",
    "FinishedRun",
    "InvalidInput",
    "Mechanism",
    "MissingDependency",
    "NoisymeanError",
    "OpacusLoader",
    "Pair",
    "PublicRate",
    "Sampling",
    "Scorecard",
    "Segment",
    "Statement",
    "Undefined",
    "__version__",
    "account",
    "audit",
    "calibrate",
    "ceiling",
    "ceiling_clt",
    "check",
    "claimed",
    "curve",
    "guarantee",
    "guarantee_tight",
    "leakage",
    "per_pair",
    "probe",
    "probe_run",
    "register",
    "statement",
]


def test_exactly_these_names() -> None:
    assert sorted(nm.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert hasattr(nm, name), name


def test_every_public_object_has_a_docstring() -> None:
    missing = [name for name in PUBLIC if not (getattr(nm, name).__doc__ or "").strip()]
    assert missing == []


def test_import_loads_no_heavy_module() -> None:
    heavy = ["torch", "opacus", "matplotlib", "typer", "rich", "dask", "pandas", "scipy.stats", "mpmath"]
    code = f"import noisymean, sys; print(*(set({heavy!r}) & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert loaded == []
