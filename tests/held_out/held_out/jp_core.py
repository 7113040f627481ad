"""Ridge regression with the pieces of jax-privacy, denominators and rates as constants."""
import secrets

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax_privacy import batch_selection, clipping, noise_addition

USERS, RATE, ROUNDS, MEAN_BATCH = 50_000, 0.02, 800, 1000


def objective(w, row, target):
    return 0.5 * (row @ w - target) ** 2


def fit(rows, targets, sigma=1.1):
    w = jnp.zeros(rows.shape[1])
    summed = clipping.clipped_grad(objective, l2_clip_norm=1.0, batch_argnums=(1, 2), normalize_by=MEAN_BATCH)
    privatizer = noise_addition.gaussian_privatizer(
        stddev=sigma * summed.sensitivity(), prng_key=jax.random.key(secrets.randbits(32))
    )
    noise_state = privatizer.init(w)
    plan = batch_selection.CyclicPoissonSampling(sampling_prob=RATE, iterations=ROUNDS)
    opt = optax.sgd(0.3)
    state = opt.init(w)
    for chosen in plan.batch_iterator(USERS, rng=np.random.default_rng()):
        idx = batch_selection.pad_to_multiple_of(chosen, 256)
        g = summed(w, rows[idx], targets[idx], is_padding_example=idx == -1)
        g, noise_state = privatizer.update(g, noise_state)
        up, state = opt.update(g, state)
        w = optax.apply_updates(w, up)
    return w
