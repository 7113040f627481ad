import torch
from torch import nn


def poisson(n, q):
    return torch.nonzero(torch.bernoulli(torch.full((n,), q))).squeeze(1)


def clip_(grads, bound):
    norm = torch.cat([g.reshape(-1) for g in grads]).norm()
    return [g * min(1.0, float(bound / (norm + 1e-9))) for g in grads]


def private_epoch(net: nn.Module, table, q, bound, sigma, lr):
    n = len(table)
    params = [p for p in net.parameters() if p.requires_grad]
    lot = q * n
    for _ in range(round(1 / q)):
        acc = [torch.zeros_like(p) for p in params]
        for i in poisson(n, q):
            x, y = table[i]
            gs = torch.autograd.grad(nn.functional.cross_entropy(net(x[None]), y[None]), params)
            for a, g in zip(acc, clip_(gs, bound)):
                a.add_(g)
        with torch.no_grad():
            for p, a in zip(params, acc):
                a.add_(torch.randn_like(a), alpha=sigma * bound)
                p.sub_(a.div_(lot), alpha=lr)
