"""Clinics send clipped differences; the server draws clinics by coin and divides by a constant."""
import numpy as np

COHORT = 20
PROB = 0.1
RADIUS = 0.5
SPREAD = 1.4


class Clinic:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def local(self, theta, lr=0.05, steps=10):
        own = theta.copy()
        for _ in range(steps):
            own -= lr * self.x.T @ (self.x @ own - self.y) / len(self.y)
        change = own - theta
        return change * min(1.0, RADIUS / (np.linalg.norm(change) + 1e-12))


def server(clinics, dim, rounds=100):
    system = np.random.SeedSequence()
    coins, gauss = (np.random.default_rng(s) for s in system.spawn(2))
    theta = np.zeros(dim)
    for _ in range(rounds):
        total = np.zeros(dim)
        for clinic in clinics:
            if coins.random() < PROB:
                total += clinic.local(theta)
        theta += (total + gauss.normal(0, SPREAD * RADIUS, dim)) / COHORT
    return theta
