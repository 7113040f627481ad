"""Steps that go record by record, layer by layer, or by way of what an object keeps."""

from __future__ import annotations

import pytest

from lint_scripts import both, sides

PAIRS = {
    "noise for each record, in a loop": """
        import numpy as np

        def clip(row, bound):
            return row * min(1.0, bound / np.linalg.norm(row))

        def step(gradients, generator, noise_multiplier, max_grad_norm):
            total = np.zeros(gradients.shape[1])
            for row in gradients:
                {-total += clip(row, max_grad_norm) + noise_multiplier * max_grad_norm * generator.standard_normal(row.size)  # !NM048-|+total += clip(row, max_grad_norm)+}
            {--|+total += noise_multiplier * max_grad_norm * generator.standard_normal(total.size)+}
            return total / 64
        """,
    "noise that is divided twice": """
        import numpy as np

        def step(gradients, generator, noise_multiplier, max_grad_norm):
            clipped = gradients * np.minimum(1, max_grad_norm / np.linalg.norm(gradients, axis=1))[:, None]
            noise = generator.normal(0, noise_multiplier * max_grad_norm{- / 64-|++}, gradients.shape[1])
            return (clipped.sum(0) + noise) / 64  {-# !NM025-|++}
        """,
    "the whole bound for each slice": """
        import numpy as np

        def step(gradients, sizes, generator, noise_multiplier, max_grad_norm):
            start, parts = 0, []
            {--|+each = max_grad_norm / np.sqrt(len(sizes))+}
            for size in sizes:
                part = gradients[:, start : start + size]
                parts.append(part * np.minimum(1, {-max_grad_norm-|+each+} / np.linalg.norm(part, axis=1))[:, None])  {-# !NM041-|++}
                start += size
            total = np.concatenate(parts, axis=1).sum(0)
            return (total + noise_multiplier * max_grad_norm * generator.standard_normal(total.size)) / 64
        """,
    "a deviation that an object keeps": """
        import numpy as np

        class Step:
            def __init__(self, max_grad_norm, noise_multiplier):
                self.bound, self.deviation = max_grad_norm, noise_multiplier{--|+ * max_grad_norm+}

            def __call__(self, gradients, generator):
                clipped = gradients * np.minimum(1, self.bound / np.linalg.norm(gradients, axis=1))[:, None]
                total = clipped.sum(0)
                return (total + self.deviation * generator.standard_normal(total.size)) / 64  {-# !NM026-|++}
        """,
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_is_found_and_its_right_twin_is_not(name: str) -> None:
    wrong, right = sides(PAIRS[name])
    found, marked = both(wrong)
    assert marked
    assert found == marked
    assert both(right) == ([], [])
