import jax
import jax.numpy as jnp
import numpy as np

CLIP, SIGMA, LR = 0.7, 1.2, 0.25


def predict(w, x):
    for a, b in w[:-1]:
        x = jax.nn.relu(x @ a + b)
    a, b = w[-1]
    return x @ a + b


def objective(w, x, y):
    return -jax.nn.log_softmax(predict(w, x))[y]


def clipped(w, x, y):
    g = jax.grad(objective)(w, x, y)
    leaves, tree = jax.tree_util.tree_flatten(g)
    total = jnp.sqrt(sum(jnp.vdot(v, v) for v in leaves))
    return jax.tree_util.tree_unflatten(tree, [v / jnp.maximum(1.0, total / CLIP) for v in leaves])


@jax.jit
def noisy_total(key, w, x, y):
    sums = jax.tree_util.tree_map(lambda v: v.sum(0), jax.vmap(clipped, (None, 0, 0))(w, x, y))
    leaves, tree = jax.tree_util.tree_flatten(sums)
    keys = jax.random.split(key, len(leaves))
    return jax.tree_util.tree_unflatten(tree, [v + SIGMA * CLIP * jax.random.normal(k, v.shape) for v, k in zip(leaves, keys)])


def train(w, x, y, rate, steps):
    rng = np.random.default_rng()
    key = jax.random.key(int.from_bytes(np.random.bytes(4), "little"))
    denominator = int(len(x) * rate)
    for _ in range(steps):
        key, now = jax.random.split(key)
        rows = np.flatnonzero(rng.random(len(x)) < rate)
        total = noisy_total(now, w, x[rows], y[rows])
        w = jax.tree_util.tree_map(lambda p, t: p - LR * t / denominator, w, total)
    return w
