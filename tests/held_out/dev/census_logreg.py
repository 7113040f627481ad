"""Logistic regression on census data with noisy gradients."""
import numpy as np
from tensorflow_privacy.privacy.analysis.rdp_accountant import compute_rdp, get_privacy_spent

ORDERS = [1.5, 2, 3, 4, 8, 16, 32, 64]


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def train(X, y, batch_size=128, epochs=5, C=1.0, sigma=1.0, lr=0.5, delta=1e-5):
    rng = np.random.default_rng(42)
    n, d = X.shape
    w = np.zeros(d)
    q = batch_size / n
    steps = 0
    for _ in range(epochs):
        order = np.random.permutation(n)
        for k in range(0, n, batch_size):
            idx = order[k : k + batch_size]
            err = sigmoid(X[idx] @ w) - y[idx]
            g = err[:, None] * X[idx]
            norms = np.linalg.norm(g, axis=1, keepdims=True)
            g = g / np.maximum(1.0, norms / C)
            total = g.sum(axis=0) + rng.normal(0.0, sigma * C, size=d)
            w -= lr * total / n
            steps += 1
    rdp = compute_rdp(q, sigma, steps, ORDERS)
    eps, _, order = get_privacy_spent(ORDERS, rdp, target_delta=delta)
    print(f"eps {eps:.2f} at order {order}")
    return w


if __name__ == "__main__":
    gen = np.random.default_rng(7)
    X = gen.standard_normal((2000, 12))
    y = (X[:, 0] + 0.3 * gen.standard_normal(2000) > 0).astype(float)
    train(X, y)
