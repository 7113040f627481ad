"""Keystroke model. Constant denominators, Poisson draws."""
import secrets

import torch
from torch.func import functional_call, grad_and_value, vmap

LOT, RATE, CLIP, Z, LR = 250, 0.004, 0.7, 1.0, 0.4


def poisson(n, rate, steps):
    for _ in range(steps):
        yield torch.arange(n)[torch.rand(n) <= rate]


def train(net, keys, users, steps):
    params = dict(net.named_parameters())
    gen = torch.Generator()
    gen.manual_seed(secrets.randbits(48))

    def one(ps, k, u):
        return torch.nn.functional.cross_entropy(functional_call(net, ps, k[None]), u[None])

    sweep = vmap(grad_and_value(one), in_dims=(None, 0, 0))
    skipped = 0
    for idx in poisson(len(keys), RATE, steps):
        if idx.nelement() < 1:
            skipped += 1
            continue
        grads, _ = sweep(params, keys[idx], users[idx])
        norms = sum(g.reshape(len(idx), -1).pow(2).sum(-1) for g in grads.values()).sqrt()
        shrink = CLIP / norms.clamp_min(CLIP)
        for name, g in grads.items():
            s = (shrink.view(-1, *[1] * (g.dim() - 1)) * g).sum(0)
            s += CLIP * Z * torch.randn(s.size(), generator=gen)
            params[name] = (params[name] - LR * s / LOT).detach()
    print("left out", skipped)
    return params
