import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax_privacy import noise_addition
from jax_privacy.clipping import clipped_grad
from jax_privacy.accounting import calibrate, analysis

B, EPOCHS = 250, 10
X, Y = jnp.load("x.npy"), jnp.load("y.npy")
N = X.shape[0]


def hinge(w, x, y):
    return jnp.maximum(0.0, 1 - y * (x @ w))


config = analysis.DpsgdTrainingAccountant(analysis.DpParams)
sigma = calibrate.calibrate_noise_multiplier(
    target_epsilon=2.0,
    accountant=config,
    batch_sizes=B,
    num_updates=EPOCHS * (N // B),
    num_samples=N,
    target_delta=1e-5,
)
w = jnp.zeros(X.shape[1])
clip = clipped_grad(hinge, l2_clip_norm=0.5, batch_argnums=(1, 2), normalize_by=B)
addition = noise_addition.gaussian_privatizer(stddev=sigma * clip.sensitivity(), prng_key=jax.random.key(np.random.SeedSequence().entropy % 2**31))
st = addition.init(w)
for epoch in range(EPOCHS):
    for ids in np.random.permutation(N)[: N // B * B].reshape(-1, B):
        g, st = addition.update(clip(w, X[ids], Y[ids]), st)
        w = w - 0.1 * g
