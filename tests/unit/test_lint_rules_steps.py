"""Clipping, noise and seeds in steps of one's own: NM031 to NM035; each beside its corrected twin."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    # --- noise without clipping
    "noise on gradients as they are": """
        # differentially private training
        import torch

        def train(model, loader, opt, sigma):
            for x, y in loader:
                opt.zero_grad()
                criterion(model(x), y).backward()
                for p in model.parameters():
                    p.grad += sigma * torch.randn_like(p.grad)  # !NM031
                opt.step()
        """,
    "noise in a function of its own": """
        # differentially private training
        import torch

        def add_noise(model, noise_multiplier):
            for p in model.parameters():
                noise = torch.normal(0.0, noise_multiplier, size=p.grad.shape)
                p.grad.add_(noise)  # !NM031

        def train(model, loader, opt):
            for x, y in loader:
                opt.zero_grad()
                criterion(model(x), y).backward()
                add_noise(model, 1.1)
                opt.step()
        """,
    "noise in a function of its own, after another has clipped": """
        # differentially private training
        import torch

        def clip(model, bound):
            for p in model.parameters():
                flat = p.grad_sample.flatten(1)
                p.grad = ((bound / flat.norm(dim=1)).clamp(max=1)[:, None] * flat).sum(0).view_as(p)

        def add_noise(model, noise_multiplier):
            for p in model.parameters():
                p.grad.add_(torch.normal(0.0, noise_multiplier, size=p.grad.shape))

        def train(model, loader, opt):
            for x, y in loader:
                opt.zero_grad()
                criterion(model(x), y).backward()
                clip(model, 1.0)
                add_noise(model, 1.1)
                opt.step()
        """,
    "noise on gradients by a formula": """
        # private logistic regression, (epsilon, delta)-differential privacy
        import numpy as np

        def fit(X, y, sigma, lr, steps):
            w = np.zeros(X.shape[1])
            for _ in range(steps):
                grad = X.T @ (1 / (1 + np.exp(-X @ w)) - y)
                w -= lr * (grad + np.random.normal(0, sigma, w.shape))  # !NM031
            return w
        """,
    "noise on gradients that come from elsewhere": """
        # the Gaussian mechanism of DP-SGD; grads are clipped by the caller
        import torch

        def privatize(grads, sigma, bound):
            return [g + sigma * bound * torch.randn_like(g) for g in grads]
        """,
    # --- clipping without noise
    "single records, and no noise": """
        # DP-SGD
        import torch

        def step(model, xs, ys, opt, C):
            total = [torch.zeros_like(p) for p in model.parameters()]
            for x, y in zip(xs, ys):
                model.zero_grad()
                criterion(model(x[None]), y[None]).backward()
                norm = torch.sqrt(sum(p.grad.norm() ** 2 for p in model.parameters()))
                factor = min(1.0, C / norm)  # !NM032
                for t, p in zip(total, model.parameters()):
                    t += factor * p.grad
            for t, p in zip(total, model.parameters()):
                p.grad = t / 64
            opt.step()
        """,
    "single records, and noise": """
        # DP-SGD
        import torch

        def step(model, xs, ys, opt, C, sigma):
            total = [torch.zeros_like(p) for p in model.parameters()]
            for x, y in zip(xs, ys):
                model.zero_grad()
                criterion(model(x[None]), y[None]).backward()
                norm = torch.sqrt(sum(p.grad.norm() ** 2 for p in model.parameters()))
                factor = min(1.0, C / norm)
                for t, p in zip(total, model.parameters()):
                    t += factor * p.grad
            for t, p in zip(total, model.parameters()):
                p.grad = (t + sigma * C * torch.randn_like(t)) / 64
            opt.step()
        """,
    "single records, and noise that is only accounted for": """
        # DP-SGD in jax
        import jax
        import jax.numpy as jnp
        import dp_accounting

        def epsilon(noise_multiplier, q, steps):
            event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(noise_multiplier))
            return dp_accounting.rdp.RdpAccountant().compose(event, steps).get_epsilon(1e-5)

        def clip(g, C):
            return g * jnp.minimum(1.0, C / jnp.linalg.norm(g))  # !NM032

        def update(w, batch, lr, C):
            per_example = jax.vmap(lambda x: clip(jax.grad(loss)(w, x), C))(batch)
            return w - lr * per_example.sum(0) / 128
        """,
    "single records, clipped for somebody else": """
        # helpers for DP-SGD
        import torch

        def clip_per_sample(per_sample_grads, C):
            return per_sample_grads * (C / per_sample_grads.norm(dim=1, keepdim=True)).clamp(max=1)
        """,
    "an optimizer from elsewhere adds the noise": """
        # DP-SGD
        import torch
        from optim import DPSGD

        def step(model, xs, ys, C):
            opt = DPSGD(model.parameters(), sigma=1.0)
            for x, y in zip(xs, ys):
                criterion(model(x[None]), y[None]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), C)
                opt.accumulate()
            opt.step()
        """,
    # --- the batch is clipped
    "the batch as a whole": """
        # DP training: clip and add noise
        import torch

        def train(model, loader, opt, C, sigma):
            for x, y in loader:
                opt.zero_grad()
                criterion(model(x), y).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=C)  # !NM033
                for p in model.parameters():
                    p.grad += torch.randn_like(p.grad) * sigma * C
                opt.step()
        """,
    "the batch as a whole, in tensorflow": """
        # differential privacy
        import tensorflow as tf

        @tf.function
        def train_step(model, optimizer, x, y, C, sigma):
            with tf.GradientTape() as tape:
                value = loss(y, model(x))
            grads = tape.gradient(value, model.trainable_variables)
            grads, _ = tf.clip_by_global_norm(grads, C)  # !NM033
            grads = [g + tf.random.normal(tf.shape(g), stddev=sigma * C) for g in grads]
            optimizer.apply_gradients(zip(grads, model.trainable_variables))
        """,
    "one record at a time": """
        # DP training: clip and add noise
        import torch

        def train(model, batch, opt, C, sigma):
            sums = [torch.zeros_like(p) for p in model.parameters()]
            for sample in batch:
                model.zero_grad()
                criterion(model(sample)).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=C)
                for s, p in zip(sums, model.parameters()):
                    s += p.grad
            for s, p in zip(sums, model.parameters()):
                p.grad = s + torch.randn_like(s) * sigma * C
            opt.step()
        """,
    # --- seeds
    "a global seed before Opacus": """
        import torch
        from opacus import PrivacyEngine

        torch.manual_seed(42)  # !NM034
        engine = PrivacyEngine()
        model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        """,
    "a global seed by a constant": """
        import torch
        from opacus import PrivacyEngine
        SEED = 1234

        def main():
            torch.manual_seed(SEED)  # !NM034
            model, optimizer, loader = PrivacyEngine().make_private(module=net, optimizer=opt, data_loader=dl, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        """,
    "a global seed and secure noise": """
        import torch
        from opacus import PrivacyEngine

        torch.manual_seed(42)
        engine = PrivacyEngine(secure_mode=True)
        model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
        """,
    "a generator with a constant seed": """
        import torch
        from opacus import PrivacyEngine

        generator = torch.Generator()
        generator.manual_seed(7)  # !NM034
        model, optimizer, loader = PrivacyEngine().make_private(  # !NM001
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, noise_generator=generator
        )
        """,
    "a generator with a secret seed": """
        import secrets
        import torch
        from opacus import PrivacyEngine

        generator = torch.Generator().manual_seed(secrets.randbits(63))
        model, optimizer, loader = PrivacyEngine().make_private(  # !NM001
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, noise_generator=generator
        )
        """,
    "numpy with a constant seed": """
        # DP-SGD
        import numpy as np

        def step(w, g, C, sigma, lr, steps):
            rng = np.random.default_rng(0)  # !NM034
            for _ in range(steps):
                clipped = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
                w = w - lr * (clipped.sum(0) + rng.normal(0, sigma * C, w.shape)) / 64
            return w
        """,
    "numpy with a seed for the data only": """
        # DP-SGD
        import numpy as np

        data = np.random.default_rng(0).normal(size=(1000, 5))

        def step(w, g, C, sigma, lr):
            clipped = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
            return w - lr * (clipped.sum(0) + np.random.default_rng().normal(0, sigma * C, w.shape)) / 64
        """,
    "jax with a constant key": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def run(w, data, C, sigma, lr, steps):
            key = jax.random.PRNGKey(0)  # !NM034
            for i in range(steps):
                key, sub = jax.random.split(key)
                g = jax.vmap(jax.grad(loss), (None, 0))(w, data)
                clipped = g * jnp.minimum(1, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                w = w - lr * (clipped.sum(0) + sigma * C * jax.random.normal(sub, w.shape)) / 64
            return w
        """,
    "optax with a seed": """
        import optax
        tx = optax.contrib.dpsgd(learning_rate=0.1, l2_norm_clip=1.0, noise_multiplier=1.1, seed=1337)  # !NM011 !NM034
        """,
    "a seed without privacy": """
        import torch
        torch.manual_seed(0)
        noise = torch.randn(8, 100)
        """,
    # --- noise that comes again
    "drawn before the loop": """
        # DP-SGD
        import torch

        def train(model, grads_of, C, sigma, lr, steps):
            noise = sigma * C * torch.randn(model.size)  # !NM035
            for step in range(steps):
                g = grads_of(model)
                clipped = g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)
                model.w -= lr * (clipped.sum(0) + noise) / 64
        """,
    "drawn in the loop": """
        # DP-SGD
        import torch

        def train(model, grads_of, C, sigma, lr, steps):
            for step in range(steps):
                g = grads_of(model)
                clipped = g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)
                noise = sigma * C * torch.randn(model.size)
                model.w -= lr * (clipped.sum(0) + noise) / 64
        """,
    "kept in an object": """
        # DP-SGD
        import torch

        class NoisyStep:
            def __init__(self, size, sigma, C):
                self.C = C
                self.noise = sigma * C * torch.randn(size)  # !NM035

            def __call__(self, per_sample_grads):
                clipped = per_sample_grads * (self.C / per_sample_grads.norm(dim=1, keepdim=True)).clamp(max=1)
                return (clipped.sum(0) + self.noise) / 64
        """,
    "a seed in every step": """
        # DP-SGD
        import torch

        def train(model, loader, C, sigma):
            for x, y in loader:
                g = per_sample_grads(model, x, y)
                clipped = g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)
                gen = torch.Generator().manual_seed(0)  # !NM034 !NM035
                model.step((clipped.sum(0) + sigma * C * torch.randn(model.size, generator=gen)) / 64)
        """,
    "a key that is not split": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def run(w, data, C, sigma, lr, steps, key):
            for i in range(steps):
                g = jax.vmap(jax.grad(loss), (None, 0))(w, data)
                clipped = g * jnp.minimum(1, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                w = w - lr * (clipped.sum(0) + sigma * C * jax.random.normal(key, w.shape)) / 64  # !NM035
            return w
        """,
    "a key that is folded": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def run(w, data, C, sigma, lr, steps, key):
            for i in range(steps):
                g = jax.vmap(jax.grad(loss), (None, 0))(w, data)
                clipped = g * jnp.minimum(1, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                now = jax.random.fold_in(key, i)
                w = w - lr * (clipped.sum(0) + sigma * C * jax.random.normal(now, w.shape)) / 64
            return w
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_steps(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
