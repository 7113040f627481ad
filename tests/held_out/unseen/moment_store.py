"""Noisy Adam; settings come as a dictionary."""
import numpy as np

DEFAULTS = {"lr": 1e-3, "b1": 0.9, "b2": 0.999, "clip": 1.0, "sigma": 0.8}


def noisy_mean(per_record, cfg):
    lengths = np.linalg.norm(per_record, axis=1)
    kept = per_record * np.where(lengths > cfg["clip"], cfg["clip"] / lengths, 1.0)[:, None]
    noise = np.random.normal(0, cfg["sigma"] * cfg["clip"] / len(per_record), per_record.shape[1])
    return kept.mean(axis=0) + noise


def adam(theta, gradient, batches, **settings):
    cfg = DEFAULTS | settings
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for t, batch in enumerate(batches, 1):
        g = noisy_mean(np.stack([gradient(theta, r) for r in batch]), cfg)
        m = cfg["b1"] * m + (1 - cfg["b1"]) * g
        v = cfg["b2"] * v + (1 - cfg["b2"]) * g**2
        theta = theta - cfg["lr"] * (m / (1 - cfg["b1"] ** t)) / (np.sqrt(v / (1 - cfg["b2"] ** t)) + 1e-8)
    return theta
