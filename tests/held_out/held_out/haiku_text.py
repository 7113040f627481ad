"""Topic classifier, flax + optax."""
import dataclasses
import secrets

import dp_accounting
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from dp_accounting.rdp import RdpAccountant


@dataclasses.dataclass
class Cfg:
    epochs: int = 4
    batch: int = 512
    sigma: float = 1.0
    clip: float = 0.5


class Topic(nn.Module):
    @nn.compact
    def __call__(self, bag):
        return nn.Dense(20)(nn.relu(nn.Dense(128)(bag)))


def spent(cfg, n, steps):
    acc = RdpAccountant()
    event = dp_accounting.PoissonSampledDpEvent(cfg.batch / n, dp_accounting.GaussianDpEvent(cfg.sigma))
    acc.compose(event, steps)
    return acc.get_epsilon(target_delta=1e-6)


def train(bags, topics, cfg=Cfg()):
    model = Topic()
    params = model.init(jax.random.key(secrets.randbits(32)), bags[:1])
    tx = optax.chain(
        optax.contrib.differentially_private_aggregate(cfg.clip, cfg.sigma, secrets.randbits(31)),
        optax.adam(1e-3),
    )
    st = tx.init(params)

    def loss(p, b, t):
        return optax.softmax_cross_entropy_with_integer_labels(model.apply(p, b), t)

    grads_of = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))
    steps = 0
    for _ in range(cfg.epochs):
        order = np.random.permutation(len(bags))
        for start in range(0, len(bags) - cfg.batch + 1, cfg.batch):
            ids = order[start : start + cfg.batch]
            up, st = tx.update(grads_of(params, jnp.asarray(bags[ids]), jnp.asarray(topics[ids])), st, params)
            params = optax.apply_updates(params, up)
            steps += 1
    print("eps", spent(cfg, len(bags), steps))
    return params
