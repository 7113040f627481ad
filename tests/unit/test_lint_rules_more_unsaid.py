"""Scripts that never say that they are private, and settings, seeds and results that are spread further; each beside its twin."""

from __future__ import annotations

import pytest

from lint_scripts import both

_CLIPPED = """
import secrets
import torch
from torch.func import grad, vmap

def fit(x, y, row_loss, steps, rate=0.02, clip=1.0, sigma=1.0):
    w = torch.zeros(x.shape[1])
    for t in range(steps):
        drawn = torch.rand(len(y)) < rate
        {before}
        rows = vmap(grad(row_loss), (None, 0, 0))(w, x[drawn], y[drawn])
        rows = rows * (clip / rows.norm(dim=1).clamp(min=1e-9)).clamp(max=1)[:, None]
        w = w - 0.1 * (rows.sum(0) + sigma * clip * {noise}) / {by}
    return w
"""
_PUBLIC = "torch.randn(w.shape)"


def clipped(before: str = "pass", noise: str = _PUBLIC, by: str = "64") -> str:
    """Rows are clipped and get noise of sigma times C; nothing says what for."""
    return _CLIPPED.format(before=before, noise=noise, by=by)


_SKIP = "if {}:{}\n            continue"
_KEYS = """
import secrets
import jax
import jax.numpy as jnp

def step(w, key, x, y, C=1.0, sigma=1.0):
    def one(x, y):
        g = jax.grad(lambda v: (v @ x - y) ** 2)(w)
        return jax.tree_util.tree_map(lambda v: v * jnp.minimum(1.0, C / (jnp.linalg.norm(v) + 1e-9)), g)  # !NM041

    sums = jax.tree_util.tree_map(lambda v: v.sum(0), jax.vmap(one)(x, y))
    leaves, tree = jax.tree_util.tree_flatten(sums)
    {noise}
    return jax.tree_util.tree_unflatten(tree, [v / 64 for v in noisy])

def train(w, x, y, steps):
    key = jax.random.PRNGKey(secrets.randbits(32))
    for _ in range(steps):
        {round}
    return w
"""
_SAME = "w = step(w, key, x, y)  # !NM035"
_NEXT = "key, now = jax.random.split(key); w = step(w, now, x, y)"
_ZIPPED = "[v + sigma * C * jax.random.normal(k, v.shape) for v, k in zip(leaves, jax.random.split(key, len(leaves)))]"
_NAMED = (
    "keys = jax.random.split(key, len(leaves)); "
    "noisy = [v + sigma * C * jax.random.normal(k, v.shape) for k, v in zip(keys, leaves)]"
)
_FIXED = "[v + sigma * C * jax.random.normal(k, v.shape) for v, k in zip(leaves, jax.random.split(key, 4))]"
_SETTINGS = """
import torch

class PerExample(torch.optim.Optimizer):
    def collect(self):
        for group in self.param_groups:
            norm = torch.sqrt(sum(p.grad.pow(2).sum() for p in group["params"]))
            factor = torch.clamp(group["clip"] / (norm + 1e-8), max=1.0)
            for p in group["params"]:
                p.total += factor * p.grad

    def step(self):
        for group in self.param_groups:
            {scale}
            for p in group["params"]:
                {mean}
                p.data.add_({update}, alpha=-group["lr"])
"""
_WHOLE = """
import torch
from torch import nn

def step(net, optimizer, x, y, {told}):
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    {clip}
    for p in net.parameters():
        {noise}
    optimizer.step()
"""
_ENGINE = """
from opacus import PrivacyEngine

engine = PrivacyEngine()
{before}
{made} = engine.make_private(  # !NM001
    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.1, max_grad_norm=1.0
)
{after}
"""
_LOOP = """for x, y in loader:{mark}
    {optimizer}.zero_grad()
    criterion({model}(x), y).backward()
    {optimizer}.step()"""


def engine(made: str, mark: bool, optimizer: str = "optimizer", model: str = "model", **more: str) -> str:
    """make_private, what its results are called, and a loop over the loader that went in."""
    loop = _LOOP.format(mark="  # !NM009" if mark else "", optimizer=optimizer, model=model)
    return _ENGINE.format(made=made, before=more.get("before", ""), after=more.get("between", "") + "\n" + loop)


