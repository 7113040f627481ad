"""Income classifier. All sizes below are published with the data card."""
import secrets

import numpy as np

ROWS_PUBLISHED = 30_000
RATE = 256 / ROWS_PUBLISHED
EXPECTED = 256.0
CLIP = 0.8
SIGMA = 1.4
DELTA = 1 / (10 * ROWS_PUBLISHED)


def step(w, X, y, rng, lr):
    hit = rng.random(len(X)) < RATE
    Xb, yb = X[hit], y[hit]
    p = 1 / (1 + np.exp(-(Xb @ w)))
    g = (p - yb)[:, None] * Xb
    g *= np.minimum(1, CLIP / np.maximum(np.linalg.norm(g, axis=1), 1e-12))[:, None]
    noisy = g.sum(0) + rng.normal(scale=SIGMA * CLIP, size=w.shape)
    return w - lr * noisy / EXPECTED, len(yb)


def main(X, y, steps=500, lr=2.0):
    rng = np.random.default_rng(secrets.randbits(128))
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    w = np.zeros(X.shape[1])
    sizes = []
    for t in range(steps):
        w, size = step(w, X, y, rng, lr)
        sizes.append(size)
        if t % 100 == 0:
            acc = ((X @ w > 0) == (y > 0.5)).mean()
            print(t, f"{acc:.3f}")
    return w


if __name__ == "__main__":
    gen = np.random.default_rng(0)
    A = gen.normal(size=(30_000, 10))
    main(A, (A[:, 0] > 0).astype(float), steps=50)
