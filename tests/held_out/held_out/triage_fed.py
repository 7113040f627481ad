"""flwr client that hides its update with Gaussian noise before it leaves."""
import flwr as fl
import numpy as np
import torch
from torch import nn

SCALE = 0.02


class Triage(fl.client.NumPyClient):
    def __init__(self, net, loader):
        self.net, self.loader = net, loader

    def get_parameters(self, config):
        return [v.cpu().numpy() for v in self.net.state_dict().values()]

    def set_parameters(self, arrays):
        self.net.load_state_dict({k: torch.tensor(a) for k, a in zip(self.net.state_dict(), arrays)})

    def fit(self, arrays, config):
        self.set_parameters(arrays)
        opt = torch.optim.SGD(self.net.parameters(), lr=0.01)
        for x, y in self.loader:
            opt.zero_grad()
            nn.functional.cross_entropy(self.net(x), y).backward()
            for p in self.net.parameters():
                dp_noise = torch.randn_like(p.grad) * SCALE
                p.grad.data = p.grad.data + dp_noise
            opt.step()
        return self.get_parameters({}), len(self.loader.dataset), {}

    def evaluate(self, arrays, config):
        self.set_parameters(arrays)
        wrong = np.mean([(self.net(x).argmax(1) != y).float().mean().item() for x, y in self.loader])
        return float(wrong), len(self.loader.dataset), {}
