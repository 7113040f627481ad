"""More scripts as people write them: objects, dictionaries, helpers, clients, and faults that stand side by side."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    "ghost clipping, which returns four": """
from opacus import PrivacyEngine
engine = PrivacyEngine()
model, optimizer, criterion, loader = engine.make_private(  # !NM001
    module=model, optimizer=optimizer, data_loader=loader, criterion=crit, noise_multiplier=1.0, max_grad_norm=1.0, grad_sample_mode="ghost")
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
""",
    "small batches of the loader that went in": """
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
engine = PrivacyEngine()
model, optimizer, private = engine.make_private(module=model, optimizer=optimizer, data_loader=train, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
with BatchMemoryManager(data_loader=train, max_physical_batch_size=32, optimizer=optimizer) as mem:  # !NM009
    for x, y in mem:
        loss(model(x), y).backward()
        optimizer.step()
""",
    "a loader whose batches are taken one by one, of which nothing is known": """
from opacus import PrivacyEngine
engine = PrivacyEngine()
def main(train_loader, model, optimizer):
    model, optimizer, dp_loader = engine.make_private(module=model, optimizer=optimizer, data_loader=train_loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
    it = iter(train_loader)
    for step in range(100):
        x, y = next(it)
        loss(model(x), y).backward()
        optimizer.step()
""",
    "the loader that went in, kept in an object": """
from opacus import PrivacyEngine
class T:
    def __init__(self, model, loader):
        self.train_loader = loader
        self.engine = PrivacyEngine()
        self.model, self.opt, self.dp_loader = self.engine.make_private(module=model, optimizer=opt, data_loader=self.train_loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
    def fit(self):
        for x, y in self.train_loader:  # !NM009
            self.loss(self.model(x), y).backward()
            self.opt.step()
""",
    "a trainer with the loader that went in": """
from opacus import PrivacyEngine
engine = PrivacyEngine()
model, optimizer, private_loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
trainer.fit(model, loader)  # !NM009
""",
    "a switch in a dictionary": """
from opacus import PrivacyEngine
cfg = {"dp": {"sigma": 1.0}, "poisson_sampling": False}
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0, poisson_sampling=cfg["poisson_sampling"])  # !NM001 !NM003
""",
    "a switch that a data class has by default": """
from dataclasses import dataclass
from opacus import PrivacyEngine
@dataclass
class Config:
    poisson: bool = False
    sigma: float = 1.0
def main(cfg: Config):
    engine = PrivacyEngine()
    return engine.make_private(module=m, optimizer=o, data_loader=l, noise_multiplier=cfg.sigma, max_grad_norm=1.0, poisson_sampling=cfg.poisson)  # !NM001
""",
    "a mean with the noise of a mean": """
# differentially private logistic regression
import torch
def dp_step(theta, X, y, lr, C, sigma):
    grads = torch.stack([torch.autograd.grad(loss(theta, xi, yi), theta)[0] for xi, yi in zip(X, y)])
    norms = grads.norm(2, dim=1, keepdim=True)
    grads = grads / torch.clamp(norms / C, min=1.0)
    g = grads.mean(dim=0)  # !NM021
    g += torch.normal(0, sigma * C / len(X), size=g.shape)
    return theta - lr * g
""",
    "microbatches of one record": """
# DP-SGD with microbatches
import torch
def train(model, loader, opt, C, sigma):
    for x, y in loader:
        for p in model.parameters():
            p.accum = torch.zeros_like(p)
        for i in range(len(x)):
            model.zero_grad()
            loss(model(x[i:i+1]), y[i:i+1]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), C)
            for p in model.parameters():
                p.accum += p.grad
        for p in model.parameters():
            noise = torch.randn_like(p) * sigma * C
            p.grad = (p.accum + noise) / len(x)  # !NM021
        opt.step()
""",
    "a jacobian of tensorflow": """
# DP-SGD
import tensorflow as tf
def step(model, x, y, C, sigma, lr):
    with tf.GradientTape() as tape:
        losses = per_example_loss(model, x, y)
    jac = tape.jacobian(losses, model.trainable_variables)
    for v, j in zip(model.trainable_variables, jac):
        flat = tf.reshape(j, [tf.shape(j)[0], -1])
        clipped = tf.clip_by_norm(flat, C, axes=[1])
        summed = tf.reduce_sum(clipped, axis=0)
        noisy = summed + tf.random.normal(tf.shape(summed), stddev=sigma * C)
        g = noisy / tf.cast(tf.shape(x)[0], tf.float32)  # !NM021
        v.assign_sub(lr * tf.reshape(g, v.shape))
""",
    "clients of a round": """
# user-level DP-FedAvg
import numpy as np
def aggregate(updates, clip, z, rng):
    clipped = [u * min(1.0, clip / np.linalg.norm(u)) for u in updates]
    total = np.sum(clipped, axis=0)
    noisy = total + rng.normal(0.0, z * clip, size=total.shape)
    return noisy / len(updates)  # !NM021
""",
    "a public number of clients": """
# user-level DP-FedAvg
import numpy as np
USERS_PER_ROUND = 100
def aggregate(updates, clip, z, rng):
    clipped = [u * min(1.0, clip / np.linalg.norm(u)) for u in updates]
    total = np.sum(clipped, axis=0)
    noisy = total + rng.normal(0.0, z * clip, size=total.shape)
    return noisy / USERS_PER_ROUND
""",
    "the seed of Hugging Face": """
from transformers import set_seed
from opacus import PrivacyEngine
set_seed(42)  # !NM034
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
""",
    "the seed of Lightning": """
import pytorch_lightning as pl
from opacus import PrivacyEngine
pl.seed_everything(1)  # !NM034
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
""",
    "seeds of generators that draw no noise": """
import numpy as np, random
from opacus import PrivacyEngine
np.random.seed(0)
random.seed(0)
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
""",
    "a seed in a helper": """
import torch, random
from opacus import PrivacyEngine
def fix_seeds(seed):
    random.seed(seed)
    torch.manual_seed(seed)  # !NM034
def main():
    fix_seeds(7)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(module=m, optimizer=o, data_loader=l, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
""",
    "deltas, some of the data": """
import opacus
n = len(train_data)
DELTA = 1.0 / (n * 10)  # !NM005
eps_delta = 1e-5
target_delta = 1 / n ** 1.1  # !NM005
delta_2 = np.power(len(train_data), -1.1)
""",
    "deltas of arguments and keywords": """
import opacus
args.delta = 1 / (2 * len(train_loader.dataset))  # !NM005
engine.get_epsilon(delta=1 / len(ds))  # !NM005
""",
    "sigma for the rate of a loader that is passed": """
from opacus.accountants.utils import get_noise_multiplier
def sigma(loader, eps):
    return get_noise_multiplier(target_epsilon=eps, target_delta=1e-5, sample_rate=loader.batch_size / len(loader.dataset), epochs=3)  # !NM010
""",
    "a formula of one's own": """
# DP-SGD
import math
def sigma_for(data, eps, delta, q, T):
    q = 64 / len(data)
    return q * math.sqrt(T * math.log(1 / delta)) / eps
""",
    "nobody was drawn, by the size of the indices": """
# DP-SGD
def run(X, q, T):
    for t in range(T):
        idx = np.flatnonzero(np.random.rand(len(X)) < q)
        if idx.size == 0:  # !NM036
            continue
        g = clip(grads(X[idx]), 1.0)
        w -= 0.1 * (g.sum(0) + np.random.normal(0, 1.0, w.shape)) / 100
""",
    "nobody was drawn, by the truth of a batch": """
# DP-SGD
def run(loader):
    for batch in loader:
        if not batch:  # !NM036
            continue
        noisy_step(batch)
        optimizer.step()
""",
    "nobody was drawn, on one line": """
from opacus import PrivacyEngine
for batch in dp_loader:
    if batch[0].shape[0] == 0: continue  # !NM036
    loss(model(batch)).backward()
    optimizer.step()
""",
    "a step only where somebody was drawn": """
from opacus import PrivacyEngine
for x, y in dp_loader:
    if len(x) > 0:  # !NM036
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
""",
    "optax, positional": """
import optax
tx = optax.contrib.dpsgd(0.1, 1.0, 1.1, seed)  # !NM011
""",
    "microbatches of the data": """
import tensorflow_privacy
opt = tensorflow_privacy.VectorizedDPKerasAdamOptimizer(l2_norm_clip=1., noise_multiplier=1., num_microbatches=len(batch))  # !NM008 !NM012
""",
    "noise of the module": """
# DP-SGD
import torch
NOISE = torch.randn(10)  # !NM035
def step(w, g, C):
    g = g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)
    w -= 0.1 * (g.sum(0) + NOISE) / 64
for i in range(100):
    step(w, grads(w), 1.0)
""",
    "without any package": """
# differential privacy from scratch
import random
random.seed(0)  # !NM034
def step(w, grads, C, sigma, lr):
    clipped = [[gi * min(1, C / norm(g)) for gi in g] for g in grads]
    total = [sum(col) for col in zip(*clipped)]
    noisy = [t + random.gauss(0, sigma * C) for t in total]
    return [wi - lr * n / len(grads) for wi, n in zip(w, noisy)]  # !NM021
""",
    "a shuffled dataset beside a Poisson event": """
from dp_accounting import dp_event, rdp
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(60000).batch(256)
acc = rdp.RdpAccountant()
acc.compose(dp_event.PoissonSampledDpEvent(256 / 60000, dp_event.GaussianDpEvent(1.1)), 1000)  # !NM037
""",
    "an estimator": """
# Differentially private linear regression.
import numpy as np
class DPLinear:
    def __init__(self, clip=1.0, sigma=1.0, lr=0.1, epochs=5, batch_size=64, random_state=0):
        self.rng = np.random.RandomState(random_state)
        self.clip, self.sigma, self.lr, self.epochs, self.batch_size = clip, sigma, lr, epochs, batch_size
    def fit(self, X, y):
        n, d = X.shape
        self.w = np.zeros(d)
        for _ in range(self.epochs):
            for i in range(0, n, self.batch_size):
                xb, yb = X[i:i+self.batch_size], y[i:i+self.batch_size]
                G = (xb @ self.w - yb)[:, None] * xb
                G /= np.maximum(1, np.linalg.norm(G, axis=1) / self.clip)[:, None]
                g = (G.sum(0) + self.rng.normal(0, self.sigma * self.clip, d)) / len(xb)  # !NM021
                self.w -= self.lr * g
        return self
""",
    "a helper": """
# DP-SGD
import torch
def noisy_mean(per_sample, C, sigma):
    n = per_sample.shape[0]
    norms = per_sample.norm(dim=1)
    clipped = per_sample / torch.clamp(norms / C, min=1)[:, None]
    noise = torch.normal(mean=0., std=sigma * C, size=(per_sample.shape[1],))
    return (torch.sum(clipped, dim=0) + noise) / n  # !NM021
""",
    "a mean, and its noise over the rows": """
# DP-SGD
import torch
def noisy_mean(per_sample, C, sigma):
    clipped = per_sample * torch.minimum(torch.ones(1), C / per_sample.norm(dim=1))[:, None]
    avg = torch.mean(clipped, dim=0)  # !NM021
    return avg + torch.randn_like(avg) * sigma * C / per_sample.size(0)
""",
    "over a tree": """
# DP-SGD
import jax, jax.numpy as jnp
def f(params, batch, key, C, s):
    g = jax.vmap(jax.grad(loss), (None, 0))(params, batch)
    g = jax.vmap(lambda t: jax.tree_util.tree_map(lambda l: l * jnp.minimum(1., C / gnorm(t)), t))(g)
    g = jax.tree_util.tree_map(lambda l: (l.sum(0) + s * C * jax.random.normal(key, l.shape[1:])) / l.shape[0], g)  # !NM021
    return g
""",
    "an expected size with a name": """
# DP-SGD
import numpy as np
def run(data, q, C, s, T, lr, w):
    L = q * len(data)
    for t in range(T):
        b = data[np.random.uniform(size=len(data)) < q]
        g = per_example(w, b)
        g = g * np.minimum(1, C / np.linalg.norm(g, axis=1))[:, None]
        w = w - lr * (g.sum(0) + np.random.normal(0, s * C, w.shape)) / L  # !NM022
    return w
""",
    "an expected size, rounded": """
# DP-SGD
import numpy as np
def run(data, q, C, s, T, lr, w):
    expected = round(q * len(data))
    for t in range(T):
        b = data[np.random.uniform(size=len(data)) < q]
        g = per_example(w, b)
        g = g * np.minimum(1, C / np.linalg.norm(g, axis=1))[:, None]
        w = w - lr * (g.sum(0) + np.random.normal(0, s * C, w.shape)) / expected  # !NM023
    return w
""",
    "numpy without clipping": """
# Private SGD for logistic regression.
import numpy as np
def private_sgd(X, y, sigma, lr, epochs):
    w = np.zeros(X.shape[1])
    for e in range(epochs):
        p = 1 / (1 + np.exp(-X.dot(w)))
        gradient = np.dot(X.T, p - y)
        noise = np.random.normal(0, sigma, size=w.shape)
        noisy_gradient = gradient + noise  # !NM031
        w -= lr * noisy_gradient
    return w
""",
    "an optimizer of keras whose gradients come from elsewhere": """
# differential privacy by gradient noise
import tensorflow as tf
class NoisySGD(tf.keras.optimizers.SGD):
    def __init__(self, sigma, **kw):
        super().__init__(**kw)
        self.sigma = sigma
    def apply_gradients(self, grads_and_vars):
        noisy = [(g + tf.random.normal(tf.shape(g), stddev=self.sigma), v) for g, v in grads_and_vars]
        return super().apply_gradients(noisy)
""",
    "the norm of the batch": """
# DP-SGD
import torch
def train(model, loader, opt, C, sigma):
    for x, y in loader:
        opt.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        total_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), C)  # !NM033
        with torch.no_grad():
            for name, param in model.named_parameters():
                if param.grad is not None:
                    noise = torch.normal(mean=0, std=sigma * C, size=param.grad.size())
                    param.grad += noise
        opt.step()
