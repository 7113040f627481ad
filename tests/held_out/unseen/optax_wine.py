import secrets

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
import optax
from dp_accounting import rdp

BATCH = 64
N_PUBLIC = 4_096


def epsilon(steps, sigma, delta=1e-5):
    acc = rdp.RdpAccountant()
    gauss = dp_accounting.GaussianDpEvent(sigma)
    acc.compose(dp_accounting.PoissonSampledDpEvent(BATCH / N_PUBLIC, gauss), steps)
    return acc.get_epsilon(delta)


def optimizer(sigma):
    return optax.chain(
        optax.contrib.differentially_private_aggregate(l2_norm_clip=0.5, noise_multiplier=sigma, seed=secrets.randbits(31)),
        optax.adam(1e-2),
    )


def quality(w, x, y):
    return (x @ w["a"] + w["b"] - y) ** 2


def fit(x, y, epochs=5, sigma=1.4):
    tx = optimizer(sigma)
    w = {"a": jnp.zeros(x.shape[1]), "b": jnp.zeros(())}
    state = tx.init(w)
    per_row = jax.vmap(jax.grad(quality), (None, 0, 0))
    steps = 0
    for _ in range(epochs):
        order = np.random.permutation(len(x))
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            update, state = tx.update(per_row(w, x[rows], y[rows]), state)
            w = optax.apply_updates(w, update)
            steps += 1
    print("eps", epsilon(steps, sigma))
    return w
