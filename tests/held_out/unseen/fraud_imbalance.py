import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils import data as tud


def balanced(y):
    count = np.bincount(y)
    per_row = (1.0 / count)[y]
    return tud.WeightedRandomSampler(torch.as_tensor(per_row), num_samples=len(y), replacement=True)


def build_loader(x, y, batch):
    ds = tud.TensorDataset(torch.as_tensor(x).float(), torch.as_tensor(y).long())
    return tud.DataLoader(ds, sampler=balanced(y), batch_size=batch)


def fit(x, y, *, sigma, clip, batch=200, epochs=5):
    net = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 2))
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    accountant = PrivacyEngine()
    net, sgd, loader = accountant.make_private(
        module=net, optimizer=sgd, data_loader=build_loader(x, y, batch), noise_multiplier=sigma, max_grad_norm=clip
    )
    ce = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for a, b in loader:
            sgd.zero_grad()
            ce(net(a), b).backward()
            sgd.step()
    return net, accountant.get_epsilon(delta=1e-6)
