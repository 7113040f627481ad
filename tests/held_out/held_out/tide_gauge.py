"""Private regression of tide gauges; every size that the release is scaled with is written down here."""
import secrets

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

EXPECTED, CAPACITY, RATE, STEPS = 400, 640, 0.01, 3_000
BOUND, MULT = 1.0, 1.3


@eqx.filter_jit
def noisy_mean(model, xs, ys, present, key):
    def sq(m, x, y):
        return jnp.sum((m(x) - y) ** 2)

    per = jax.vmap(eqx.filter_grad(sq), (None, 0, 0))(model, xs, ys)
    leaves, tree = jax.tree_util.tree_flatten(eqx.filter(per, eqx.is_array))
    length = jnp.sqrt(sum(jnp.sum(l.reshape(l.shape[0], -1) ** 2, 1) for l in leaves))
    shrink = present * jnp.minimum(1.0, BOUND / jnp.maximum(length, 1e-12))
    keys = jax.random.split(key, len(leaves))
    out = [
        (jnp.einsum("i,i...->...", shrink, l) + MULT * BOUND * jax.random.normal(k, l.shape[1:])) / EXPECTED
        for l, k in zip(leaves, keys)
    ]
    return jax.tree_util.tree_unflatten(tree, out)


def main(xs, ys):
    key = jax.random.key(secrets.randbits(32))
    dice = np.random.default_rng()
    model = eqx.nn.MLP(xs.shape[1], 1, 32, 2, key=jax.random.key(0))
    opt = optax.adam(1e-3)
    state = opt.init(eqx.filter(model, eqx.is_array))
    for _ in range(STEPS):
        drawn = np.flatnonzero(dice.random(len(xs)) < RATE)[:CAPACITY]
        pad = CAPACITY - len(drawn)
        rows = np.concatenate([drawn, np.zeros(pad, int)])
        present = jnp.asarray(np.r_[np.ones(len(drawn)), np.zeros(pad)])
        key, fresh = jax.random.split(key)
        g = noisy_mean(model, xs[rows], ys[rows], present, fresh)
        up, state = opt.update(g, state, model)
        model = eqx.apply_updates(model, up)
    return model
