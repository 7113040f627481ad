from functools import partial

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import make_moons

points, side = make_moons(20_000, noise=0.1)
net = hk.without_apply_rng(hk.transform(lambda z: hk.nets.MLP([32, 32, 2])(z)))
weights = net.init(jax.random.PRNGKey(1), jnp.zeros((1, 2)))
opt = optax.contrib.dpsgd(learning_rate=0.3, l2_norm_clip=1.0, noise_multiplier=0.7, seed=2024)
state = opt.init(weights)


def nll(w, z, s):
    return optax.softmax_cross_entropy_with_integer_labels(net.apply(w, z[None])[0], s)


@jax.jit
def update(w, st, z, s):
    per = jax.vmap(jax.grad(nll), (None, 0, 0))(w, z, s)
    delta, st = opt.update(per, st, w)
    return optax.apply_updates(w, delta), st


for t in range(2_000):
    chosen = np.flatnonzero(np.random.random(len(points)) < 0.01)
    weights, state = update(weights, state, jnp.asarray(points[chosen]), jnp.asarray(side[chosen]))
