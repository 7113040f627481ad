from dataclasses import dataclass, asdict

import torch
from opacus import PrivacyEngine as Engine
from torch import nn, optim
from torch.utils.data import DataLoader


@dataclass(frozen=True)
class Privacy:
    noise_multiplier: float = 0.8
    max_grad_norm: float = 0.5
    poisson_sampling: bool = False


@dataclass
class Run:
    epochs: int = 8
    lr: float = 1e-3
    batch: int = 128
    privacy: Privacy = Privacy()


class Gate(nn.Module):
    def __init__(self, d, h=32):
        super().__init__()
        self.mask, self.body, self.out = nn.Linear(d, d), nn.Linear(d, h), nn.Linear(h, 1)

    def forward(self, x):
        return self.out(torch.relu(self.body(x * torch.sigmoid(self.mask(x))))).squeeze(-1)


def private(engine, net, opt, dl, cfg):
    return engine.make_private(module=net, optimizer=opt, data_loader=dl, **asdict(cfg))


def train(ds, run=Run()):
    dl = DataLoader(ds, run.batch, shuffle=True)
    net = Gate(ds[0][0].numel())
    opt = optim.AdamW(net.parameters(), lr=run.lr)
    engine = Engine()
    net, opt, dl = private(engine, net, opt, dl, run.privacy)
    lossf = nn.BCEWithLogitsLoss()
    for _ in range(run.epochs):
        for x, y in dl:
            lossf(net(x), y.float()).backward()
            opt.step()
            opt.zero_grad()
        print(engine.get_epsilon(delta=1e-6))
    return net
