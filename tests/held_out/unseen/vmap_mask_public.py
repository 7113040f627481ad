import secrets

import torch
from torch.func import functional_call, grad, vmap

LOT = 600


def make_step(net, loss_fn, *, clip, sigma, lr):
    gen = torch.Generator().manual_seed(secrets.randbits(62))

    def one(params, x, y):
        return loss_fn(functional_call(net, params, (x.unsqueeze(0),)), y.unsqueeze(0))

    rows = vmap(grad(one), in_dims=(None, 0, 0))

    def step(params, x, y):
        g = rows(params, x, y)
        norm = torch.sqrt(sum(v.flatten(1).pow(2).sum(1) for v in g.values()))
        scale = (clip / norm.clamp(min=1e-12)).clamp(max=1.0)
        fresh = {}
        for name, v in g.items():
            total = torch.einsum("b,b...->...", scale, v)
            total += sigma * clip * torch.randn(total.shape, generator=gen)
            fresh[name] = params[name] - lr * total / LOT
        return fresh

    return step


def train(net, loss_fn, x, y, steps, rate=0.01):
    torch.manual_seed(0)
    for module in net.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    params = {k: p.detach() for k, p in net.named_parameters()}
    step = make_step(net, loss_fn, clip=1.0, sigma=1.1, lr=0.5)
    torch.seed()
    for _ in range(steps):
        drawn = torch.rand(len(x)) < rate
        params = step(params, x[drawn], y[drawn])
    return params
