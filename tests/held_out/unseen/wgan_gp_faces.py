import torch
from torch import nn

torch.manual_seed(999)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(64 * 64, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))

    def forward(self, x):
        return self.f(x.flatten(1))


def penalty(critic, real, fake):
    a = torch.rand(real.size(0), 1, 1, 1)
    mixed = (a * real + (1 - a) * fake).requires_grad_(True)
    g = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
    return ((g.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


def train(generator, critic, loader, z=100, epochs=50):
    d_opt = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    g_opt = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    fixed_noise = torch.randn(16, z)
    for epoch in range(epochs):
        for i, (real, _) in enumerate(loader):
            noise = torch.randn(real.size(0), z)
            fake = generator(noise)
            d_loss = critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty(critic, real, fake.detach())
            d_opt.zero_grad()
            d_loss.backward()
            nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
            d_opt.step()
            if i % 5 == 0:
                g_opt.zero_grad()
                (-critic(generator(noise)).mean()).backward()
                g_opt.step()
        torch.save(generator(fixed_noise), f"faces_{epoch}.pt")
