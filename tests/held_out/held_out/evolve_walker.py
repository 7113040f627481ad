import numpy as np


class OpenES:
    """Antithetic evolution strategy with ranked fitness."""

    def __init__(self, dim, pop=64, sigma=0.05, lr=0.02, seed=123):
        assert pop % 2 == 0
        self.mu, self.pop, self.sigma, self.lr = np.zeros(dim), pop, sigma, lr
        self.rng = np.random.default_rng(seed)

    def ask(self):
        half = self.rng.standard_normal((self.pop // 2, self.mu.size))
        self.noise = np.concatenate([half, -half])
        return self.mu + self.sigma * self.noise

    def tell(self, fitness):
        rank = np.empty(len(fitness))
        rank[np.argsort(fitness)] = np.linspace(-0.5, 0.5, len(fitness))
        grad = rank @ self.noise / (len(fitness) * self.sigma)
        norm = np.linalg.norm(grad)
        self.mu += self.lr * grad * min(1.0, 1.0 / norm)


def solve(score, dim, generations=500):
    es = OpenES(dim)
    for g in range(generations):
        es.tell(np.array([score(w) for w in es.ask()]))
    return es.mu
