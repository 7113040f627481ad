import numpy as np
from opacus.accountants import RDPAccountant


class Trainer:
    def __init__(self, model, sigma=1.0, clip=1.0, lr=0.05, batch=100):
        self.model, self.sigma, self.clip, self.lr, self.batch = model, sigma, clip, lr, batch
        self.accountant = RDPAccountant()
        self.rng = np.random.default_rng()

    def batches(self, n):
        order = self.rng.permutation(n)
        return (order[i : i + self.batch] for i in range(0, n, self.batch))

    def update(self, rows):
        total = np.zeros_like(self.model.theta)
        for row in rows:
            g = self.model.gradient(row)
            total += g / max(1.0, np.linalg.norm(g) / self.clip)
        total += self.rng.normal(scale=self.sigma * self.clip, size=total.shape)
        self.model.theta -= self.lr * total / len(rows)

    def fit(self, data, epochs):
        for _ in range(epochs):
            for index in self.batches(len(data)):
                self.update([data[i] for i in index])
                self.accountant.step(noise_multiplier=self.sigma, sample_rate=self.batch / len(data))
        return self.accountant.get_epsilon(delta=1e-6)
