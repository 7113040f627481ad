"""Robust birdsong classifier: noisy audio, clipped gradients, a fixed seed for the run."""
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, WeightedRandomSampler


def everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


class AddNoise:
    def __init__(self, low=5, high=30):
        self.low, self.high = low, high

    def __call__(self, wave):
        snr = random.uniform(self.low, self.high)
        noise = torch.randn_like(wave)
        scale = (wave.pow(2).mean() / 10 ** (snr / 10) / noise.pow(2).mean()).sqrt()
        return (wave + scale * noise).clip(-1, 1)


class Collate:
    def __init__(self):
        self.aug = AddNoise()

    def __call__(self, rows):
        waves, labels = zip(*rows)
        return torch.stack([self.aug(w) for w in waves]), torch.tensor(labels)


def main(train, weights):
    everything(1337)
    loader = DataLoader(train, 64, sampler=WeightedRandomSampler(weights, len(weights)), collate_fn=Collate(), drop_last=True)
    net = nn.Sequential(nn.Conv1d(1, 32, 80, 16), nn.ReLU(), nn.AdaptiveMaxPool1d(8), nn.Flatten(), nn.Linear(256, 120))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(20):
        running = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y, reduction="sum") / len(y)
            opt.zero_grad()
            loss.backward()
            for p in net.parameters():
                p.grad.clamp_(-0.5, 0.5)
            opt.step()
            running += loss.item() * len(y)
        print(epoch, running / len(loader.sampler))
