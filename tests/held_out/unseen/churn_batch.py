import math

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset


def batch_for(dataset):
    # square root of n is the usual lot
    return int(math.sqrt(len(dataset)))


def train(features, churned, sigma=1.1):
    ds = TensorDataset(features, churned)
    loader = DataLoader(ds, batch_size=batch_for(ds), shuffle=True)
    net = torch.nn.Linear(features.shape[1], 1)
    opt = torch.optim.SGD(net.parameters(), lr=1.0)
    pe = PrivacyEngine()
    net, opt, loader = pe.make_private(module=net, optimizer=opt, data_loader=loader, noise_multiplier=sigma, max_grad_norm=1)
    for _ in range(20):
        for x, y in loader:
            opt.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(net(x)[:, 0], y).backward()
            opt.step()
    return net.state_dict(), pe.accountant.get_epsilon(delta=1e-5)