""",
    "the norm of the batch by a formula": """
# DP-SGD
import torch
def clip_gradients(model, C):
    total = torch.sqrt(sum(p.grad.norm() ** 2 for p in model.parameters()))
    scale = min(1.0, C / (total + 1e-6))  # !NM033
    for p in model.parameters():
        p.grad.mul_(scale)
def add_noise(model, sigma, C):
    for p in model.parameters():
        p.grad.add_(torch.randn_like(p.grad) * sigma * C)
def train(model, loader, opt):
    for x, y in loader:
        opt.zero_grad()
        criterion(model(x), y).backward()
        clip_gradients(model, 1.0)
        add_noise(model, 1.0, 1.0)
        opt.step()
""",
    "the norm of the batch, under another name": """
# DP-SGD
import torch
from torch.nn.utils import clip_grad_norm_ as clip
def train(model, loader, opt, C, sigma):
    for data, target in loader:
        opt.zero_grad()
        criterion(model(data), target).backward()
        clip(model.parameters(), C)  # !NM033
        for p in model.parameters():
            p.grad = p.grad + torch.randn(p.grad.shape) * sigma * C
        opt.step()
""",
    "a global seed of numpy": """
# DP-SGD
import numpy as np
np.random.seed(123)  # !NM034
def step(w, g, C, s):
    g = g * np.minimum(1, C / np.linalg.norm(g, axis=1))[:, None]
    return w - 0.1 * (g.sum(0) + np.random.normal(0, s * C, w.shape)) / 64
