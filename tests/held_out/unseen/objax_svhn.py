import jax.numpy as jnp
import objax
from objax.functional.loss import cross_entropy_logits_sparse

net = objax.nn.Sequential([objax.nn.Conv2D(3, 16, 3, strides=2), objax.functional.relu, lambda t: t.mean((2, 3)), objax.nn.Linear(16, 10)])
opt = objax.optimizer.Momentum(net.vars())


@objax.Function.with_vars(net.vars())
def loss(x, y):
    return cross_entropy_logits_sparse(net(x, training=True), y).mean()


gv = objax.privacy.dpsgd.PrivateGradValues(loss, net.vars(), noise_multiplier=1.1, l2_norm_clip=1.0, microbatch=1)


@objax.Function.with_vars(net.vars() + opt.vars() + gv.vars())
def step(x, y, lr):
    g, v = gv(x, y)
    opt(lr, g)
    return v


step = objax.Jit(step)


def train(batches, epochs, lr=0.1):
    for _ in range(epochs):
        total = [step(jnp.asarray(x), jnp.asarray(y), lr)[0] for x, y in batches()]
        print(sum(total) / len(total))
