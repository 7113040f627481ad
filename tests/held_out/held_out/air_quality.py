"""Differentially private forecasting of particulates."""
import argparse
import secrets

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def dp_train(net, data, args):
    gen = torch.Generator().manual_seed(secrets.randbits(63))
    opt = torch.optim.SGD(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        for past, nxt in DataLoader(data, args.lot, shuffle=True):
            opt.zero_grad()
            nn.functional.mse_loss(net(past), nxt).backward()
            for w in net.parameters():
                w.grad += args.sigma / args.lot * torch.randn(w.grad.shape, generator=gen)
            opt.step()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description="private training")
    p.add_argument("--sigma", type=float, default=1.0, help="noise multiplier of the Gaussian mechanism")
    p.add_argument("--lot", type=int, default=128)
    p.add_argument("--lr", type=float, default=0.01)
    p.add_argument("--epochs", type=int, default=10)
    table = torch.load("pm25.pt")
    dp_train(nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 1)), TensorDataset(table[:, :48], table[:, 48:]), p.parse_args())
