from typing import NamedTuple

import torch
from torch.func import grad, vmap


class Budget(NamedTuple):
    c: float = 1.0
    z: float = 0.9
    expected: int = 512


def objective(theta, x, y):
    return torch.nn.functional.softplus(-y * (x @ theta))


per_sample = vmap(grad(objective), in_dims=(None, 0, 0))


def release(theta, x, y, b: Budget):
    g = per_sample(theta, x, y)
    g = g / torch.clamp(g.norm(dim=-1, keepdim=True) / b.c, min=1)
    noise = torch.randn(theta.numel()) * b.z * b.c / b.expected
    return g.sum(dim=0) + noise


def main(x, y, steps=700, prob=0.02):
    theta = torch.zeros(x.shape[1])
    for t in range(steps):
        s = torch.bernoulli(torch.full((len(x),), prob)).bool()
        theta = theta - 1e-3 * release(theta, x[s], y[s], Budget())
    return theta
