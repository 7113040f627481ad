"""Seeds and keys as people spread them over functions and statements: NM034 and NM035; each beside its corrected twin."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    # --- seeds that are written down
    "a generator of the module": """
        # DP-SGD
        import numpy as np

        RNG = np.random.default_rng(7)  # !NM034

        def step(w, g, C, sigma, lr):
            clipped = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
            return w - lr * (clipped.sum(0) + RNG.normal(0, sigma * C, w.shape)) / 64
        """,
    "a generator of the module, by a helper": """
        # DP-SGD
        import numpy as np

        rng = np.random.default_rng(seed=123)  # !NM034

        def gaussian(shape, scale):
            return scale * rng.standard_normal(shape)

        def step(w, g, C, sigma, lr):
            clipped = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
            total = clipped.sum(0)
            noise = gaussian(total.shape, sigma * C)
            return w - lr * (total + noise) / 64
        """,
    "a generator of the module, of the old kind": """
        # DP-SGD
        import numpy as np

        prng = np.random.RandomState(0)  # !NM034

        def noisy_sum(clipped, C, sigma):
            return np.sum(clipped, axis=0) + prng.normal(loc=0.0, scale=sigma * C, size=clipped.shape[1])
        """,
    "a generator of the module, with a secret seed": """
        # DP-SGD
        import secrets
        import numpy as np

        rng = np.random.default_rng(secrets.randbits(128))

        def gaussian(shape, scale):
            return scale * rng.standard_normal(shape)

        def step(w, g, C, sigma, lr):
            clipped = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
            total = clipped.sum(0)
            noise = gaussian(total.shape, sigma * C)
            return w - lr * (total + noise) / 64
        """,
    "a generator of the module for what is public": """
        # DP-SGD
        import numpy as np

        rng = np.random.default_rng(3)
        secret = np.random.default_rng()

        def start(d):
            return rng.normal(0, 0.1, d)

        def step(w, g, C, sigma, lr):
            clipped = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
            return w - lr * (clipped.sum(0) + secret.normal(0, sigma * C, w.shape)) / 64
        """,
    "a generator in two statements": """
        # DP-SGD
        import torch

        def draw_noise(shape, scale):
            gen = torch.Generator()
            gen.manual_seed(1234)  # !NM034 !NM035
            return torch.normal(0.0, scale, size=shape, generator=gen)

        def train(model, loader, C, sigma, lr):
            for x, y in loader:
                g = per_sample_grads(model, x, y)
                total = (g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
                model.w -= lr * (total + draw_noise(total.shape, sigma * C)) / 64
        """,
    "a generator in two statements, in an object": """
        # DP-SGD
        import torch

        class Noise:
            def __init__(self, scale, device):
                self.scale = scale
                self.generator = torch.Generator(device=device)
                self.generator.manual_seed(0)  # !NM034

            def draw(self, like):
                return self.scale * torch.randn(like.shape, generator=self.generator)

        def train(model, loader, C, sigma, lr):
            noise = Noise(sigma * C, "cpu")
            for x, y in loader:
                g = per_sample_grads(model, x, y)
                total = (g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
                model.w -= lr * (total + noise.draw(total)) / 64
        """,
    "a generator in two statements, at the top": """
        # DP-SGD
        import torch

        SEED = 42
        generator = torch.Generator()
        generator.manual_seed(SEED)  # !NM034

        def noise_like(x, scale):
            return torch.empty_like(x).normal_(0, scale, generator=generator)

        def train(model, loader, C, sigma, lr):
            for x, y in loader:
                g = per_sample_grads(model, x, y)
                total = (g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
                model.w -= lr * (total + noise_like(total, sigma * C)) / 64
        """,
    "a generator in two statements, with a secret seed": """
        # DP-SGD
        import secrets
        import torch

        generator = torch.Generator()
        generator.manual_seed(secrets.randbits(63))
        shuffling = torch.Generator()
        shuffling.manual_seed(0)

        def noise_like(x, scale):
            return torch.empty_like(x).normal_(0, scale, generator=generator)

        def train(model, data, C, sigma, lr):
            for i in torch.randperm(len(data), generator=shuffling):
                g = per_sample_grads(model, data[i])
                total = (g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
                model.w -= lr * (total + noise_like(total, sigma * C)) / 64
        """,
    "a key for a privatizer": """
        import jax
        from jax_privacy import batch_selection, clipped_grad, noise_addition

        def main(loss, clip, sigma):
            noise_key = jax.random.key(42)  # !NM034
            grad_fn = clipped_grad(loss, l2_clip_norm=clip, batch_argnums=1)
            return noise_addition.gaussian_privatizer(stddev=sigma * clip, prng_key=noise_key)
        """,
    "a key for a privatizer, at once": """
        import jax
        from jax_privacy import batch_selection, noise_addition

        privatizer = noise_addition.gaussian_privatizer(stddev=1.1, prng_key=jax.random.PRNGKey(0))  # !NM034
        """,
    "a key for a privatizer, split": """
        import jax
        from jax_privacy import batch_selection, noise_addition

        def main(sigma):
            key = jax.random.PRNGKey(2024)  # !NM034
            init_key, noise_key = jax.random.split(key)
            params = init(init_key)
            privatizer = noise_addition.gaussian_privatizer(sigma, noise_key)
            return params, privatizer
        """,
    "a key for a privatizer, from the system": """
        import secrets
        import jax
        from jax_privacy import batch_selection, noise_addition

        def main(sigma):
            params = init(jax.random.key(0))
            return params, noise_addition.gaussian_privatizer(stddev=sigma, prng_key=jax.random.key(secrets.randbits(32)))
        """,
    "settings of Keras with a seed": """
        from jax_privacy import keras_api

        config = keras_api.DPKerasConfig(epsilon=1.0, delta=1e-5, clipping_norm=1.0, batch_size=64, seed=0, poisson_sampling_in_fit=True)  # !NM034
        """,
    "settings of Keras with a seed by a name": """
        from jax_privacy.keras_api import DPKerasConfig

        SEED = 17

        def make():
            return DPKerasConfig(  # !NM034
                epsilon=1.0, delta=1e-5, clipping_norm=1.0, batch_size=64, poisson_sampling_in_fit=True, seed=SEED
            )
        """,
    "settings of Keras with a seed in a dictionary": """
        from jax_privacy import keras_api

        options = dict(epsilon=1.0, delta=1e-5, clipping_norm=1.0, batch_size=64, seed=3, poisson_sampling_in_fit=True)
        config = keras_api.DPKerasConfig(**options)  # !NM034
        """,
    "settings of Keras with a secret seed": """
        import secrets
        from jax_privacy import keras_api

        config = keras_api.DPKerasConfig(epsilon=1.0, delta=1e-5, batch_size=64, seed=secrets.randbits(31), poisson_sampling_in_fit=True)
        other = keras_api.DPKerasConfig(epsilon=1.0, delta=1e-5, batch_size=64, seed=None, poisson_sampling_in_fit=True)
        """,
    # --- keys that come again
    "a key of what makes the step": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def make_step(C, sigma, lr, seed):
            key = jax.random.PRNGKey(seed)

            @jax.jit
            def step(w, batch):
                g = jax.vmap(jax.grad(loss), (None, 0))(w, batch)
                g = g * jnp.minimum(1.0, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                noise = sigma * C * jax.random.normal(key, w.shape)  # !NM035
                return w - lr * (g.sum(0) + noise) / 64

            return step
        """,
    "a key of what makes the step, in a loop": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def train(w, batches, C, sigma, lr, entropy):
            noise_key = jax.random.key(entropy)

            def update(w, batch):
                g = jax.vmap(jax.grad(loss), (None, 0))(w, batch)
                g = g * jnp.minimum(1.0, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                return w - lr * (g.sum(0) + sigma * C * jax.random.normal(noise_key, w.shape)) / 64  # !NM035

            update = jax.jit(update)
            for batch in batches:
                w = update(w, batch)
            return w
        """,
    "a key of what makes the step, split in the same way": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def build(C, sigma, lr, key):
            root = jax.random.fold_in(key, 1)

            def step(params, batch):
                keys = jax.random.split(root, 2)
                g = jax.vmap(jax.grad(loss), (None, 0))(params, batch)
                g = g * jnp.minimum(1.0, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                noise = sigma * C * jax.random.normal(keys[0], params.shape)  # !NM035
                return params - lr * (g.sum(0) + noise) / 64

            return jax.jit(step)
        """,
    "a key that the step is handed": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def make_step(C, sigma, lr):
            @jax.jit
            def step(w, batch, key):
                g = jax.vmap(jax.grad(loss), (None, 0))(w, batch)
                g = g * jnp.minimum(1.0, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                return w - lr * (g.sum(0) + sigma * C * jax.random.normal(key, w.shape)) / 64

            return step

        def train(w, batches, key):
            step = make_step(1.0, 1.1, 0.1)
            for batch in batches:
                key, sub = jax.random.split(key)
                w = step(w, batch, sub)
            return w
        """,
    "a key of what makes the step, folded with the round": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def make_step(C, sigma, lr, seed):
            key = jax.random.PRNGKey(seed)

            @jax.jit
            def step(w, batch, round_number):
                g = jax.vmap(jax.grad(loss), (None, 0))(w, batch)
                g = g * jnp.minimum(1.0, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                noise = sigma * C * jax.random.normal(jax.random.fold_in(key, round_number), w.shape)
                return w - lr * (g.sum(0) + noise) / 64

            return step
        """,
    "a key of one release": """
        # differential privacy
        import jax
        import jax.numpy as jnp

        def release(g, C, sigma, entropy):
            key = jax.random.key(entropy)

            def noisy(total):
                return total + sigma * C * jax.random.normal(key, total.shape)

            clipped = g * jnp.minimum(1.0, C / jnp.linalg.norm(g, axis=1, keepdims=True))
            return noisy(clipped.sum(0)) / 64
        """,
    "a key of what makes the step, changed by it": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def train(w, batches, C, sigma, lr, entropy):
            key = jax.random.key(entropy)

            def step(w, batch):
                nonlocal key
                key, sub = jax.random.split(key)
                g = jax.vmap(jax.grad(loss), (None, 0))(w, batch)
                g = g * jnp.minimum(1.0, C / jnp.linalg.norm(g, axis=1, keepdims=True))
                return w - lr * (g.sum(0) + sigma * C * jax.random.normal(sub, w.shape)) / 64

            for batch in batches:
                w = step(w, batch)
            return w
        """,
    "a generator of the module, in a function": """
        import numpy as np
        rng = np.random.default_rng(2021)  # !NM034
        def privatize(clipped_grads, clip_norm, noise_multiplier, lot):
            total = np.sum(clipped_grads, axis=0)
            return (total + rng.normal(scale=noise_multiplier * clip_norm, size=total.shape)) / 64
        """,
    "a key of what makes the step, from a number": """
        # DP-SGD
        import jax, jax.numpy as jnp
        def make_train_step(loss, C, z, B, lr):
            rng = jax.random.PRNGKey(0)  # !NM034
            @jax.jit
            def train_step(params, xs):
                def clip(g):
                    return g / jnp.maximum(1.0, jnp.linalg.norm(g) / C)
                grads = jax.vmap(lambda x: clip(jax.grad(loss)(params, x)))(xs)
                noise = z * C * jax.random.normal(rng, params.shape)  # !NM035
                return params - lr * (grads.sum(0) + noise) / B
            return train_step
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_seeds(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
