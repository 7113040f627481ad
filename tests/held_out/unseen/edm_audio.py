import jax
import jax.numpy as jnp
import optax

SIGMA_DATA = 0.5


def sample_sigma(key, n):
    return jnp.exp(1.2 * jax.random.normal(key, (n,)) - 1.2)


def denoise_loss(params, apply, key, clean):
    k1, k2 = jax.random.split(key)
    sigma = sample_sigma(k1, clean.shape[0])[:, None]
    noise = sigma * jax.random.normal(k2, clean.shape)
    guess = apply(params, clean + noise, sigma)
    weight = (sigma**2 + SIGMA_DATA**2) / (sigma * SIGMA_DATA) ** 2
    return jnp.mean(weight * (guess - clean) ** 2)


def train(apply, params, batches, seed=0):
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(2e-4))
    state = tx.init(params)
    key = jax.random.PRNGKey(seed)
    ema = params
    for batch in batches:
        key, sub = jax.random.split(key)
        grads = jax.grad(denoise_loss)(params, apply, sub, batch)
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        ema = jax.tree.map(lambda e, p: 0.999 * e + 0.001 * p, ema, params)
    return ema
