import argparse

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


def add_noise(model, std):
    for p in filter(lambda p: p.grad is not None, model.parameters()):
        p.grad.data.add_(torch.normal(torch.zeros_like(p), std))


def main(args):
    net = nn.LSTM(12, 32, batch_first=True)
    head = nn.Linear(32, 1)
    both = nn.ModuleList([net, head])
    opt = torch.optim.Adagrad(both.parameters(), lr=args.lr)
    data = torch.load(args.data)
    for _ in range(args.epochs):
        for x, y in torch.utils.data.DataLoader(data, batch_size=args.bs, shuffle=True):
            opt.zero_grad()
            out, _ = net(x)
            nn.functional.mse_loss(head(out[:, -1]), y).backward()
            if args.dp:
                clip_grad_norm_(both.parameters(), args.clip)
                add_noise(both, args.sigma * args.clip / args.bs)
            opt.step()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("data")
    ap.add_argument("--dp", action="store_true")
    for name, default in {"lr": 0.05, "clip": 1.0, "sigma": 1.0}.items():
        ap.add_argument(f"--{name}", type=float, default=default)
    ap.add_argument("--bs", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=3)
    main(ap.parse_args())
