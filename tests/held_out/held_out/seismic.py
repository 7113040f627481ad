import secrets

import numpy as np
import torch


class Lots:
    """So many lots an epoch; the divisor follows."""

    def __init__(self, catalogue, per_epoch=100):
        self.catalogue = catalogue
        self.size = len(catalogue) // per_epoch
        self.rate = 1 / per_epoch

    def __iter__(self):
        while True:
            coins = np.random.random(len(self.catalogue))
            yield torch.as_tensor(self.catalogue[coins < self.rate], dtype=torch.float32)


def main(path="quakes.npy", iterations=3000, clip=1.0, sigma=1.0):
    lots = Lots(np.load(path))
    g = torch.Generator().manual_seed(secrets.randbits(40))
    w = torch.zeros(lots.catalogue.shape[1] - 1)
    for k, lot in zip(range(iterations), lots):
        x, mag = lot[:, :-1], lot[:, -1]
        per = torch.clamp(x @ w - mag, -3, 3).unsqueeze(1) * x
        per.mul_((clip / per.norm(p=2, dim=1)).clamp_(max=1).unsqueeze(1))
        w.sub_((per.sum(0) + torch.randn(w.shape, generator=g).mul_(sigma * clip)).mul_(0.5).div_(lots.size))
