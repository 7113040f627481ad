"""Code with noise, clipping and seeds that has nothing to do with privacy: nothing is found in it."""

from __future__ import annotations

import pytest

from lint_scripts import found

SCRIPTS = {
    "a GAN": """
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
loader = DataLoader(dataset, batch_size=128, shuffle=True, drop_last=True)
fixed_noise = torch.randn(64, 100, 1, 1)
for epoch in range(25):
    for i, (real, _) in enumerate(loader):
        noise = torch.randn(real.size(0), 100, 1, 1)
        fake = generator(noise)
        loss_d = (criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)) / 2
        loss_d.backward()
        optimizer_d.step()
        gradients = torch.autograd.grad(discriminator(mixed).sum(), mixed, create_graph=True)[0]
        gradient_penalty = ((gradients.view(real.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()
""",
    "a diffusion model": """
import torch
import torch.nn.functional as F

class Diffusion:
    def __init__(self, noise_steps=1000, beta_start=1e-4, beta_end=0.02):
        self.beta = torch.linspace(beta_start, beta_end, noise_steps)
        self.alpha_hat = torch.cumprod(1 - self.beta, dim=0)

    def noise_images(self, x, t):
        noise = torch.randn_like(x)
        return self.alpha_hat[t].sqrt()[:, None] * x + (1 - self.alpha_hat[t]).sqrt()[:, None] * noise, noise

def train(model, loader, opt):
    for images, _ in loader:
        x_t, noise = diffusion.noise_images(images, t)
        loss = F.mse_loss(noise, model(x_t, t))
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        ema_loss = loss.item() / len(loader)
""",
    "Langevin dynamics": """
import torch

def sample(score, x, steps, eps):
    for _ in range(steps):
        grad = score(x)
        noise = torch.randn_like(x)
        x = x + eps / 2 * grad + eps**0.5 * noise
    return x
""",
    "gradient clipping as everybody does it": """
import torch

def train(model, loader, optimizer, max_grad_norm=1.0):
    model.train()
    total = 0.0
    for step, batch in enumerate(loader):
        loss = model(**batch).loss / accumulation_steps
        loss.backward()
        if (step + 1) % accumulation_steps == 0:
            grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
        total += loss.item()
    return total / len(loader)
""",
    "exploration of an agent": """
import numpy as np
import torch

class OUNoise:
    def __init__(self, size, seed, mu=0.0, theta=0.15, sigma=0.2):
        self.state = mu * np.ones(size)
        self.rng = np.random.RandomState(seed)

    def sample(self):
        self.state += 0.15 * (0.0 - self.state) + 0.2 * self.rng.randn(len(self.state))
        return self.state

class TD3:
    def select(self, state, noise=0.1):
        action = self.actor(state)
        return (action + np.random.normal(0, noise, size=action.shape)).clip(-1, 1)

    def train(self, replay, batch_size=256):
        state, action, next_state, reward, not_done = replay.sample(batch_size)
        noise = (torch.randn_like(action) * 0.2).clamp(-0.5, 0.5)
        target = reward + not_done * 0.99 * self.critic(next_state, self.actor(next_state) + noise)
        self.critic_optimizer.zero_grad()
        ((self.critic(state, action) - target) ** 2).mean().backward()
        torch.nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
        self.critic_optimizer.step()
""",
    "noise on images": """
import numpy as np

def augment(images, seed=0):
    rng = np.random.default_rng(seed)
    noisy = images + rng.normal(0, 0.05, images.shape)
    return np.clip(noisy, 0.0, 1.0) / images.shape[0]
""",
    "noise on weights against overfitting": """
import torch

class NoisyLinear(torch.nn.Linear):
    def __init__(self, n_in, n_out, sigma=0.017):
        super().__init__(n_in, n_out)
        self.sigma = torch.nn.Parameter(torch.full((n_out, n_in), sigma))
        self.register_buffer("epsilon", torch.zeros(n_out, n_in))

    def forward(self, x):
        torch.randn(self.epsilon.size(), out=self.epsilon)
        return torch.nn.functional.linear(x, self.weight + self.sigma * self.epsilon, self.bias)
""",
    "a variational autoencoder": """
import torch

class VAE(torch.nn.Module):
    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + std * torch.randn_like(std)

def train(model, loader, optimizer):
    for i, (data, _) in enumerate(loader):
        recon, mu, logvar = model(data)
        loss = torch.nn.functional.binary_cross_entropy(recon, data, reduction="sum") / len(data)
        loss.backward()
        optimizer.step()
""",
    "a Kalman filter": """
import numpy as np

def update(mean, cov, z, noise):
    gain = cov / (cov + noise)
    innovation = z - mean
    return mean + gain * innovation, (1 - gain) * cov

def average(noisy):
    return noisy.sum(axis=0) / len(noisy)
""",
    "an evolution strategy": """
import numpy as np

def es(f, w, sigma=0.1, alpha=0.01, pop=50, iters=300):
    for _ in range(iters):
        noise = np.random.randn(pop, w.size)
        rewards = np.array([f(w + sigma * e) for e in noise])
        advantage = (rewards - rewards.mean()) / rewards.std()
        w = w + alpha / (pop * sigma) * noise.T @ advantage
    return w
""",
    "federated averaging": """
import copy
import torch

def average(states):
    mean = copy.deepcopy(states[0])
    for key in mean:
        for other in states[1:]:
            mean[key] += other[key]
        mean[key] = torch.div(mean[key], len(states))
    return mean

def normal_init(m):
    torch.nn.init.normal_(m.weight, 0.0, 0.02)
""",
    "private and clipped words": """
class Cache:
    \"\"\"A private cache; keys are clipped to 64 characters, as licensed by the Noise Privacy Authors, https://example.org/privacy.\"\"\"

    def __init__(self, private=True):
        self._private = private

    def mean(self, values):
        return sum(values) / len(values)
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_elsewhere(name: str) -> None:
    assert found(SCRIPTS[name]) == []
