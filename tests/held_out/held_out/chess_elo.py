"""Predicts ratings from openings. Privacy unit: one game. DP-SGD after Abadi et al."""
import jax
import jax.numpy as jnp
import optax


def l2(tree):
    return jnp.sqrt(sum(jnp.vdot(t, t) for t in jax.tree_util.tree_leaves(tree)))


def dp_step(params, opt, st, games, elo, predict, bound, batch):
    def one(game, e):
        g = jax.grad(lambda p: (predict(p, game) - e) ** 2)(params)
        return jax.tree_util.tree_map(lambda t: t * jnp.minimum(1.0, bound / l2(g)), g)

    clipped = jax.vmap(one)(games, elo)
    mean = jax.tree_util.tree_map(lambda t: t.sum(0) / batch, clipped)
    up, st = opt.update(mean, st)
    return optax.apply_updates(params, up), st


def run(params, predict, source, bound=1.0, batch=4096):
    opt = optax.sgd(0.1)
    st = opt.init(params)
    for games, elo in source:
        params, st = dp_step(params, opt, st, games, elo, predict, bound, batch)
    return params
