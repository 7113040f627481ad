import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)


def block(i, o):
    return nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.ReLU())


class Gen(nn.Module):
    def __init__(self, z=100):
        super().__init__()
        self.z = z
        self.net = nn.Sequential(nn.ConvTranspose2d(z, 256, 4), block(256, 128), block(128, 64), nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())

    def sample(self, n, device):
        return self.net(torch.randn(n, self.z, 1, 1, device=device))


def critic():
    return nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1))


def penalty(d, real, fake):
    mix = torch.rand(len(real), 1, 1, 1)
    x = (mix * real + (1 - mix) * fake).requires_grad_()
    g = torch.autograd.grad(d(x).sum(), x, create_graph=True)[0]
    return ((g.flatten(1).norm(dim=1) - 1) ** 2).mean()


def train(loader, epochs=50, instance=0.1):
    g, d = Gen(), critic()
    og, od = (torch.optim.Adam(m.parameters(), 2e-4, (0.5, 0.9)) for m in (g, d))
    fixed = torch.randn(64, g.z, 1, 1)
    for e in range(epochs):
        sigma = instance * (1 - e / epochs)
        for real, _ in loader:
            noise = torch.randn_like(real) * sigma
            fake = g.sample(len(real), real.device).detach()
            loss = (d(fake + noise) - d(real + noise)).mean() + 10 * penalty(d, real, fake)
            od.zero_grad()
            loss.backward()
            clip_grad_norm_(d.parameters(), 1.0)
            od.step()
            og.zero_grad()
            (-d(g.sample(len(real), real.device)).mean()).backward()
            og.step()
        torch.save(g.net(fixed), f"{e}.pt")
