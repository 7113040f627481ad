import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


class Small(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(16, (5, 5), strides=2)(x))
        return nn.Dense(10)(x.reshape(-1))


def loss(params, apply, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(apply(params, x), y)


def train(images, labels, epochs=10, batch=250):
    net = Small()
    params = net.init(jax.random.PRNGKey(0), images[0])
    tx = optax.contrib.dpsgd(learning_rate=0.15, l2_norm_clip=1.0, noise_multiplier=1.1, seed=1337)
    opt_state = tx.init(params)
    grads_of = jax.jit(jax.vmap(jax.grad(lambda p, x, y: loss(p, net.apply, x, y)), in_axes=(None, 0, 0)))
    for _ in range(epochs):
        for i in range(0, 60_000, batch):
            updates, opt_state = tx.update(grads_of(params, images[i : i + batch], labels[i : i + batch]), opt_state, params)
            params = optax.apply_updates(params, updates)
    return params
