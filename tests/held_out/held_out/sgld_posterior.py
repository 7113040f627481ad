"""Posterior of a logistic regression by stochastic gradient Langevin dynamics."""
import jax
import jax.numpy as jnp


def log_joint(w, x, y, n):
    lik = jnp.mean(jax.nn.log_sigmoid(jnp.where(y, 1, -1) * (x @ w)))
    return n * lik - 0.5 * jnp.sum(w**2)


def sample(x, y, draws=5000, batch=100, seed=0):
    key = jax.random.PRNGKey(seed)
    n = x.shape[0]

    def move(carry, t):
        w, key = carry
        key, a, b = jax.random.split(key, 3)
        rows = jax.random.choice(a, n, (batch,))
        h = 1e-4 * (1 + t) ** -0.33
        drift = jax.grad(log_joint)(w, x[rows], y[rows], n)
        w = w + h / 2 * drift + jnp.sqrt(h) * jax.random.normal(b, w.shape)
        return (w, key), w

    _, chain = jax.lax.scan(move, (jnp.zeros(x.shape[1]), key), jnp.arange(draws))
    return chain[draws // 2 :]