_KERAS = """
import tensorflow as tf
from tensorflow_privacy.privacy.keras_models.dp_keras_model import DPModel, DPSequential

def run(x, y, layers, inputs, outputs):
    {size}
    model = {model}  # !NM012
    model.compile(optimizer="sgd", loss="mse")
    {fit}
"""
_SEQUENTIAL = "DPSequential(l2_norm_clip=1.0, noise_multiplier=1.1, layers=layers)"
_FUNCTIONAL = "DPModel(l2_norm_clip=1.0, noise_multiplier=1.1, inputs=inputs, outputs=outputs)"
_GLOBAL = """
import torch
{seed}

def noisy_sum(per_example_grads, C, sigma):
    norms = per_example_grads.norm(dim=1, keepdim=True)
    total = (per_example_grads * (C / norms).clamp(max=1)).sum(0)
    {noise}
    return total + noise
"""
_DISTRIBUTION = "law = torch.distributions.Normal(0.0, sigma * C); noise = law.sample(total.shape)"
_LOTS = """
import torch

class Lots:
    def __init__(self, rows, per_epoch=100):
        self.rows, self.rate = rows, 1 / per_epoch
        self.size = {size}

    def draw(self):
        return self.rows[torch.rand(len(self.rows)) < self.rate]

def main(rows, w, epochs, clip=1.0, sigma=1.0):
    lots = Lots(rows)
    for _ in range(epochs):
        lot = lots.draw()
        g = (lot @ w).clamp(-3, 3)[:, None] * lot
        g = g * (clip / g.norm(dim=1)).clamp(max=1)[:, None]
        w = w - (g.sum(0) + torch.randn(w.shape) * (sigma * clip)) / lots.size{mark}
    return w
"""
_APART = """
# DP-SGD
import torch
from torch.func import grad, vmap

def clipped_sum(w, loss, x, y, C):
    g = vmap(grad(loss), (None, 0, 0))(w, x, y)
    return (g * (C / g.norm(dim=1).clamp(min=1e-9)).clamp(max=1)[:, None]).sum(0)

{step}
"""

