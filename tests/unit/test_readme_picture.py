"""A picture in README that stands beside its command is the one that the command makes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from command_line import run

pytest.importorskip("matplotlib")

from matplotlib.image import imread

ROOT = Path(__file__).parents[2]


def test_the_picture_is_what_its_command_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    ((command, shown),) = re.findall(r"`noisymean ([^`]* --plot (docs/images/[^`]*))`", text)
    assert f"]({shown})" in text
    monkeypatch.chdir(tmp_path)
    (tmp_path / shown).parent.mkdir(parents=True)
    assert run(*shlex.split(command)).code == 0
    committed, drawn = imread(ROOT / shown), imread(tmp_path / shown)
    assert committed.shape == drawn.shape
    # fonts may be hinted a little differently; a curve that moves is hundreds of pixels
    changed = np.abs(committed - drawn).max(axis=2) > 0.25
    assert changed.mean() < 1e-3
