import numpy as np

TOTAL_STEPS = 1500
jitter = np.random.default_rng(7)


def sigmoid(t):
    return 1 / (1 + np.exp(-t))


def bounded(rows, limit):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(1.0, lengths / limit)


def descend(design, default, q=0.03, limit=1.0, z=1.2, eta=0.8):
    lottery = np.random.default_rng()
    beta = np.zeros(design.shape[1])
    for _ in range(TOTAL_STEPS):
        inside = lottery.uniform(size=design.shape[0]) < q
        residual = sigmoid(design[inside] @ beta) - default[inside]
        g = bounded(residual[:, None] * design[inside], limit).sum(axis=0)
        g = g + jitter.normal(scale=z * limit, size=g.shape)
        beta -= eta * g / np.maximum(inside.sum(), 1)
    return beta
