import os

import jax
import jax.numpy as jnp
import numpy as np

CLIP, SIGMA, LR, LOT = 0.7, 1.2, 0.25, 256


def objective(w, x, y):
    return jnp.square(x @ w["w"] + w["b"] - y)


def clipped(w, x, y):
    g = jax.grad(objective)(w, x, y)
    size = jnp.sqrt(sum(jnp.vdot(v, v) for v in jax.tree.leaves(g)))
    return jax.tree.map(lambda v: v / jnp.maximum(1.0, size / CLIP), g)


@jax.jit
def update(key, w, x, y):
    sums = jax.tree.map(lambda v: v.sum(0), jax.vmap(clipped, (None, 0, 0))(w, x, y))
    leaves, tree = jax.tree.flatten(sums)
    keys = jax.random.split(key, len(leaves))
    noisy = [v + SIGMA * CLIP * jax.random.normal(k, v.shape) for v, k in zip(leaves, keys)]
    return jax.tree.map(lambda p, t: p - LR * t / LOT, w, tree.unflatten(noisy))


def train(x, y, rate=1 / 64, steps=500):
    w = {"w": 0.01 * jax.random.normal(jax.random.PRNGKey(0), (x.shape[1],)), "b": jnp.zeros(())}
    key = jax.random.PRNGKey(int.from_bytes(os.urandom(4), "big"))
    draw = np.random.default_rng()
    for _ in range(steps):
        key, step_key = jax.random.split(key)
        rows = np.flatnonzero(draw.random(len(x)) < rate)
        w = update(step_key, w, x[rows], y[rows])
    residual = float(jnp.abs(x @ w["w"] + w["b"] - y).mean())
    print(f"mean absolute residual {residual:.3f}")
    return w
