import secrets

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

LOT, CLIP, SIGMA = 128, 1.0, 1.0


def loss(model, x, y):
    return jnp.sum((model(x) - y) ** 2)


@eqx.filter_jit
def step(model, key, x, y):
    def one(x, y):
        g = eqx.filter_grad(loss)(model, x, y)
        norm = jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(g)))
        return jax.tree_util.tree_map(lambda v: v * jnp.minimum(1.0, CLIP / (norm + 1e-9)), g)

    sums = jax.tree_util.tree_map(lambda v: jnp.sum(v, axis=0), jax.vmap(one)(x, y))
    leaves, tree = jax.tree_util.tree_flatten(sums)
    noisy = [v + SIGMA * CLIP * jax.random.normal(k, v.shape) for v, k in zip(leaves, jax.random.split(key, len(leaves)))]
    return eqx.apply_updates(model, jax.tree_util.tree_unflatten(tree, [-0.1 * v / LOT for v in noisy]))


def train(model, x, y, steps, rate=0.005):
    rng = np.random.default_rng()
    key = jax.random.PRNGKey(secrets.randbits(32))
    for _ in range(steps):
        rows = np.flatnonzero(rng.uniform(size=len(x)) < rate)
        model = step(model, key, x[rows], y[rows])
    return model
