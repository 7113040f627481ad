"""Code about privacy in which none of the faults is: steps that are right, accountants, attacks, statistics."""

from __future__ import annotations

import pytest

from lint_scripts import found

SCRIPTS = {
    "teachers that vote": """
# PATE: private aggregation of teacher ensembles, differential privacy
import numpy as np
def aggregate(preds, beta):
    labels = []
    for votes in preds.T:
        counts = np.bincount(votes, minlength=10)
        counts = counts + np.random.laplace(0, 1 / beta, 10)
        labels.append(np.argmax(counts))
    return np.array(labels)
def train_teachers(loaders, model, opt):
    for x, y in loaders:
        loss = criterion(model(x), y)
        loss.backward()
        opt.step()
""",
    "a histogram": """
# differential privacy: histogram
import numpy as np
def histogram(values, bins, epsilon):
    counts, edges = np.histogram(values, bins)
    return counts + np.random.laplace(scale=1 / epsilon, size=len(counts)), edges
""",
    "membership inference": """
# membership inference against DP-SGD models
import numpy as np, torch
def attack(model, members, others):
    scores = [loss(model, x) for x in members]
    threshold = np.mean(scores)
    acc = (np.array(scores) < threshold).mean()
    noise = np.random.normal(0, 0.1, len(scores))
    return acc, np.mean(np.array(scores) + noise)
""",
    "noise on inputs": """
import torch
from opacus import PrivacyEngine
def fgsm(model, x, y, eps):
    x = x + torch.empty_like(x).uniform_(-eps, eps)
    x.requires_grad_()
    loss(model(x), y).backward()
    return (x + eps * x.grad.sign()).clamp(0, 1)
def evaluate(model, loader):
    correct = 0
    for x, y in loader:
        x = x + 0.1 * torch.randn_like(x)
        correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(loader.dataset)
""",
    "an optimizer of one's own": """
# DP-SGD with public lot size.
import secrets
import torch
from torch.func import functional_call, grad, vmap

LOT = 256

class DPSGD:
    def __init__(self, model, clip, sigma, lr):
        self.model, self.clip, self.sigma, self.lr = model, clip, sigma, lr
        self.gen = torch.Generator().manual_seed(secrets.randbits(63))

    def loss_one(self, params, x, y):
        return torch.nn.functional.cross_entropy(functional_call(self.model, params, (x[None],)), y[None])

    def step(self, x, y):
        params = dict(self.model.named_parameters())
        grads = vmap(grad(self.loss_one), in_dims=(None, 0, 0))(params, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        factor = (self.clip / (norms + 1e-6)).clamp(max=1.0)
        with torch.no_grad():
            for name, p in params.items():
                total = torch.einsum("n,n...->...", factor, grads[name])
                noise = torch.randn(p.shape, generator=self.gen) * self.sigma * self.clip
                p -= self.lr * (total + noise) / LOT

def train(model, x, y, rate, steps):
    opt = DPSGD(model, 1.0, 1.1, 0.1)
    losses = 0.0
    for _ in range(steps):
        mask = torch.rand(len(x)) < rate
        opt.step(x[mask], y[mask])
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean()
    print(f"accuracy {acc:.3f}, average norm {losses / steps}")
""",
    "jax": """
# DP-SGD in jax, fixed denominators.
import jax, jax.numpy as jnp, numpy as np, os
B = 128
def clip(tree, c):
    norm = jnp.sqrt(sum(jnp.vdot(l, l) for l in jax.tree.leaves(tree)))
    return jax.tree.map(lambda l: l * jnp.minimum(1.0, c / norm), tree)
@jax.jit
def update(params, key, x, y, mask, c, sigma, lr):
    per = jax.vmap(lambda a, b: clip(jax.grad(loss)(params, a, b), c))(x, y)
    summed = jax.tree.map(lambda g: jnp.tensordot(mask, g, 1), per)
    leaves, tree = jax.tree.flatten(summed)
    keys = jax.random.split(key, len(leaves))
    noisy = [g + sigma * c * jax.random.normal(k, g.shape) for g, k in zip(leaves, keys)]
    grads = jax.tree.unflatten(tree, [g / B for g in noisy])
    return jax.tree.map(lambda p, g: p - lr * g, params, grads)
def main(params, xs, ys, rate, steps):
    key = jax.random.key(int.from_bytes(os.urandom(4), "little"))
    rng = np.random.default_rng()
    for i in range(steps):
        key, sub = jax.random.split(key)
        mask = rng.random(len(xs)) < rate
        params = update(params, sub, xs, ys, jnp.asarray(mask), 1.0, 1.1, 0.1)
    print("mean loss", jnp.mean(jax.vmap(lambda a, b: loss(params, a, b))(xs, ys)))
""",
    "pretraining on public data": """
import torch
from transformers import Trainer
# pretraining is public; privacy comes later
def pretrain(model, loader, opt, accumulation=4):
    for i, b in enumerate(loader):
        loss = model(**b).loss / accumulation
        loss.backward()
        if (i + 1) % accumulation == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
    noise = torch.randn(3)
""",
    "randomized response": """
# local differential privacy by randomized response
import numpy as np
def respond(bits, p, rng):
    flip = rng.random(bits.shape) < p
    return np.where(flip, 1 - bits, bits)
def estimate(reports, p):
    return (reports.mean() - p) / (1 - 2 * p)
""",
    "an accountant": """
# RDP accountant for differential privacy.
import numpy as np
def compute_rdp(q, noise_multiplier, steps, orders):
    return np.array([_rdp(q, noise_multiplier, o) for o in np.atleast_1d(orders)]) * steps
def get_epsilon(orders, rdp, delta):
    eps = rdp - np.log(delta) / (orders - 1)
    return np.nanmin(eps)
def main(args):
    q = args.batch_size / args.n
    steps = args.epochs * args.n // args.batch_size
    order = np.random.permutation(3)
    return get_epsilon(range(2, 64), compute_rdp(q, args.sigma, steps, range(2, 64)), args.delta)
""",
    "a test of an optimizer": """
import torch
from opacus.optimizers import DPOptimizer
def test_noise():
    p = torch.nn.Parameter(torch.zeros(1000))
    p.grad_sample = torch.zeros(4, 1000)
    opt = DPOptimizer(torch.optim.SGD([p], lr=1.0), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=4)
    opt.step()
    assert p.std() > 0
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_right(name: str) -> None:
    assert found(SCRIPTS[name]) == []
