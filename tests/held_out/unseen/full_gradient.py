"""Logistic regression, every record in every step."""
import numpy as np


class DPLogit:
    def __init__(self, clip=1.0, sigma=20.0, lr=2.0, steps=300):
        self.clip, self.sigma, self.lr, self.steps = clip, sigma, lr, steps
        self.rng = np.random.default_rng(12345)

    def _rows(self, X, y):
        p = 1 / (1 + np.exp(-X @ self.w))
        G = (p - y)[:, None] * X
        norms = np.linalg.norm(G, axis=1, keepdims=True)
        return G * np.minimum(1.0, self.clip / np.maximum(norms, 1e-12))

    def fit(self, X, y):
        n, d = X.shape
        self.w = np.zeros(d)
        for _ in range(self.steps):
            noisy = self._rows(X, y).sum(axis=0) + self.rng.normal(scale=self.sigma * self.clip, size=d)
            self.w -= self.lr * noisy / n
        return self

    def predict(self, X):
        return (X @ self.w > 0).astype(int)
