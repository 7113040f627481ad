import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader


def noisy_step(model, optimizer, batch, sigma, bound):
    x, y = batch
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    clip_grad_norm_(model.parameters(), bound)
    for p in model.parameters():
        p.grad.add_(torch.randn_like(p.grad), alpha=sigma * bound)
    optimizer.step()
    return loss.item()


def accumulate(model, optimizer, batch, sigma, bound, lot):
    x, y = batch
    sums = [torch.zeros_like(p) for p in model.parameters()]
    for xi, yi in zip(x, y):
        model.zero_grad()
        nn.functional.cross_entropy(model(xi[None]), yi[None]).backward()
        clip_grad_norm_(model.parameters(), bound)
        for s, p in zip(sums, model.parameters()):
            s += p.grad
    for s, p in zip(sums, model.parameters()):
        p.grad = s / lot + sigma * bound * torch.randn_like(s)
    optimizer.step()


def train(model, dataset, lot=64, sigma=0.8, bound=1.0, epochs=3, exact=True):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(dataset, batch_size=lot, shuffle=True)
    for epoch in range(epochs):
        for i, batch in enumerate(loader):
            if exact:
                accumulate(model, optimizer, batch, sigma, bound, lot)
            else:
                noisy_step(model, optimizer, batch, sigma, bound)
            if i % 20 == 0:
                print(f"{epoch} [{i * len(batch[0])}/{len(loader.dataset)}]")
