import numpy as np


def gradients(theta, x, y):
    return 2 * (x @ theta - y)[:, None] * x


def dp_descent(x, y, lot, rate, steps, clip, sigma):
    rng = np.random.default_rng()
    d = x.shape[1]
    theta = np.zeros(d)
    noise = rng.normal(0.0, sigma * clip, size=d)
    for t in range(steps):
        mask = rng.random(x.shape[0]) < rate
        g = gradients(theta, x[mask], y[mask])
        g *= np.minimum(1, clip / np.linalg.norm(g, axis=1).clip(1e-9))[:, None]
        theta = theta - (0.5 / np.sqrt(t + 1)) * (g.sum(axis=0) + noise) / lot
    return theta
