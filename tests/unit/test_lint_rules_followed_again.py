"""The same faults in other words, written down after the rules."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from command_line import run
from lint_scripts import both, sides

PAIRS = {
    "class with state, noise drawn each second step": """
        import numpy as np

        class DPStep:
            def __init__(self):
                self.cached = None

            def __call__(self, gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
                n, d = gradients.shape
                selected = generator.random(n) < sample_rate
                g = gradients[selected]
                l2 = np.sqrt(np.sum(np.square(g), axis=1, keepdims=True))
                g = g / np.maximum(1.0, l2 / max_grad_norm)
                {-if self.cached is None:
                    self.cached = generator.normal(size=d)  # !NM035-|+self.cached = generator.normal(size=d)+}
                return (g.sum(0) + noise_multiplier * max_grad_norm * self.cached) / 32
        """,
    "module noise": """
        import numpy as np

        D = 100
        {-NOISE = np.random.default_rng().normal(size=D)  # !NM035-|++}

        def dp_sgd_step(grads, rng, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = rng.uniform(size=grads.shape[0]) < sample_rate
            picked = grads[mask]
            norms = np.linalg.norm(picked, axis=-1)
            coef = np.clip(max_grad_norm / (norms + 1e-6), None, 1.0)
            agg = np.einsum("i,ij->j", coef, picked)
            z = {-NOISE-|+rng.normal(size=D)+}
            return (agg + noise_multiplier * max_grad_norm * z) / 40.0
        """,
    "bfloat16 by to": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = torch.bernoulli(torch.full((gradients.shape[0],), sample_rate), generator=generator).bool()
            g = gradients[mask]
            norms = torch.linalg.vector_norm(g, dim=1)
            factors = torch.minimum(torch.ones_like(norms), max_grad_norm / (norms + 1e-12))
            total = (factors[:, None] * g).sum(dim=0)
            z = torch.randn(gradients.shape[1], generator=generator){-.to(torch.bfloat16)-|++}
            return (total + noise_multiplier * max_grad_norm * z) / 64  {-# !NM044-|++}
        """,
    "sigma as a variance by method": """
        import math
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = torch.rand(gradients.shape[0], generator=generator) < sample_rate
            g = gradients[mask]
            norms = g.norm(dim=1)
            total = torch.zeros(gradients.shape[1])
            for row, norm in zip(g, norms):
                total += row * min(1.0, max_grad_norm / (norm.item() + 1e-12))
            std = {-math.sqrt(noise_multiplier)-|+noise_multiplier+} * max_grad_norm
            total += std * torch.randn(total.shape, generator=generator)  {-# !NM026-|++}
            return total / 64
        """,
    "mean clipped with a python max": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            idx = np.nonzero(generator.random(gradients.shape[0]) < sample_rate)[0]
            batch = gradients[idx]
            {-avg = batch.sum(0) / 64
            avg /= max(1.0, np.linalg.norm(avg) / max_grad_norm)  # !NM033
            return avg + noise_multiplier * max_grad_norm * generator.standard_normal(avg.size) / 64-|+rows = np.array([row / max(1.0, np.linalg.norm(row) / max_grad_norm) for row in batch]).reshape(-1, gradients.shape[1])
            return rows.sum(0) / 64 + noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1]) / 64+}
        """,
    "layers in a dict": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            layers = {"w": slice(0, 50), "b": slice(50, None)}
            keep = generator.random(len(gradients)) < sample_rate
            batch = gradients[keep]
            out = np.zeros(gradients.shape[1])
            for name, part in layers.items():
                block = batch[:, part]
                norms = np.linalg.norm({-block-|+batch+}, axis=1, keepdims=True)
                out[part] = (block * np.minimum(1, max_grad_norm / norms)).sum(0)  {-# !NM041-|++}
            return (out + noise_multiplier * max_grad_norm * generator.standard_normal(out.shape)) / 64
        """,
    "size in a dict": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            included = generator.random(len(gradients)) < sample_rate
            norms = np.linalg.norm(gradients, axis=1)
            factor = np.minimum(1, max_grad_norm / np.maximum(norms, 1e-12))
            total = (factor * included) @ gradients
            noisy = total + generator.normal(0, noise_multiplier * max_grad_norm, size=total.shape)
            return {"update": noisy / 64{-, "n": int(included.sum())-|++}}  {-# !NM047-|++}
        """,
    "size kept in a list": """
        import numpy as np

        class Step:
            def __init__(self):
                self.sizes = []

            def __call__(self, gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
                batch = gradients[generator.random(len(gradients)) < sample_rate]
                {-self.sizes.append(len(batch))  # !NM047-|++}
                norms = np.linalg.norm(batch, axis=1, keepdims=True)
                clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
                noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
                return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "uniform with the same variance": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            scale = noise_multiplier * max_grad_norm
            width = scale * np.sqrt(12.0)
            noise = {-(generator.random(gradients.shape[1]) - 0.5) * width-|+generator.standard_normal(gradients.shape[1]) * scale+}
            return (clipped.sum(axis=0) + noise) / 64.0  {-# !NM046-|++}
        """,
    "standardised by the batch": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {-mu, sd = batch.mean(axis=0), batch.std(axis=0) + 1e-8
            batch = (batch - mu) / sd  # !NM053-|++}
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            return (clipped.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])) / 64.0
        """,
    "skip empty with size": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {-if batch.shape[0] == 0:  # !NM036
                return np.zeros_like(gradients[0])-|++}
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            return (clipped.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])) / 64.0
        """,
    "linf by amax": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            g = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            norms = {-g.abs().amax(dim=1, keepdim=True)-|+g.square().sum(dim=1, keepdim=True).sqrt()+}
            g = g * torch.clamp(max_grad_norm / (norms + 1e-12), max=1.0)  {-# !NM042-|++}
            return (g.sum(0) + torch.randn(g.shape[1], generator=generator) * noise_multiplier * max_grad_norm) / 64
        """,
    "l1 by numpy": """
        import numpy as np

        def clip_rows(rows, bound):
            lengths = {-np.abs(rows).sum(axis=1)-|+np.linalg.norm(rows, axis=1)+}
            return rows * np.minimum(1.0, bound / (lengths + 1e-12))[:, None]  {-# !NM042-|++}

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = clip_rows(gradients, max_grad_norm)[generator.random(len(gradients)) < sample_rate]
            noise = generator.normal(scale=noise_multiplier * max_grad_norm, size=gradients.shape[1])
            return (batch.sum(axis=0) + noise) / 64
        """,
    "noise not times C, torch loop": """
        import torch

        def dp_sgd(model, loss_fn, xs, ys, lr, noise_multiplier, max_grad_norm, batch_size):
            grads = [torch.zeros_like(p) for p in model.parameters()]
            for i in range(len(xs)):
                loss = loss_fn(model(xs[i : i + 1]), ys[i : i + 1])
                one = torch.autograd.grad(loss, list(model.parameters()))
                norm = torch.sqrt(sum((g**2).sum() for g in one))
                scale = min(1.0, (max_grad_norm / (norm + 1e-12)).item())
                grads = [a + g * scale for a, g in zip(grads, one)]
            with torch.no_grad():
                for p, g in zip(model.parameters(), grads):
                    noise = torch.randn_like(p) * noise_multiplier{--|+ * max_grad_norm+}
                    p -= lr * (g + noise) / batch_size  {-# !NM026-|++}
        """,
    "per layer in autograd loop": """
        import torch

        def dp_sgd(model, loss_fn, xs, ys, lr, noise_multiplier, max_grad_norm, batch_size):
            grads = [torch.zeros_like(p) for p in model.parameters()]
            for i in range(len(xs)):
                loss = loss_fn(model(xs[i : i + 1]), ys[i : i + 1])
                one = torch.autograd.grad(loss, list(model.parameters()))
                {--|+total = torch.sqrt(sum((g**2).sum() for g in one))+}
                for a, g in zip(grads, one):
                    {-total = torch.norm(g)-|++}
                    a += g * torch.clamp(max_grad_norm / (total + 1e-12), max=1.0)  {-# !NM041-|++}
            with torch.no_grad():
                for p, g in zip(model.parameters(), grads):
                    p -= lr * (g + torch.randn_like(p) * noise_multiplier * max_grad_norm) / batch_size
        """,
    "noise per record in list": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            total = np.zeros(gradients.shape[1])
            for row in gradients:
                if generator.random() < sample_rate:
                    clipped = row * min(1.0, max_grad_norm / max(np.linalg.norm(row), 1e-12))
                    {-total += clipped + generator.normal(0.0, noise_multiplier * max_grad_norm, total.shape)  # !NM048-|+total += clipped+}
            {--|+total += generator.normal(0.0, noise_multiplier * max_grad_norm, total.shape)+}
            return total / 64
        """,
    "quantile bound": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            threshold = {-np.quantile(norms, 0.5) if len(norms) else max_grad_norm-|+max_grad_norm+}
            clipped = batch * np.minimum(1.0, threshold / np.maximum(norms, 1e-12))  {-# !NM052-|++}
            return (clipped.sum(axis=0) + noise_multiplier * threshold * generator.standard_normal(gradients.shape[1])) / 64.0
        """,
    "seed in the step, torch": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = torch.rand(len(gradients), generator=generator) < sample_rate
            g = gradients[mask]
            g = g / (g.norm(dim=1, keepdim=True) / max_grad_norm).clamp(min=1.0)
            {-generator = torch.Generator()  # the noise
            generator.manual_seed(2024)  # !NM034 !NM035-|++}
            noise = torch.normal(0.0, noise_multiplier * max_grad_norm, (gradients.shape[1],), generator=generator)
            return (g.sum(0) + noise) / 64
        """,
    "norm over axis 0, torch": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = torch.rand(len(gradients), generator=generator) < sample_rate
            g = gradients * mask[:, None]
            norms = torch.sqrt((g**2).sum(dim={-0-|+1+}, keepdim=True))
            g = g * (max_grad_norm / norms.clamp(min=1e-12)).clamp(max=1.0)  {-# !NM043-|++}
            return (g.sum(0) + noise_multiplier * max_grad_norm * torch.randn(g.shape[1], generator=generator)) / 64
        """,
    "every k steps with the step outside": """
        import torch

        def train(model, opt, loader, noise_multiplier, max_grad_norm, lot, every):
            for step, (x, y) in enumerate(loader):
                opt.zero_grad()
                for p in model.parameters():
                    p.acc = torch.zeros_like(p)
                for xi, yi in zip(x, y):
                    model.zero_grad()
                    torch.nn.functional.mse_loss(model(xi[None]), yi[None]).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
                    for p in model.parameters():
                        p.acc += p.grad
                for p in model.parameters():
                    p.grad = p.acc / lot
                    {-if step % every == 0:  # !NM051
                        p.grad += noise_multiplier * max_grad_norm / lot * torch.randn_like(p)-|+p.grad += noise_multiplier * max_grad_norm / lot * torch.randn_like(p)+}
                opt.step()
        """,
    "clip with max as where": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            ratio = max_grad_norm / np.maximum(norms, 1e-12)
            clipped = batch * {-np.maximum(ratio, 1.0)-|+np.minimum(ratio, 1.0)+}  {-# !NM045-|++}
            return (clipped.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])) / 64.0
        """,
    "noise before clip, torch": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            g = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            {-total = g.sum(0) + noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return total * min(1.0, max_grad_norm / total.norm().item()) / 64  # !NM049-|+g = g * (max_grad_norm / g.norm(dim=1, keepdim=True).clamp(min=1e-12)).clamp(max=1.0)
            total = g.sum(0) + noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return total / 64+}
        """,
    "noise over sqrt of the expected batch": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm, expected_batch_size=64):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            mean = clipped.sum(axis=0) / expected_batch_size
            std = noise_multiplier * max_grad_norm / {-np.sqrt(expected_batch_size)-|+expected_batch_size+}
            return mean + std * generator.standard_normal(gradients.shape[1])  {-# !NM026-|++}
        """,
    "jax step, key not split and mean clipped": """
        import jax
        import jax.numpy as jnp

        def dp_update(params, batch, key, noise_multiplier, l2_clip, lot):
            per_example = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, batch)
            norms = jax.vmap(jnp.linalg.norm)(per_example)
            clipped = per_example * jnp.{-maximum-|+minimum+}(1.0, l2_clip / norms)[:, None]  {-# !NM045-|++}
            noise = l2_clip * noise_multiplier * jax.random.normal(key, params.shape)
            return (clipped.sum(0) + noise) / lot
        """,
    "with replacement by integers": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            n = gradients.shape[0]
            {-m = int(round(sample_rate * n))
            rows = gradients[generator.integers(0, n, size=m)]  # !NM008-|+rows = gradients[generator.random(n) < sample_rate]+}
            norms = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            return (rows.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(rows.shape[1])) / 64.0
        """,
    "unclipped": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = (torch.rand(len(gradients), generator=generator) < sample_rate).float()
            {-total = mask @ gradients-|+clipped = gradients * (max_grad_norm / gradients.norm(dim=1, keepdim=True)).clamp(max=1)
            total = mask @ clipped+}
            return (total + noise_multiplier * max_grad_norm * torch.randn(total.shape, generator=generator)) / 64  {-# !NM031-|++}
        """,
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_is_found_and_its_right_twin_is_not(name: str) -> None:
    wrong, right = sides(PAIRS[name])
    found, marked = both(wrong)
    assert marked
    assert found == marked
    assert both(right) == ([], [])


@pytest.mark.parametrize("times", [1, 30])
def test_more_than_anybody_writes_is_not_followed_and_said(tmp_path: Path, times: int) -> None:
    """Helpers that call each other thirty times each: what is in them is not believed, the file is read all the same, and told."""
    step = sides(PAIRS["l1 by numpy"])[0]
    helpers = [f"def h{k}(x):\n" + f"    h{k + 1}(x)\n" * times + "    return x\n" for k in range(5)]
    seed = "\ndelta = 1 / len(dataset)\nengine.make_private(target_delta=delta)\n"
    script = "\n".join([textwrap.dedent(step), *helpers, "def h5(x):", "    return x", "h0(1)", seed])
    (tmp_path / "long.py").write_text(script, encoding="utf-8")
    shown = " ".join(run("code-audit", str(tmp_path)).out.split())
    record = json.loads(run("code-audit", str(tmp_path), "--json").out)
    assert ("NM042" in shown) == (times == 1)
    assert "NM005" in shown
    why = "too long to be followed statement by statement: rules that follow arrays did not look at it, all others did"
    assert shown.count(why) == (times > 1)
    assert [one["reason"] for one in record["not_read"]] == [why] * (times > 1)
