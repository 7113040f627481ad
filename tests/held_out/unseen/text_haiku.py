from dataclasses import dataclass
from typing import NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
from optax import apply_updates
from optax.contrib import dpsgd as private_sgd


@dataclass
class Config:
    lr: float = 0.3
    clip: float = 1.0
    sigma: float = 0.9
    noise_seed: int = 11


class State(NamedTuple):
    params: hk.Params
    opt: tuple


def forward(tokens):
    e = hk.Embed(8_000, 64)(tokens)
    return hk.Linear(4)(e.mean(0))


net = hk.without_apply_rng(hk.transform(forward))


def make_update(cfg: Config):
    tx = private_sgd(cfg.lr, l2_norm_clip=cfg.clip, noise_multiplier=cfg.sigma, seed=cfg.noise_seed)

    def nll(params, tokens, topic):
        return -jax.nn.log_softmax(net.apply(params, tokens))[topic]

    @jax.jit
    def update(state, tokens, topics):
        grads = jax.vmap(jax.grad(nll), in_axes=(None, 0, 0))(state.params, tokens, topics)
        delta, opt = tx.update(grads, state.opt, state.params)
        return State(apply_updates(state.params, delta), opt)

    return tx, update
