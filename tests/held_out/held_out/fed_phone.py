import copy
import random

import torch
from torch import nn


class Phone:
    def __init__(self, data):
        self.data = data

    def improve(self, model, lr=0.1, passes=2):
        local = copy.deepcopy(model)
        opt = torch.optim.SGD(local.parameters(), lr=lr)
        for _ in range(passes):
            for x, y in self.data:
                opt.zero_grad()
                nn.functional.cross_entropy(local(x), y).backward()
                opt.step()
        return [a.detach() - b.detach() for a, b in zip(local.parameters(), model.parameters())]


def shortened(update, most):
    norm = torch.sqrt(sum(u.pow(2).sum() for u in update))
    return [u * min(1.0, most / (norm.item() + 1e-9)) for u in update]


class Coordinator:
    def __init__(self, model, phones, *, prob, most, z):
        self.model, self.phones, self.prob, self.most, self.z = model, phones, prob, most, z

    def round(self):
        cohort = [p for p in self.phones if random.random() < self.prob]
        if not cohort:
            return
        updates = [shortened(p.improve(self.model), self.most) for p in cohort]
        with torch.no_grad():
            for k, w in enumerate(self.model.parameters()):
                total = torch.stack([u[k] for u in updates]).sum(0)
                total = total + torch.empty_like(total).normal_(std=self.z * self.most)
                w += total / len(cohort)


def federate(model, phones, rounds=200):
    boss = Coordinator(model, phones, prob=0.05, most=0.4, z=1.0)
    for _ in range(rounds):
        boss.round()
    return boss.model
