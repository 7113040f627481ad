import torch
from opacus import PrivacyEngine


def train(net, data, epochs=3):
    loader = torch.utils.data.DataLoader(data, batch_size=100, shuffle=True)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    engine = PrivacyEngine()
    net, opt, _ = engine.make_private(module=net, optimizer=opt, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)
    for _ in range(epochs):
        run_epoch(net, opt, loader)
    return engine.get_epsilon(1e-5)


def run_epoch(net, opt, batches):
    for x, y in batches:
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
