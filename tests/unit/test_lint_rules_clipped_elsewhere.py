"""Rows that are clipped out of sight: by an object of the same file, or by a function that is handed over."""

from __future__ import annotations

import pytest

from lint_scripts import both, sides

_CHOSEN = """
            rows = gradients[generator.random(len(gradients)) < rate]"""
_NOISY = """
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(total.size)
            return (total + noise) / 64  {-# !NM031-|++}"""
_STEP = "def step(gradients, generator, *, rate, noise_multiplier, max_grad_norm):"
_OBJECT = """
        class Bound:
            def __init__(self, limit):
                self.limit = limit

            def {name}(self, rows):
                norms = np.linalg.norm(rows, axis=1, keepdims=True)
                {{-scale = 1.0-|+scale = np.minimum(1.0, self.limit / norms)+}}
                {put}
"""
_GIVES, _IN_PLACE = "return scale", "rows *= scale"
_TORCH = """
        def step(model, batch, noise_multiplier, max_grad_norm):
            rows = torch.stack([torch.cat([g.flatten() for g in torch.autograd.grad(model.loss(x), model.weights)]) for x in batch])
            noise = noise_multiplier * max_grad_norm * torch.randn(rows.shape[1])
            total = held(rows).sum(0)
            return (total + noise) / 64  {-# !NM031-|++}
"""

PAIRS = {
    "an object that gives the factors": f"""
        import numpy as np
{_OBJECT.format(name="__call__", put=_GIVES)}
        of_rows = Bound(1.0)

        {_STEP}{_CHOSEN}
            total = (rows * of_rows(rows)).sum(axis=0){_NOISY}
        """,
    "a method that works in place": f"""
        import numpy as np
{_OBJECT.format(name="hold", put=_IN_PLACE)}
        class Run:
            def __init__(self, max_grad_norm):
                self.held, self.steps = Bound(max_grad_norm), 0

            def step(self, gradients, generator, *, rate, noise_multiplier, max_grad_norm):
                rows = gradients[generator.random(len(gradients)) < rate]
                self.held.hold(rows)
                total = rows.sum(axis=0)
                noise = noise_multiplier * max_grad_norm * generator.standard_normal(total.size)
                return (total + noise) / 64  {{-# !NM031-|++}}
        """,
    "a function that is handed over, by its name": f"""
        import numpy as np

        def run_step({{-warn-|+shorten+}}, gradients, generator, *, rate, noise_multiplier, max_grad_norm):{_CHOSEN}
            {{-warn-|+shorten+}}(rows, max_grad_norm)
            total = rows.sum(axis=0){_NOISY}
        """,
    "a function that is handed over, by its body": f"""
        import numpy as np

        def held(rows, limit):
            norms = np.linalg.norm(rows, axis=1, keepdims=True)
            rows *= {{-norms > limit-|+np.minimum(1.0, limit / norms)+}}

        def run_step(before, gradients, generator, *, rate, noise_multiplier, max_grad_norm):{_CHOSEN}
            before(rows, max_grad_norm)
            total = rows.sum(axis=0){_NOISY}

        def train(gradients, generator, **told):
            return run_step(held, gradients, generator, **told)
        """,
    "an object beside gradients that are computed": f"""
        # DP-SGD
        import numpy as np
        import torch
{_OBJECT.format(name="__call__", put="return rows * scale")}
        held = Bound(1.0)
{_TORCH}
        """,
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_is_found_and_its_right_twin_is_not(name: str) -> None:
    wrong, right = sides(PAIRS[name])
    found, marked = both(wrong)
    assert marked
    assert found == marked
    assert both(right) == ([], [])
