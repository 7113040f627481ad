"""ECG beats, per-example clipping with jax; run: python ecg_jax.py beats.npz"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree


def init(key, sizes):
    ks = jax.random.split(key, len(sizes) - 1)
    return [(jax.random.normal(k, (i, o)) / i**0.5, jnp.zeros(o)) for k, i, o in zip(ks, sizes, sizes[1:])]


def forward(net, x):
    for w, b in net[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = net[-1]
    return x @ w + b


def make_step(unravel, radius, multiplier, denominator, rate):
    def point(flat, x, y):
        return -jax.nn.log_softmax(forward(unravel(flat), x))[y]

    @jax.jit
    def step(flat, x, y, member, key):
        g = jax.vmap(jax.grad(point), (None, 0, 0))(flat, x, y)
        g = g * jnp.minimum(1, radius / jnp.linalg.norm(g, axis=1))[:, None]
        total = member @ g + radius * multiplier * jax.random.normal(key, flat.shape)
        return flat - rate * total / denominator

    return step


def main(path):
    beats = np.load(path)
    x, y = jnp.asarray(beats["x"]), jnp.asarray(beats["y"])
    q = 0.005
    flat, unravel = ravel_pytree(init(jax.random.PRNGKey(0), (187, 64, 5)))
    step = make_step(unravel, 1.0, 1.1, round(x.shape[0] * q), 0.2)
    key = jax.random.PRNGKey(int.from_bytes(os.urandom(4), "little"))
    for _ in range(4000):
        key, which, fresh = jax.random.split(key, 3)
        member = jax.random.bernoulli(which, q, (x.shape[0],)).astype(jnp.float32)
        flat = step(flat, x, y, member, fresh)
    return unravel(flat)


if __name__ == "__main__":
    main(sys.argv[1])
