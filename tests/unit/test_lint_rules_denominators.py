"""What a noisy mean is divided by, in code of one's own: NM021 to NM025; each beside its corrected twin."""

from __future__ import annotations

import pytest

from lint_scripts import both

TORCH = """
    # DP-SGD by hand
    import torch

    def step(model, batch, clip, sigma, lr, *, data=None, q=None, lot=None):
        per_sample = per_sample_gradients(model, batch)
        scale = (clip / per_sample.norm(dim=1)).clamp(max=1.0)
        total = (per_sample * scale[:, None]).sum(0)
        noisy = total + sigma * clip * torch.randn_like(total)
        {division}
        model.weights -= lr * update
    """
NUMPY = """
    import numpy as np
    from dp_accounting import rdp

    def train(X, y, q, C, sigma, lr, steps):
        N = len(X)
        w = np.zeros(X.shape[1])
        for _ in range(steps):
            chosen = np.random.rand(N) < q
            g = per_example_gradients(w, X[chosen], y[chosen])
            g = g / np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / C)
            noisy = g.sum(axis=0) + np.random.normal(0, sigma * C, w.shape)
            {division}
        return w
    """

SCRIPTS = {
    "by the length of the batch": TORCH.format(division="update = noisy / len(batch)  # !NM021"),
    "by its rows": TORCH.format(division="update = noisy.div(batch.size(0))  # !NM021"),
    "by a mask": TORCH.format(division="update = noisy / (batch.mask > 0).sum()  # !NM021"),
    "times a reciprocal": TORCH.format(division="update = noisy * (1.0 / len(batch))  # !NM021"),
    "in place": TORCH.format(division="noisy /= len(batch)  # !NM021\n        update = noisy"),
    "by N q": TORCH.format(division="update = noisy / (len(data) * q)  # !NM022"),
    "by int(N q)": TORCH.format(division="update = noisy / int(len(data) * q)  # !NM023"),
    "by N // L": TORCH.format(division="update = noisy / (len(data) // 100)  # !NM023"),
    "by N": TORCH.format(division="update = noisy / len(data)  # !NM024"),
    "by a lot of the caller's": TORCH.format(division="update = noisy / lot"),
    "by a number": TORCH.format(division="update = noisy / 256"),
    "not at all": TORCH.format(division="update = noisy"),
    "numpy, by who was drawn": NUMPY.format(division="w -= lr * noisy / chosen.sum()  # !NM021"),
    "numpy, by at least one": NUMPY.format(division="w -= lr * noisy / max(1, chosen.sum())  # !NM021"),
    "numpy, by N q": NUMPY.format(division="w -= lr * noisy / (N * q)  # !NM022"),
    "numpy, by int(N q)": NUMPY.format(division="w -= lr * noisy / int(N * q)  # !NM023"),
    "numpy, by N": NUMPY.format(division="w -= lr * noisy / N  # !NM024"),
    "numpy, by a constant": NUMPY.format(division="w -= lr * noisy / 600"),
    "jax": """
        import jax
        import jax.numpy as jnp

        def private_update(key, params, batch, clip, noise_multiplier):
            grads = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, batch)
            norms = jnp.linalg.norm(grads, axis=1)
            summed = jnp.sum(grads * jnp.minimum(1.0, clip / norms)[:, None], axis=0)
            noised = summed + noise_multiplier * clip * jax.random.normal(key, summed.shape)
            return noised / batch.shape[0]  # !NM021
        """,
    "jax, over leaves": """
        import jax
        import jax.numpy as jnp

        BATCH = 512

        def private_update(key, params, batch, clip, noise_multiplier):
            grads = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, batch)
            clipped = jax.vmap(clip_tree, in_axes=(0, None))(grads, clip)
            leaves, treedef = jax.tree_util.tree_flatten(clipped)
            keys = jax.random.split(key, len(leaves))
            noised = [g.sum(0) + noise_multiplier * clip * jax.random.normal(k, g.shape[1:]) for g, k in zip(leaves, keys)]
            return jax.tree_util.tree_unflatten(treedef, [g / BATCH for g in noised])
        """,
    "an optimizer of one's own": """
        import torch

        class DPOptimizer:
            def __init__(self, params, clip, noise_multiplier, lr):
                self.params, self.clip, self.noise_multiplier, self.lr = list(params), clip, noise_multiplier, lr

            def step(self, batch_size):
                for p in self.params:
                    norms = p.grad_sample.flatten(1).norm(dim=1)
                    weights = (self.clip / norms).clamp(max=1)
                    summed = torch.einsum("n,n...->...", weights, p.grad_sample)  # !NM041
                    summed += self.noise_multiplier * self.clip * torch.randn_like(summed)
                    p.data -= self.lr * summed / batch_size

        def train(model, loader):
            opt = DPOptimizer(model.parameters(), 1.0, 1.1, 0.1)
            for x, y in loader:
                loss(model(x), y).backward()
                opt.step(1000)
        """,
    "the noise of the sum on a mean": """
        import torch

        def step(model, per_sample_grads, clip, sigma, lr):
            clipped = per_sample_grads * (clip / per_sample_grads.norm(dim=1, keepdim=True)).clamp(max=1)
            mean = clipped.mean(0)  # !NM021
            update = mean + sigma * clip * torch.randn_like(mean)  # !NM025
            model.weights -= lr * update
        """,
    "the noise of the sum on gradients that a lot divides": """
        # DP-SGD
        def step(w, per_example, C, sigma, lr, lot_size, rng):
            clipped = per_example / np.maximum(1.0, np.linalg.norm(per_example, axis=1, keepdims=True) / C)
            grad = clipped.sum(axis=0) / lot_size
            noise = rng.normal(0.0, sigma * C, size=w.shape)
            return w - lr * (grad + noise)  # !NM025
        """,
    "the noise of the sum inside of the mean": """
        import torch

        def step(model, per_sample_grads, clip, sigma, lr):
            clipped = per_sample_grads * (clip / per_sample_grads.norm(dim=1, keepdim=True)).clamp(max=1)
            update = (clipped.sum(0) + sigma * clip * torch.randn_like(model.weights)) / 256
            model.weights -= lr * update
        """,
    "the noise of the mean on a mean": """
        import torch

        BATCH_SIZE = 256

        def step(model, per_sample_grads, clip, sigma, lr):
            clipped = per_sample_grads * (clip / per_sample_grads.norm(dim=1, keepdim=True)).clamp(max=1)
            mean = clipped.sum(0) / BATCH_SIZE
            update = mean + sigma * clip / BATCH_SIZE * torch.randn_like(mean)
            model.weights -= lr * update
        """,
    "losses and accuracies": """
        from opacus import PrivacyEngine

        def evaluate(model, loader, noise):
            total = correct = 0
            for x, y in loader:
                out = model(x + noise)
                total += criterion(out, y).item() * len(x)
                correct += (out.argmax(1) == y).sum().item()
            return total / len(loader.dataset), correct / len(loader.dataset)
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_denominators(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