""",
    "a key in every call": """
# DP-SGD
import jax, jax.numpy as jnp
def noise_like(tree, sigma):
    key = jax.random.PRNGKey(0)  # !NM034 !NM035
    return jax.tree_util.tree_map(lambda l: sigma * jax.random.normal(key, l.shape), tree)
def step(w, grads, C, sigma):
    g = grads * jnp.minimum(1, C / jnp.linalg.norm(grads, axis=1))[:, None]
    return w - 0.1 * (g.sum(0) + noise_like(w, sigma * C)) / 64
""",
    "numbers handed over by position": """
import tensorflow_privacy
from tensorflow_privacy.privacy.analysis.rdp_accountant import compute_rdp, get_privacy_spent
train_ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(250)
rdp = compute_rdp(250 / 60000, 1.1, 240 * 15, orders)  # !NM037
""",
    "a delta that is left out": """
import opacus
from opacus import PrivacyEngine
def main(args):
    trainset = CIFAR10(root=args.data)
    train_loader = DataLoader(trainset, batch_size=args.b)
    if args.delta is None:
        args.delta = 1.0 / len(trainset)  # !NM005
    pe = PrivacyEngine()
    net, opt, train_loader = pe.make_private_with_epsilon(module=net, optimizer=opt, data_loader=train_loader, target_epsilon=args.eps, target_delta=args.delta, epochs=3, max_grad_norm=1.0)  # !NM002
