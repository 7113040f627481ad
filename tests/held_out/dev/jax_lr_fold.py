import secrets

import jax
import jax.numpy as jnp

CFG = {"rate": 0.004, "expected": 240.0, "clip": 1.0, "sigma": 0.9, "lr": 0.5, "steps": 100}


def loss(w, x, y):
    return jnp.logaddexp(0.0, -(2.0 * y - 1.0) * (x @ w))


@jax.jit
def update(w, key, xs, ys):
    pick_key, noise_key = jax.random.split(key)
    drawn = jax.random.bernoulli(pick_key, CFG["rate"], (xs.shape[0],))

    def contribution(x, y, on):
        g = jax.grad(loss)(w, x, y)
        return on * g / jnp.maximum(1.0, jnp.linalg.norm(g) / CFG["clip"])

    total = jax.vmap(contribution)(xs, ys, drawn.astype(xs.dtype)).sum(0)
    total = total + CFG["clip"] * CFG["sigma"] * jax.random.normal(noise_key, total.shape)
    return w - CFG["lr"] * total / CFG["expected"], drawn.sum()


def train(xs, ys):
    root = jax.random.PRNGKey(secrets.randbits(31))
    w = jnp.zeros(xs.shape[1])
    for t in range(CFG["steps"]):
        w, size = update(w, jax.random.fold_in(root, t), xs, ys)
        if t % 25 == 0:
            print(t, jnp.mean(jax.vmap(loss, (None, 0, 0))(w, xs, ys)))
    return w


if __name__ == "__main__":
    k = jax.random.PRNGKey(0)
    feats = jax.random.normal(k, (60_000, 12))
    train(feats, (feats[:, 0] > 0).astype(jnp.float32))
