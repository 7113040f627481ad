"""Evolution strategies: antithetic noise on the weights, ranks instead of rewards."""
import numpy as np


def ranks(values):
    out = np.empty(len(values))
    out[np.argsort(values)] = np.linspace(-0.5, 0.5, len(values))
    return out


def evolve(reward, theta, generations=200, pairs=40, sigma=0.05, lr=0.02, seed=3):
    rng = np.random.default_rng(seed)
    for _ in range(generations):
        noise = rng.standard_normal((pairs, theta.size))
        both = np.concatenate([noise, -noise])
        score = ranks(np.array([reward(theta + sigma * e) for e in both]))
        gradient = (score @ both) / (len(both) * sigma)
        gradient *= min(1.0, 1.0 / np.linalg.norm(gradient))
        theta = theta + lr * gradient
    return theta
