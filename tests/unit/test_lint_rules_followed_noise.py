"""Noise, seeds and layers in steps of one's own: every fault beside its right twin, `{-wrong-|+right+}` in one script."""

from __future__ import annotations

import pytest

from lint_scripts import both, sides

PAIRS = {
    "numpy: noise is a default argument": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm{-, noise=np.random.default_rng().standard_normal(1_000)-|++}):  {-# !NM035-|++}
            mask = generator.random(len(gradients)) < sample_rate
            batch = gradients[mask]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            {--|+noise = generator.standard_normal(gradients.shape[1])+}
            return (clipped.sum(axis=0) + noise_multiplier * max_grad_norm * noise) / 64.0
        """,
    "numpy: noise is kept in a dictionary": """
        import numpy as np

        _NOISE = {}

        def _noise(generator, size):
            {-if size not in _NOISE:
                _NOISE[size] = generator.standard_normal(size)  # !NM035
            return _NOISE[size]-|+return generator.standard_normal(size)+}

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            chosen = np.flatnonzero(generator.random(len(gradients)) < sample_rate)
            lengths = np.sqrt((gradients[chosen] ** 2).sum(axis=1))
            scale = np.minimum(1.0, max_grad_norm / (lengths + 1e-12))
            total = (gradients[chosen] * scale[:, None]).sum(axis=0)
            return (total + noise_multiplier * max_grad_norm * _noise(generator, len(total))) / 64.0
        """,
    "torch: noise is kept on the object once drawn": """
        import torch

        class NoisySum:
            def __init__(self, noise_multiplier, max_grad_norm, expected):
                self.noise_multiplier, self.max_grad_norm, self.expected = noise_multiplier, max_grad_norm, expected
                self._noise = None

            def __call__(self, per_sample):
                norms = per_sample.flatten(1).norm(dim=1)
                factors = (self.max_grad_norm / (norms + 1e-6)).clamp(max=1.0)
                total = torch.einsum("n,n...->...", factors, per_sample)
                {-if self._noise is None:
                    self._noise = torch.randn_like(total)  # !NM035-|+self._noise = torch.randn_like(total)+}
                return (total + self.noise_multiplier * self.max_grad_norm * self._noise) / self.expected
        """,
    "torch: noise from a function that remembers": """
        from functools import lru_cache

        import torch

        {-@lru_cache(maxsize=None)-|++}
        def unit_noise(size):
            return torch.randn(size)  {-# !NM035-|++}

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            keep = torch.rand(len(gradients), generator=generator) < sample_rate
            chosen = gradients[keep]
            clipped = chosen * (max_grad_norm / chosen.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            return (clipped.sum(0) + noise_multiplier * max_grad_norm * unit_noise(gradients.shape[1])) / 50
        """,
    "numpy: noise is drawn where the function is made": """
        import numpy as np

        def make_step(size, noise_multiplier, max_grad_norm):
            rng = np.random.default_rng()
            {-noise = noise_multiplier * max_grad_norm * rng.standard_normal(size)  # !NM035-|++}

            def step(gradients):
                {--|+noise = noise_multiplier * max_grad_norm * rng.standard_normal(size)+}
                norms = np.linalg.norm(gradients, axis=1)
                clipped = gradients * np.minimum(1.0, max_grad_norm / norms)[:, None]
                return (clipped.sum(axis=0) + noise) / 128

            return step
        """,
    "torch: the noises of all layers before the loop": """
        import torch

        def train(model, batches, optimizer, noise_multiplier, max_grad_norm, lot_size):
            {-noises = [torch.randn_like(p) * noise_multiplier * max_grad_norm for p in model.parameters()]  # !NM035-|++}
            for batch in batches:
                sums = [torch.zeros_like(p) for p in model.parameters()]
                for x, y in batch:
                    model.zero_grad()
                    torch.nn.functional.cross_entropy(model(x[None]), y[None]).backward()
                    norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in model.parameters()))
                    factor = min(1.0, max_grad_norm / (float(norm) + 1e-6))
                    for total, p in zip(sums, model.parameters()):
                        total += factor * p.grad
                {--|+noises = [torch.randn_like(p) * noise_multiplier * max_grad_norm for p in model.parameters()]+}
                for p, total, noise in zip(model.parameters(), sums, noises):
                    p.grad = (total + noise) / lot_size
                optimizer.step()
        """,
    "numpy: the generator is made anew from a constant": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch / np.maximum(1.0, norms / max_grad_norm)
            {-noise = np.random.default_rng(1234).normal(0.0, noise_multiplier * max_grad_norm, gradients.shape[1])  # !NM034 !NM035-|+noise = generator.normal(0.0, noise_multiplier * max_grad_norm, gradients.shape[1])+}
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: seeded in front of the noise": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            norms = batch.norm(2, dim=1, keepdim=True)
            clipped = batch * torch.clamp(max_grad_norm / (norms + 1e-6), max=1.0)
            {-torch.manual_seed(0)  # !NM034 !NM035
            noise = torch.randn(gradients.shape[1])-|+noise = torch.randn(gradients.shape[1], generator=generator)+}
            return (clipped.sum(dim=0) + noise_multiplier * max_grad_norm * noise) / 64.0
        """,
    "numpy: a legacy state from a constant": """
        import numpy as np

        SEED = 42

        class DPSGD:
            def __init__(self, sigma, clip, lot):
                self.sigma, self.clip, self.lot = sigma, clip, lot
                self.noise_rng = np.random.RandomState({-SEED-|++})  {-# !NM034-|++}

            def release(self, grads):
                norms = np.linalg.norm(grads, axis=1)
                clipped = grads / np.maximum(1.0, norms / self.clip)[:, None]
                z = self.noise_rng.normal(scale=self.sigma * self.clip, size=grads.shape[1])
                return (clipped.sum(0) + z) / self.lot
        """,
    "torch: the draw has half precision": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            norms = batch.norm(2, dim=1, keepdim=True)
            clipped = batch * torch.clamp(max_grad_norm / (norms + 1e-6), max=1.0)
            noise = torch.randn(gradients.shape[1], generator=generator{-, dtype=torch.float16-|++})
            return (clipped.sum(dim=0) + noise_multiplier * max_grad_norm * noise) / 64.0  {-# !NM044-|++}
        """,
    "torch: noise is made half": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            scale = (max_grad_norm / batch.norm(dim=1).clamp_min(1e-9)).clamp_max(1.0)
            total = (batch * scale.unsqueeze(1)).sum(dim=0)
            noise = (torch.randn(total.shape, generator=generator) * noise_multiplier * max_grad_norm){-.half()-|++}
            noisy = (total + noise) / 64.0  {-# !NM044-|++}
            return noisy{--|+.half()+}
        """,
    "numpy: noise as float16": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch / np.maximum(1.0, norms / max_grad_norm)
            noise = generator.normal(0.0, noise_multiplier * max_grad_norm, gradients.shape[1]).astype({-np.float16-|+np.float64+})
            return (clipped.sum(axis=0) + noise) / 64.0  {-# !NM044-|++}
        """,
    "jax: noise in bfloat16": """
        import jax
        import jax.numpy as jnp

        def private_gradient(key, per_example, clip, sigma):
            norms = jnp.linalg.norm(per_example, axis=1)
            clipped = per_example * jnp.minimum(1.0, clip / norms)[:, None]
            noise = sigma * clip * jax.random.normal(key, per_example.shape[1:], {-jnp.bfloat16-|+jnp.float32+})
            return (clipped.sum(axis=0) + noise) / 256  {-# !NM044-|++}
        """,
    "numpy: sigma is taken for a variance": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch / np.maximum(1.0, norms / max_grad_norm)
            noise = generator.normal(0.0, {-np.sqrt(noise_multiplier)-|+noise_multiplier+} * max_grad_norm, gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0  {-# !NM026-|++}
        """,
    "torch: the variance as a scale": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            std = {-(noise_multiplier * max_grad_norm) ** 2-|+noise_multiplier * max_grad_norm+}
            noise = torch.normal(0.0, std, size=(gradients.shape[1],), generator=generator)
            return (clipped.sum(0) + noise) / 64.0  {-# !NM026-|++}
        """,
    "numpy: only sigma is squared": """
        import numpy as np

        def noisy_gradient(per_example_grads, sigma, clip_norm, batch_size, rng):
            norms = np.linalg.norm(per_example_grads, axis=1)
            factors = np.minimum(1.0, clip_norm / norms)
            summed = (per_example_grads * factors[:, np.newaxis]).sum(axis=0)
            noise = rng.normal(loc=0.0, scale={-sigma**2-|+sigma+} * clip_norm, size=summed.shape)
            return (summed + noise) / batch_size  {-# !NM026-|++}
        """,
    "numpy: noise without the bound": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / (norms + 1e-12))
            noise = {-noise_multiplier-|+noise_multiplier * max_grad_norm+} * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0  {-# !NM026-|++}
        """,
    "torch loop: noise over the root of the batch": """
        import torch

        def train(model, batches, optimizer, noise_multiplier, max_grad_norm, batch_size):
            for xs, ys in batches:
                sums = [torch.zeros_like(p) for p in model.parameters()]
                for x, y in zip(xs, ys):
                    model.zero_grad()
                    torch.nn.functional.cross_entropy(model(x[None]), y[None]).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
                    for total, p in zip(sums, model.parameters()):
                        total.add_(p.grad)
                for p, total in zip(model.parameters(), sums):
                    noise = torch.randn_like(p) * noise_multiplier * max_grad_norm{- / batch_size**0.5-|++}
                    p.grad = (total + noise) / batch_size  {-# !NM026-|++}
                optimizer.step()
        """,
    "numpy: a covariance that is a deviation": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch / np.maximum(1.0, norms / max_grad_norm)
            wide = gradients.shape[1]
            covariance = {-noise_multiplier * max_grad_norm-|+(noise_multiplier * max_grad_norm) ** 2+} * np.eye(wide)
            noise = generator.multivariate_normal(np.zeros(wide), covariance)
            return (clipped.sum(axis=0) + noise) / 64.0  {-# !NM026-|++}
        """,
    "torch: noise over the bound": """
        import torch

        def aggregate(grads, noise_multiplier, max_grad_norm, lot_size):
            norms = torch.linalg.norm(grads, dim=1)
            coefficients = torch.minimum(max_grad_norm / norms, torch.ones_like(norms))
            total = coefficients @ grads
            noise = torch.normal(0, noise_multiplier {-/-|+*+} max_grad_norm, total.shape)
            return (total + noise) / lot_size  {-# !NM026-|++}
        """,
    "torch: a bound in place of the one that clips": """
        import torch

        def aggregate(grads, noise_multiplier, max_grad_norm, lot_size):
            norms = torch.linalg.norm(grads, dim=1)
            total = (grads * torch.clamp(max_grad_norm / norms, max=1.0)[:, None]).sum(dim=0)
            std = noise_multiplier * {-(max_grad_norm / lot_size)-|+max_grad_norm+}
            return (total + std * torch.randn(total.shape)) / lot_size  {-# !NM025-|++}
        """,
    "numpy: the mean is clipped": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {-total = batch.sum(axis=0)
            clipped = total * min(1.0, max_grad_norm / (np.linalg.norm(total) + 1e-12))  # !NM033-|+norms = np.linalg.norm(batch, axis=1)
            clipped = (batch * np.minimum(1.0, max_grad_norm / (norms + 1e-12))[:, None]).sum(axis=0)+}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped + noise) / 64.0
        """,
    "numpy: the mean of a batch is clipped": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            keep = generator.random(len(gradients)) < sample_rate
            {-mean = np.where(keep[:, None], gradients, 0.0).mean(axis=0)  # !NM021
            norm = np.linalg.norm(mean)
            if norm > max_grad_norm:
                mean = mean * (max_grad_norm / norm)  # !NM033
            return mean + noise_multiplier * max_grad_norm * generator.standard_normal(mean.shape) / 64.0-|+norms = np.linalg.norm(gradients, axis=1)
            clipped = gradients * np.minimum(1.0, max_grad_norm / norms)[:, None]
            total = np.where(keep[:, None], clipped, 0.0).sum(axis=0)
            return total / 64.0 + noise_multiplier * max_grad_norm * generator.standard_normal(total.shape) / 64.0+}
        """,
    "torch: the mean loss, clipped after backward": """
        import torch
        import torch.nn.functional as F

        def private_step(model, x, y, optimizer, noise_multiplier, max_grad_norm, lot_size):
            optimizer.zero_grad()
            {-F.cross_entropy(model(x), y, reduction="mean").backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)  # !NM033-|+sums = [torch.zeros_like(p) for p in model.parameters()]
            for one, label in zip(x, y):
                model.zero_grad()
                F.cross_entropy(model(one[None]), label[None]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
                for total, p in zip(sums, model.parameters()):
                    total += p.grad
            for p, total in zip(model.parameters(), sums):
                p.grad = total+}
            for p in model.parameters():
                p.grad = (p.grad + noise_multiplier * max_grad_norm * torch.randn_like(p)) / lot_size
            optimizer.step()
        """,
    "torch: the sum is clipped by a helper": """
        import torch

        def clip(vector, bound):
            norm = vector.norm()
            return vector * min(1.0, bound / (norm + 1e-6))  {-# !NM033-|++}

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            total = {-clip(batch.sum(dim=0), max_grad_norm)-|+sum((clip(one, max_grad_norm) for one in batch), torch.zeros(gradients.shape[1]))+}
            return (total + noise_multiplier * max_grad_norm * torch.randn(total.shape, generator=generator)) / 64
        """,
    "torch: every layer has the whole bound": """
        import torch

        def step(model, batch_size, noise_multiplier, max_grad_norm):
            {--|+norms = torch.stack([p.grad_sample.flatten(1).norm(dim=1) for p in model.parameters()]).norm(dim=0)+}
            for p in model.parameters():
                {-norms = p.grad_sample.flatten(1).norm(dim=1)-|++}
                factor = (max_grad_norm / (norms + 1e-6)).clamp(max=1.0)
                total = torch.einsum("n,n...->...", factor, p.grad_sample)  {-# !NM041-|++}
                p.grad = (total + noise_multiplier * max_grad_norm * torch.randn_like(total)) / batch_size
        """,
    "numpy: blocks of columns with the whole bound": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            blocks = np.array_split(batch, 4, axis=1)
            bound = max_grad_norm{--|+ / np.sqrt(len(blocks))+}
            clipped = []
            for block in blocks:
                norms = np.linalg.norm(block, axis=1, keepdims=True)
                clipped.append(block * np.minimum(1.0, bound / np.maximum(norms, 1e-12)))  {-# !NM041-|++}
            total = np.concatenate(clipped, axis=1).sum(axis=0)
            return (total + noise_multiplier * max_grad_norm * generator.standard_normal(len(total))) / 64.0
        """,
    "torch loop: each parameter is clipped by itself": """
        import torch

        def train(model, batches, optimizer, noise_multiplier, max_grad_norm, lot_size):
            for xs, ys in batches:
                sums = [torch.zeros_like(p) for p in model.parameters()]
                for x, y in zip(xs, ys):
                    model.zero_grad()
                    torch.nn.functional.cross_entropy(model(x[None]), y[None]).backward()
                    {--|+norm = torch.sqrt(sum(p.grad.norm() ** 2 for p in model.parameters()))+}
                    for total, p in zip(sums, model.parameters()):
                        {-norm = p.grad.norm()-|++}
                        total += p.grad * min(1.0, max_grad_norm / (norm + 1e-6))  {-# !NM041-|++}
                for p, total in zip(model.parameters(), sums):
                    p.grad = (total + torch.randn_like(total) * noise_multiplier * max_grad_norm) / lot_size
                optimizer.step()
        """,
    "numpy: two halves, the whole bound each": """
        import numpy as np

        def clip(rows, bound):
            return rows * np.minimum(1.0, bound / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))  {-# !NM041-|++}

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            half = gradients.shape[1] // 2
            {-clipped = np.hstack([clip(batch[:, :half], max_grad_norm), clip(batch[:, half:], max_grad_norm)])-|+clipped = np.hstack([clip(batch[:, :half], 0.6 * max_grad_norm), clip(batch[:, half:], 0.8 * max_grad_norm)])+}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "jax: each leaf is clipped by itself": """
        import jax
        import jax.numpy as jnp

        def clip(tree, bound):
            {-return jax.tree_util.tree_map(lambda g: g * jnp.minimum(1.0, bound / jnp.linalg.norm(g)), tree)  # !NM041-|+norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree_util.tree_leaves(tree)))
            return jax.tree_util.tree_map(lambda g: g * jnp.minimum(1.0, bound / norm), tree)+}

        def private_grad(params, key, xs, ys, bound, sigma, lot):
            grads = jax.vmap(lambda x, y: clip(jax.grad(loss)(params, x, y), bound))(xs, ys)
            leaves, tree = jax.tree_util.tree_flatten(grads)
            keys = jax.random.split(key, len(leaves))
            noisy = [(g.sum(0) + sigma * bound * jax.random.normal(k, g.shape[1:])) / lot for g, k in zip(leaves, keys)]
            return jax.tree_util.tree_unflatten(tree, noisy)
        """,
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_is_found_and_its_right_twin_is_not(name: str) -> None:
    wrong, right = sides(PAIRS[name])
    found, marked = both(wrong)
    assert marked
    assert found == marked
    assert both(right) == ([], [])
