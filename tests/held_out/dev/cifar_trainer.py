import argparse

import torch
import torch.nn.functional as F
import torchvision
import torchvision.transforms as T
from opacus import PrivacyEngine
from opacus.validators import ModuleValidator
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(0)
        net = torchvision.models.resnet18(num_classes=10)
        self.net = ModuleValidator.fix(net).to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=args.lr, momentum=0.9)
        self.engine = PrivacyEngine(accountant="rdp")

    def data(self):
        tf = T.Compose([T.ToTensor(), T.Normalize((0.5,) * 3, (0.5,) * 3)])
        ds = torchvision.datasets.CIFAR10("data", train=True, transform=tf, download=True)
        return DataLoader(ds, batch_size=self.args.batch, shuffle=True, drop_last=True)

    def setup(self):
        loader = self.data()
        self.net, self.opt, self.loader = self.engine.make_private(
            module=self.net,
            optimizer=self.opt,
            data_loader=loader,
            noise_multiplier=self.args.sigma,
            max_grad_norm=self.args.clip,
            poisson_sampling=False,
        )

    def fit(self):
        self.setup()
        for epoch in range(self.args.epochs):
            seen, good = 0, 0
            for x, y in self.loader:
                x, y = x.to(self.device), y.to(self.device)
                self.opt.zero_grad()
                out = self.net(x)
                F.cross_entropy(out, y).backward()
                self.opt.step()
                seen += len(y)
                good += (out.argmax(1) == y).sum().item()
            print(epoch, good / max(seen, 1), self.engine.get_epsilon(1e-5))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--sigma", type=float, default=1.1)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--epochs", type=int, default=20)
    Trainer(p.parse_args()).fit()
