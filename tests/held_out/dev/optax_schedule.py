import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.Dense(128)(x))
        x = nn.Dropout(0.3, deterministic=not train)(x)
        return nn.Dense(10)(x)


def make_tx(n, batch, epochs):
    steps = n * epochs // batch
    return optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.add_noise(eta=0.01, gamma=0.55, seed=0),
        optax.adamw(optax.cosine_decay_schedule(1e-3, steps)),
    )


def run(x, y, batch=128, epochs=2):
    net = Net()
    key = jax.random.PRNGKey(0)
    params = net.init(key, x[:1], False)
    tx = make_tx(len(x), batch, epochs)
    state = tx.init(params)

    @jax.jit
    def step(p, s, k, a, b):
        def objective(q):
            logits = net.apply(q, a, True, rngs={"dropout": k})
            return optax.softmax_cross_entropy_with_integer_labels(logits, b).sum() / a.shape[0]

        value, g = jax.value_and_grad(objective)(p)
        u, s = tx.update(g, s, p)
        return optax.apply_updates(p, u), s, value

    for e in range(epochs):
        order = np.random.default_rng(e).permutation(len(x))
        for i in range(len(x) // batch):
            idx = order[i * batch : (i + 1) * batch]
            params, state, value = step(params, state, jax.random.fold_in(key, e * 1000 + i), x[idx], y[idx])
        print(e, float(value))
    return params
