import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

STEPS = 200
betas = torch.linspace(1e-4, 0.02, STEPS)
alpha_bar = torch.cumprod(1 - betas, 0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x, t):
        return self.body(torch.cat([x, t[:, None].float() / STEPS], dim=1))


def ring(n):
    angle = torch.rand(n) * 2 * math.pi
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2)


def main():
    torch.manual_seed(1234)
    pts = ring(4096)
    weights = torch.where(pts[:, 0] > 0, 2.0, 1.0)
    sampler = WeightedRandomSampler(weights, len(pts))
    loader = DataLoader(TensorDataset(pts), batch_size=256, sampler=sampler, drop_last=True)
    net, ema = Net(), Net()
    ema.load_state_dict(net.state_dict())
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for epoch in range(20):
        running = 0.0
        for (x0,) in loader:
            t = torch.randint(0, STEPS, (x0.shape[0],))
            noise = torch.randn_like(x0)
            xt = alpha_bar[t].sqrt()[:, None] * x0 + (1 - alpha_bar[t]).sqrt()[:, None] * noise
            loss = ((net(xt, t) - noise) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            running += loss.item()
            for a, b in zip(ema.parameters(), net.parameters()):
                a.data.mul_(0.999).add_(b.data, alpha=0.001)
        print(epoch, running / len(loader), float(norm))


if __name__ == "__main__":
    main()
