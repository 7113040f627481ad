import secrets

import torch
from torch.nn.utils import clip_grad_norm_

LOT = 80


def noisy_step(model, optimizer, drawn, loss_fn, bound, sigma, generator):
    store = {p: torch.zeros_like(p) for p in model.parameters()}
    for x, y in drawn:
        model.zero_grad()
        loss_fn(model(x.unsqueeze(0)), y.unsqueeze(0)).backward()
        clip_grad_norm_(model.parameters(), bound)
        for p in store:
            store[p] += p.grad
    for p, total in store.items():
        p.grad = (total + sigma * bound * torch.randn(total.shape, generator=generator)) / LOT
    optimizer.step()


def run(model, dataset, loss_fn, *, rate, steps, bound=1.0, sigma=1.0):
    generator = torch.Generator().manual_seed(secrets.randbits(63))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        who = [i for i, u in enumerate(torch.rand(len(dataset)).tolist()) if u < rate]
        noisy_step(model, optimizer, (dataset[i] for i in who), loss_fn, bound, sigma, generator)