SCRIPTS = {
    # --- a step that is left out, where nothing says what the noise is for
    "nobody was drawn, by any": clipped(_SKIP.format("not drawn.any()", "  # !NM036")),
    "nobody was drawn, by a sum": clipped(_SKIP.format("drawn.sum() == 0", "  # !NM036")),
    "nobody was drawn, by a length": clipped(_SKIP.format("len(x[drawn]) < 1", "  # !NM036")),
    "nobody was drawn, and the step is taken": clipped(),
    "every tenth is shown": clipped("if t % 10 == 0:\n            print(t)"),
    # --- the seed counts
    "the number of the step": clipped(noise="noise(t, w)")
    + "\ndef noise(t, like):\n    g = torch.Generator()\n    g.manual_seed(t)  # !NM034\n"
    + "    return torch.randn(like.shape, generator=g)\n",
    "the number of the step and a constant": clipped(noise="noise(t, w)")
    + "\ndef noise(t, like):\n    g = torch.Generator().manual_seed(77 + 3 * t)  # !NM034\n"
    + "    return torch.randn(like.shape, generator=g)\n",
    "the number of the step, in the loop": clipped(
        "g = torch.Generator().manual_seed(9 + t)  # !NM034", "torch.randn(w.shape, generator=g)"
    ),
    "a secret beside the number of the step": clipped(
        "g = torch.Generator().manual_seed(secrets.randbits(40) + t)", "torch.randn(w.shape, generator=g)"
    ),
    "a seed that somebody hands over": clipped(noise="noise(t, w)")
    + "\ndef other(s, like):\n    g = torch.Generator().manual_seed(s)\n    return torch.randn(like.shape, generator=g)\n",
    # --- one key for all steps, split for the parts of one
    "split in a comprehension": _KEYS.format(noise=f"noisy = {_ZIPPED}", round=_SAME),
    "split before a comprehension": _KEYS.format(noise=_NAMED, round=_SAME),
    "split into four": _KEYS.format(noise=f"noisy = {_FIXED}", round=_SAME),
    "split in a comprehension, and before each step": _KEYS.format(noise=f"noisy = {_ZIPPED}", round=_NEXT),
    "split before a comprehension, and before each step": _KEYS.format(noise=_NAMED, round=_NEXT),
    # --- settings by their keys
    "a mean and the noise of a sum": _SETTINGS.format(
        scale='std = group["sigma"] * group["clip"]',
        mean='mean = p.total / group["lot"]',
        update="mean + std * torch.randn_like(mean)  # !NM025\n               ",
    ),
    "the same in one line": _SETTINGS.format(
        scale="pass",
        mean='mean = p.total / group["lot_size"]',
        update='mean + group["sigma"] * group["clip"] * torch.randn_like(mean)  # !NM025\n               ',
    ),
    "the same by the expected size": _SETTINGS.format(
        scale='scale = group["noise_multiplier"] * group["clip"]',
        mean='mean = p.total / group["expected_size"]',
        update="mean + torch.normal(0.0, scale, mean.shape)  # !NM025\n               ",
    ),
    "both are divided": _SETTINGS.format(
        scale='std = group["sigma"] * group["clip"] / group["lot"]',
        mean='mean = p.total / group["lot"]',
        update="mean + std * torch.randn_like(mean)",
    ),
    "the sum is divided with its noise": _SETTINGS.format(
        scale='std = group["sigma"] * group["clip"]',
        mean="total = p.total + std * torch.randn_like(p.total)",
        update='total / group["lot"]',
    ),
    # --- a whole batch is clipped, where only the scale of the noise says what for
    "by the function of torch": _WHOLE.format(
        told="clip, sigma",
        clip="nn.utils.clip_grad_norm_(net.parameters(), clip)  # !NM033",
        noise="p.grad.add_(sigma * clip * torch.randn_like(p.grad))",
    ),
    "by settings": _WHOLE.format(
        told="args",
        clip="torch.nn.utils.clip_grad_norm_(net.parameters(), args.max_grad_norm)  # !NM033",
        noise="p.grad += torch.normal(0.0, args.sigma * args.max_grad_norm, p.grad.shape)",
    ),
    "with a name for the scale": _WHOLE.format(
        told="bound, noise_multiplier",
        clip="nn.utils.clip_grad_norm_(net.parameters(), bound); std = noise_multiplier * bound  # !NM033",
        noise="p.grad = p.grad + torch.randn_like(p.grad).mul_(std)",
    ),
    "noise of a temperature, as others draw it": _WHOLE.format(
        told="clip, temperature",
        clip="nn.utils.clip_grad_norm_(net.parameters(), clip)",
        noise="p.grad.add_(temperature ** 0.5 * torch.randn_like(p.grad))",
    ),
    "a policy that is sampled": """
import torch
from torch import nn

def act(mean, log_std):
    return (mean + log_std.exp() * torch.randn_like(mean)).clamp(-1, 1)

def update(policy, opt, obs, act, adv):
    for rows in torch.randperm(len(obs)).split(64):
        loss = -(policy.log_prob(obs[rows], act[rows]) * adv[rows]).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        opt.step()
""",
    "a policy that explores": """
import numpy as np
import torch

def explore(action, sigma, noise_clip):
    noise = (torch.randn_like(action) * sigma * noise_clip).clamp(-noise_clip, noise_clip)
    return action + noise

def update(policy, opt, obs, loss, size):
    for start in range(0, len(obs), size):
        opt.zero_grad()
        loss(policy(obs[start : start + size])).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        opt.step()
""",
    "pictures of c channels that get noise": """
import torch
from torch import nn

def noised(mean, sigma):
    b, c, h, w = mean.shape
    return mean + sigma * torch.randn(b, c, h, w)

def step(net, opt, x, sigma):
    opt.zero_grad()
    nn.functional.mse_loss(net(noised(x, sigma)), x).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
""",
    # --- what make_private gives back, and what is trained
    "all under one name": engine("engine", mark=True),
    "all under another name": engine("parts", mark=True),
    "all under one name, of which two are taken": engine(
        "made", mark=True, between="model, optimizer = made[0], made[1]"
    ),
    "all under one name, taken apart": engine("made", mark=False, between="model, optimizer, loader = made"),
    "another model, for comparison": engine(
        "model, optimizer, private", mark=False, optimizer="plain", model="net", before="plain = SGD(net.parameters())"
    ),
    "another model, after the private one": engine(
        "model, optimizer, private",
        mark=False,
        optimizer="plain_optim",
        model="plain",
        between="plain = Net()\nplain_optim = torch.optim.SGD(plain.parameters(), lr=0.1)",
    ),
    "the private model over the loader that went in": engine("model, optimizer, private", mark=True),
    # --- the size of the batches of a private model of Keras
    "a share of the records": _KERAS.format(
        size="size = x.shape[0] // 40", model=_SEQUENTIAL, fit="model.fit(x, y, batch_size=size, epochs=3)  # !NM008"
    ),
    "a share of the records, handed over at once": _KERAS.format(
        size="pass", model=_FUNCTIONAL, fit="model.fit(x, y, batch_size=len(x) // 100)  # !NM008"
    ),
    "a share of the records, by position": _KERAS.format(
        size="size = int(0.01 * len(x))", model=_SEQUENTIAL, fit="model.fit(x, y, size)  # !NM008"
    ),
    "a constant size": _KERAS.format(size="size = 256", model=_SEQUENTIAL, fit="model.fit(x, y, batch_size=size)"),
    "a constant size, and all of the test set": _KERAS.format(
        size="size = 256",
        model=_FUNCTIONAL,
        fit="model.fit(x, y, batch_size=size); model.evaluate(x, y, batch_size=len(x))",
    ),
    # --- a distribution draws from the generator of torch
    "a distribution": _GLOBAL.format(seed="torch.manual_seed(32)  # !NM034", noise=_DISTRIBUTION),
    "a distribution, at once": _GLOBAL.format(
        seed="torch.manual_seed(0)  # !NM034",
        noise="noise = torch.distributions.Normal(0.0, sigma * C).sample(total.shape)",
    ),
    "a distribution of a setting": _GLOBAL.format(
        seed="SEED = 5\ntorch.manual_seed(SEED)  # !NM034",
        noise="law = torch.distributions.Laplace(0.0, C * sigma); noise = law.rsample(total.shape)",
    ),
    "a scale that stands beside torch": _GLOBAL.format(
        seed="torch.manual_seed(0)  # !NM034", noise="noise = torch.normal(0, sigma, size=total.shape)"
    ),
    "a distribution, without a seed": _GLOBAL.format(seed="", noise=_DISTRIBUTION),
    "a distribution, and the seed of another package": _GLOBAL.format(
        seed="import random\nrandom.seed(0)", noise=_DISTRIBUTION
    ),
    # --- a number that an object got when it was made
    "a whole number of the rows": _LOTS.format(size="len(rows) // per_epoch", mark="  # !NM023"),
    "a whole number of the shape": _LOTS.format(size="rows.shape[0] // per_epoch", mark="  # !NM023"),
    "a whole number of a share": _LOTS.format(size="int(len(rows) / per_epoch)", mark="  # !NM023"),
    "a public number": _LOTS.format(size="512", mark=""),
    # --- clipped in one function, and the step in another
    "the step of an optimizer": _APART.format(
        step="""def step(model, w, optimizer, loss, x, y):
    model.weight.grad = clipped_sum(w, loss, x, y, 1.0) / 64
    optimizer.step()  # !NM032"""
    ),
    "the step of an object": _APART.format(
        step="""class Trainer:
    def train(self, w, loss, x, y):
        self.weight.grad = clipped_sum(w, loss, x, y, 1.0) / 64
        self.optimizer.step()  # !NM032"""
    ),
    "the step in a loop": _APART.format(
        step="""def train(model, opt, loss, batches):
    for x, y in batches:
        g = clipped_sum(model.weight, loss, x, y, 1.0)
        model.weight.grad = g / 64
        opt.step()  # !NM032"""
    ),
    "noise before the step": _APART.format(
        step="""def step(model, w, optimizer, loss, x, y):
    g = clipped_sum(w, loss, x, y, 1.0)
    model.weight.grad = (g + torch.randn_like(g)) / 64
    optimizer.step()"""
    ),
    # --- what is divided and no noisy mean
    "the root of the second moment": clipped(by="64")
    + """
class Adam:
    def step(self, gradient):
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.99 * self.v + 0.01 * gradient * gradient
        m = self.m / (1 - 0.9**self.t)
        v = self.v / (1 - 0.99**self.t)
        return 0.1 * m / (torch.sqrt(v) + 1e-8)
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
