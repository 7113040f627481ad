from dataclasses import dataclass

import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from torch.utils.data import DataLoader


@dataclass(frozen=True)
class Budget:
    epsilon: float = 4.0
    delta: float = 1e-6
    epochs: int = 15


def prepare(net, train_set, budget=Budget(), batch_size=400):
    loader = DataLoader(train_set, batch_size=batch_size, shuffle=True)
    sigma = get_noise_multiplier(
        target_epsilon=budget.epsilon,
        target_delta=budget.delta,
        sample_rate=1 / len(loader),
        epochs=budget.epochs,
    )
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    engine = PrivacyEngine()
    return engine, *engine.make_private(
        module=net, optimizer=opt, data_loader=loader, noise_multiplier=sigma, max_grad_norm=1.5
    )


def fit(net, train_set, loss_fn):
    engine, net, opt, loader = prepare(net, train_set)
    for _ in range(Budget.epochs):
        for x, y in loader:
            opt.zero_grad()
            loss_fn(net(x), y).backward()
            opt.step()
    return net
