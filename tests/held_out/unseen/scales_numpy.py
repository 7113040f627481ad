import numpy as np


def noisy_average(rows, clip, sigma, lot, rng):
    """Rows are gradients, one record each."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows = rows / np.maximum(1.0, norms / clip)[:, np.newaxis]
    noise = rng.standard_normal(rows.shape[1]) * (sigma * clip / lot)
    return rows.sum(0) + noise


def train(x, y, *, lot=50, rate=0.02, rounds=400, clip=2.0, sigma=1.5, lr=0.01):
    rng = np.random.default_rng()
    theta = np.zeros(x.shape[1])
    for _ in range(rounds):
        pick = rng.random(len(y)) < rate
        rows = (x[pick] @ theta - y[pick])[:, None] * x[pick]
        theta -= lr * noisy_average(rows, clip, sigma, lot, rng)
    return theta
