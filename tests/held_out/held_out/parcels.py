import math
import secrets

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

PUBLIC_N, B, SIGMA, S = 80_000, 400, 1.05, 1.0


def account(epochs):
    steps = epochs * PUBLIC_N // B
    ledger = PLDAccountant()
    ledger.compose(SelfComposedDpEvent(PoissonSampledDpEvent(B / PUBLIC_N, GaussianDpEvent(SIGMA)), steps))
    return ledger.get_epsilon(1e-6)


def fit(x, late, epochs=6, lr=0.3):
    gauss = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    w = np.zeros(x.shape[1])
    order = np.arange(len(x))
    for _ in range(epochs):
        gauss.shuffle(order)
        for chunk in np.array_split(order, math.ceil(len(x) / B)):
            z = x[chunk] @ w
            g = (1 / (1 + np.exp(-z)) - late[chunk])[:, None] * x[chunk]
            g /= np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / S)
            w -= lr * (g.sum(0) + gauss.normal(scale=S * SIGMA, size=w.shape)) / B
    return w, account(epochs)
