"""The examples run, on a few real images, and say what the documents say that they say."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
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


@pytest.mark.slow
def test_a_trainer_before_and_after(tmp_path: Path) -> None:
    """With the real transformers, in an environment of their own that sees the packages of this one."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (packages / "those_here.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    needed = [one for one in extras["transformers"] if not one.startswith("noisymean")]
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", *needed]
    subprocess.run(install, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    for options, mechanism, verdict in ((), "OPACUS-LOADER", "violated"), (("--fixed",), "SGM", "holds, if every step"):
        command = [python, "examples/transformers_opacus.py", "--records", "200", "--batch-size", "20", *options]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"mechanism   {mechanism}" in done.stdout
        assert f"verdict     {verdict}" in done.stdout
        assert "  steps     20 so far" in done.stdout
        # at 1, 2, 5, 10, 20 steps, and the Trainer's own report of the loss at 10 and 20
        shown = [line for line in done.stdout.splitlines() if line.endswith("'step': 20.0}")]
        assert [sum(name in line for line in shown) for name in ("'privacy/steps': 20.0", "'loss'")] == [1, 1]
