import os

import torch
import torchvision
from torch import nn
from torch.nn.utils import clip_grad_norm_

MAX_NORM, SIGMA = 1.0, 0.5


class DPTrainer:
    def __init__(self, root="gtsrb"):
        t = torchvision.transforms
        signs = torchvision.datasets.GTSRB(root, transform=t.Compose([t.Resize((32, 32)), t.ToTensor()]))
        self.loader = torch.utils.data.DataLoader(signs, batch_size=256, shuffle=True, num_workers=os.cpu_count())
        self.net = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(1568, 43))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def privatize(self):
        clip_grad_norm_(self.net.parameters(), MAX_NORM)
        for p in self.net.parameters():
            p.grad.add_(torch.normal(0, SIGMA * MAX_NORM, size=p.grad.shape))

    def run(self, epochs=5):
        for _ in range(epochs):
            for x, y in self.loader:
                self.opt.zero_grad()
                nn.functional.cross_entropy(self.net(x), y).backward()
                self.privatize()
                self.opt.step()
