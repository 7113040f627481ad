"""Large Poisson batches in pieces that fit: clipped sums are accumulated, noise is added once, one public divisor."""
import secrets
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


@dataclass
class Plan:
    expected: int = 2048
    rate: float = 0.02
    norm: float = 1.0
    z: float = 1.2
    lr: float = 0.5
    piece: int = 256
    gen: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(secrets.randbits(60)))


class Accumulated:
    def __init__(self, net, plan):
        self.net, self.plan = net, plan
        self.w = {k: v.detach().clone() for k, v in net.named_parameters()}
        self.each = vmap(grad(self._loss), in_dims=(None, 0, 0))

    def _loss(self, w, x, y):
        return nn.functional.binary_cross_entropy_with_logits(functional_call(self.net, w, (x,)).squeeze(-1), y)

    def _bounded(self, x, y):
        g = self.each(self.w, x, y)
        n = torch.stack([v.flatten(1).norm(2, 1) for v in g.values()]).norm(2, 0)
        m = 1.0 / torch.clamp(n / self.plan.norm, min=1.0)
        return {k: torch.einsum("b,b...->...", m, v) for k, v in g.items()}

    def step(self, x, y):
        acc = {k: torch.zeros_like(v) for k, v in self.w.items()}
        for a, b in zip(x.split(self.plan.piece), y.split(self.plan.piece)):
            for k, v in self._bounded(a, b).items():
                acc[k] += v
        for k in acc:
            acc[k] += torch.randn(acc[k].shape, generator=self.plan.gen) * self.plan.z * self.plan.norm
            self.w[k] -= self.plan.lr * acc[k] / self.plan.expected


def main(x, y, steps=500):
    job = Accumulated(nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 1)), Plan())
    for _ in range(steps):
        lucky = torch.rand(x.shape[0]) < job.plan.rate
        job.step(x[lucky], y[lucky])
    return job.w
