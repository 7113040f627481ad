import jax
import jax.numpy as jnp
import numpy as np

CLIP = 1.0
SIGMA = 1.3
LR = 0.2


def nll(params, x, y):
    logits = x @ params["w"] + params["b"]
    return -jax.nn.log_softmax(logits)[y]


def clip_one(g):
    norm = jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(g)))
    return jax.tree_util.tree_map(lambda v: v * jnp.minimum(1.0, CLIP / (norm + 1e-12)), g)


@jax.jit
def clipped_sum(params, x, y, mask):
    gs = jax.vmap(lambda a, b, m: jax.tree_util.tree_map(lambda v: v * m, clip_one(jax.grad(nll)(params, a, b))))(x, y, mask)
    return jax.tree_util.tree_map(lambda v: v.sum(0), gs)


def fit(xs, ys, rate, steps, key):
    n = xs.shape[0]
    denominator = int(n * rate)
    params = {"w": jnp.zeros((xs.shape[1], 10)), "b": jnp.zeros(10)}
    draws = np.random.default_rng()
    for _ in range(steps):
        mask = jnp.asarray(draws.random(n) < rate, dtype=jnp.float32)
        s = clipped_sum(params, xs, ys, mask)
        kw, kb = jax.random.split(key)
        noisy = {
            "w": s["w"] + SIGMA * CLIP * jax.random.normal(kw, s["w"].shape),
            "b": s["b"] + SIGMA * CLIP * jax.random.normal(kb, s["b"].shape),
        }
        params = jax.tree_util.tree_map(lambda p, g: p - LR * g / denominator, params, noisy)
    return params


if __name__ == "__main__":
    seed = int.from_bytes(__import__("os").urandom(4), "big")
    r = np.random.default_rng()
    fit(jnp.asarray(r.normal(size=(500, 20))), jnp.asarray(r.integers(0, 10, 500)), 0.1, 20, jax.random.PRNGKey(seed))
