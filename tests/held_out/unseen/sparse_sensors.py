"""Small site, small rate: batches are often empty, and BatchNorm-free conv1d chokes on them."""
from functools import partial

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader


def conv(width=16):
    return torch.nn.Sequential(
        torch.nn.Conv1d(6, width, 5), torch.nn.GroupNorm(4, width), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten(), torch.nn.Linear(width, 4),
    )


def train(dataset, rounds=4):
    engine = PrivacyEngine()
    private = partial(engine.make_private, noise_multiplier=1.5, max_grad_norm=0.5, rand_on_empty=True)
    net = conv()
    net, opt, dl = private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.3),
        data_loader=DataLoader(dataset, batch_size=2),
    )
    for _ in range(rounds):
        for signal, kind in dl:
            opt.zero_grad()
            torch.nn.functional.cross_entropy(net(signal), kind).backward()
            opt.step()
    return net, engine.get_epsilon(delta=1e-4)
