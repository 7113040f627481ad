"""The examples run, on a few real images, and say what the documents say that they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("opacus")

ROOT = Path(__file__).parents[2]


def test_mnist_before_and_after() -> None:
    command = [sys.executable, "examples/mnist_opacus.py", "--data-dir", "tests/fixtures", "--batch-size", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    before, after = done.stdout.split("\n\n")
    assert "mechanism   OPACUS-LOADER" in before
    assert "verdict     violated" in before
    assert "fix(optimizer, denominator=8, data_loader=loader)" in before
    assert "mechanism   SGM" in after
    assert "verdict     holds" in after
    # the claim itself does not change: it was made for this
    assert before.splitlines()[1] == after.splitlines()[1]
    shown = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    for line in done.stdout.splitlines():
        assert line in shown
