"""User-level DP-FedAvg, server side; the size of a round is agreed on before anybody joins."""
import numpy as np

ROUND = 50


def clip_update(delta, s):
    norm = np.sqrt(sum(float((d**2).sum()) for d in delta))
    return [d * min(1.0, s / (norm + 1e-12)) for d in delta]


class Server:
    def __init__(self, weights, users, q=0.05, s=0.3, z=1.0):
        self.weights, self.users, self.q, self.s, self.z = weights, users, q, s, z
        self.rng = np.random.default_rng()

    def round(self):
        chosen = [u for u in self.users if self.rng.random() < self.q]
        deltas = [clip_update(u.local_update(self.weights), self.s) for u in chosen]
        for i, w in enumerate(self.weights):
            total = sum((d[i] for d in deltas), np.zeros_like(w))
            total = total + self.rng.normal(0, self.z * self.s, w.shape)
            w += total / ROUND
        print("users", len(self.users))
