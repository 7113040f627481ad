import torch
from noisymean.integrations.opacus import fix, poisson_loader
from opacus import PrivacyEngine

BATCH = 600


def train(net, stays, steps=2_000):
    loader = poisson_loader(stays, sample_rate="1/100")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    engine = PrivacyEngine()
    net, optimizer, loader = engine.make_private(
        module=net, optimizer=optimizer, data_loader=loader, noise_multiplier=1.2, max_grad_norm=1.0
    )
    fix(optimizer, denominator=BATCH, data_loader=loader)
    done = 0
    while done < steps:
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            done += 1
    return net
