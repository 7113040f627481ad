"""Inputs that were tampered with end in an answer or in one line, in a process that has 2 GB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "tampered.py"


def check(start: int, stop: int, folder: Path) -> None:
    # the limit only ends what never would
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(start), str(stop)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=3_600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    codes = json.loads(done.stdout)
    # some are harmless, and most are not
    assert codes.get("2", 0) > (stop - start) / 5, codes


def test_some_tampered_inputs(tmp_path: Path) -> None:
    check(0, 8, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 2_000, 250))
def test_two_thousand_tampered_inputs(start: int, tmp_path: Path) -> None:
    check(start, start + 250, tmp_path)
