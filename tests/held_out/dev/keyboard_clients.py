"""Next word, many phones, one server."""
import copy

import numpy as np
import torch
from torch import nn


class Phone:
    def __init__(self, tokens, targets, sigma=0.01):
        self.tokens, self.targets, self.sigma = tokens, targets, sigma

    def local_round(self, model, lr=0.1):
        model = copy.deepcopy(model)
        opt = torch.optim.SGD(model.parameters(), lr=lr)
        opt.zero_grad()
        nn.functional.cross_entropy(model(self.tokens), self.targets).backward()
        for p in model.parameters():
            p.grad += self.sigma * torch.randn(p.grad.shape)
        opt.step()
        return model.state_dict()


def per_example_update(model, x, y, bound, lr):
    params = list(model.parameters())
    acc = [torch.zeros_like(p) for p in params]
    for i in range(x.shape[0]):
        gs = torch.autograd.grad(nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]), params)
        norm = torch.sqrt(sum((g**2).sum() for g in gs))
        factor = min(1.0, bound / (norm.item() + 1e-6))
        for a, g in zip(acc, gs):
            a += factor * g
    with torch.no_grad():
        for p, a in zip(params, acc):
            p -= lr * a / 32


def average(states):
    out = copy.deepcopy(states[0])
    for k in out:
        out[k] = torch.stack([s[k].float() for s in states]).mean(0)
    return out


def rounds(model, phones, count=100, fraction=0.1):
    for _ in range(count):
        chosen = np.random.choice(len(phones), max(1, int(fraction * len(phones))), replace=False)
        model.load_state_dict(average([phones[i].local_round(model) for i in chosen]))
    return model
