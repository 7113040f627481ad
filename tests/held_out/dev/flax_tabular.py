from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from dp_accounting import dp_event
from dp_accounting.mechanism_calibration import calibrate_dp_mechanism
from dp_accounting.rdp import RdpAccountant
from optax import contrib

BATCH = 200
EPOCHS = 4


class MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.relu(nn.Dense(32)(x)))


def sigma_for(n, eps, delta):
    def event(s):
        return dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(BATCH / n, dp_event.GaussianDpEvent(s)), EPOCHS * n // BATCH)

    return calibrate_dp_mechanism(RdpAccountant, event, eps, delta)


def train(x, y):
    model = MLP()
    n = len(x)
    params = model.init(jax.random.PRNGKey(0), x[:1])
    tx = contrib.dpsgd(learning_rate=0.1, l2_norm_clip=1.0, noise_multiplier=sigma_for(n, 2.0, 1e-5), seed=0)
    state = tx.init(params)

    def loss(p, xi, yi):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(p, xi[None]), yi[None]).mean()

    per_example = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))
    for e in range(EPOCHS):
        perm = np.random.permutation(n)
        for i in range(n // BATCH):
            idx = perm[i * BATCH : (i + 1) * BATCH]
            updates, state = tx.update(per_example(params, x[idx], y[idx]), state, params)
            params = optax.apply_updates(params, updates)
        acc = (model.apply(params, x).argmax(1) == y).mean()
        print(e, float(acc))
    return params


if __name__ == "__main__":
    r = np.random.default_rng(3)
    feats = r.normal(size=(4000, 10)).astype(np.float32)
    train(jnp.asarray(feats), jnp.asarray((feats.sum(1) > 0).astype(int)))