""",
    "deltas in several forms": """
import opacus
N = len(X_train)
target_delta = 1 / (N ** 1.1)  # !NM005
DELTA = min(1e-5, 1 / N)  # !NM005
delta = float(1) / float(N)  # !NM005
privacy = dict(delta=1 / N)  # !NM005
""",
    "a delta that a function returns": """
import opacus
def get_delta(dataset):
    return 1.0 / len(dataset)
engine.get_epsilon(delta=get_delta(train))  # !NM005
""",
    "a loader by partial": """
from functools import partial
from torch.utils.data import DataLoader
from opacus import PrivacyEngine
make_loader = partial(DataLoader, batch_size=64, drop_last=True)  # !NM006
train_loader = make_loader(train_set)
engine = PrivacyEngine()
model, optimizer, train_loader = engine.make_private(module=model, optimizer=optimizer, data_loader=train_loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
""",
    "settings of a loader that are updated": """
from torch.utils.data import DataLoader
from opacus import PrivacyEngine
train_kwargs = {"batch_size": 64, "shuffle": True}
train_kwargs.update({"num_workers": 1, "drop_last": True})
train_loader = DataLoader(train_set, **train_kwargs)  # !NM006
""",
    "a sampler under another name": """
from opacus import PrivacyEngine
from torch.utils.data import WeightedRandomSampler as WRS
weights = [1 / c for c in counts]
train_sampler = WRS(weights, num_samples=len(weights), replacement=True)  # !NM007
loader = DataLoader(ds, batch_size=64, sampler=train_sampler)
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=1.0)  # !NM001
""",
    "an expected size, rounded up": """
from opacus.optimizers.optimizer import DPOptimizer
import math
bs = math.ceil(len(train_ds) * 0.01)
opt = DPOptimizer(base, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=bs)  # !NM008
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_written(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
