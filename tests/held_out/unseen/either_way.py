from dataclasses import dataclass

import torch
from torch.func import functional_call, grad, vmap


@dataclass(frozen=True)
class Settings:
    private: bool = True
    lot: int = 500
    clip: float = 1.0
    sigma: float = 1.0
    lr: float = 0.1


class Loop:
    def __init__(self, net, loss_fn, settings=Settings()):
        self.net, self.loss_fn, self.s = net, loss_fn, settings

    def plain(self, x, y):
        self.net.zero_grad()
        (self.loss_fn(self.net(x), y) / len(x)).backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        return [p.grad for p in self.net.parameters()]

    def private(self, x, y):
        params = dict(self.net.named_parameters())

        def one(params, xi, yi):
            return self.loss_fn(functional_call(self.net, params, xi[None]), yi[None])

        rows = list(vmap(grad(one), (None, 0, 0))(params, x, y).values())
        size = torch.stack([r.flatten(1).norm(dim=1) for r in rows]).norm(dim=0)
        keep = (self.s.clip / (size + 1e-9)).clamp(max=1)
        sums = [torch.einsum("n,n...->...", keep, r) for r in rows]
        return [(s + self.s.sigma * self.s.clip * torch.randn_like(s)) / self.s.lot for s in sums]

    def step(self, x, y):
        gradients = self.private(x, y) if self.s.private else self.plain(x, y)
        with torch.no_grad():
            for p, g in zip(self.net.parameters(), gradients):
                p -= self.s.lr * g
