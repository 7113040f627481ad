import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from torch.utils.data import DataLoader

LOT, N, SIGMA, CLIP = 200, 60_000, 1.0, 1.0


def spent(steps):
    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(LOT / N, GaussianDpEvent(SIGMA)), steps))
    return accountant.get_epsilon(1e-5)


def train(net, dataset, epochs, lr=0.2):
    steps = 0
    for _ in range(epochs):
        for x, y in DataLoader(dataset, batch_size=LOT, shuffle=True):
            sums = [torch.zeros_like(p) for p in net.parameters()]
            for xi, yi in zip(x, y):
                net.zero_grad()
                torch.nn.functional.cross_entropy(net(xi[None]), yi[None]).backward()
                norm = sum(p.grad.square().sum() for p in net.parameters()).sqrt()
                for s, p in zip(sums, net.parameters()):
                    s.add_(p.grad * torch.clamp(CLIP / norm, max=1.0))
            with torch.no_grad():
                for s, p in zip(sums, net.parameters()):
                    p -= lr * (s + SIGMA * CLIP * torch.randn(s.shape)) / LOT
            steps += 1
    return spent(steps)
