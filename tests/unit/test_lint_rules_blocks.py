"""Noise that is drawn every so often: a fresh row of a block in every step, the same in several, and none in between."""

from __future__ import annotations

import pytest

from lint_scripts import both

_STEP = """
import numpy as np

class Step:
    def __init__(self, max_grad_norm, noise_multiplier, keep, lot, generator):
        self.max_grad_norm, self.noise_multiplier, self.keep, self.lot = max_grad_norm, noise_multiplier, keep, lot
        self.generator, self.count, self.block = generator, 0, None

    def __call__(self, gradients):
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        total = (gradients * np.minimum(1.0, self.max_grad_norm / norms)).sum(axis=0)
        {refill}
        noise = {row}
        self.count += 1
        return (total + self.noise_multiplier * self.max_grad_norm * noise) / self.lot
"""
_DRAWN = "self.generator.standard_normal((self.keep, total.size))"
_REFILL = f"if self.count % self.keep == 0:\n            self.block = {_DRAWN}"

STEPS = {
    "a row of its own": (_REFILL, "self.block[self.count % self.keep]"),
    "rows taken off": (f"{_REFILL}.tolist()", "self.block.pop()"),
    "the next one": (_REFILL.replace(_DRAWN, f"iter({_DRAWN})"), "next(self.block)"),
    "refilled in one line": (
        f"self.block = {_DRAWN} if self.count % self.keep == 0 else self.block",
        "self.block[self.count % self.keep]",
    ),
    "or none is there yet": (
        f"if self.block is None or self.count % self.keep == 0:\n            self.block = {_DRAWN}",
        "self.block[self.count % self.keep]",
    ),
    "the whole of it, every time": (f"{_REFILL}  # !NM035", "self.block"),
    "the same row, every time": (f"{_REFILL}  # !NM035", "self.block[0]"),
    "none in between": (
        f"{_REFILL}\n        else:\n            self.block = 0 * total",
        "self.block",
    ),
    "begun anew": (f"self.block = np.zeros((self.keep, total.size))\n        {_REFILL}", "self.block[0]"),
}
MISSING = ("none in between", "begun anew")


@pytest.mark.parametrize("name", STEPS)
def test_noise_in_blocks_is_told_from_noise_now_and_then(name: str) -> None:
    refill, row = STEPS[name]
    if name in MISSING:
        refill = refill.replace("if self.count % self.keep == 0:", "if self.count % self.keep == 0:  # !NM051")
    found, marked = both(_STEP.format(refill=refill, row=row))
    assert found == marked


def test_a_name_of_around_the_loop_is_kept_as_well() -> None:
    """The right one takes rows; in the wrong one each tenth of the rounds draws for the nine after it."""
    script = """
        import numpy as np

        def train(weights, loader, generator, noise_multiplier, max_grad_norm):
            for t, grads in enumerate(loader):
                norms = np.linalg.norm(grads, axis=1, keepdims=True)
                total = (grads * np.minimum(1.0, max_grad_norm / norms)).sum(axis=0)
                if t % 10 == 0:
                    block = generator.standard_normal((10, weights.size)){mark}
                weights -= 0.1 * (total + noise_multiplier * max_grad_norm * {noise}) / 64
        """
    for mark, noise in (("", "block[t % 10]"), ("  # !NM035", "block[3]")):
        found, marked = both(script.format(mark=mark, noise=noise))
        assert found == marked
