"""Sources as people write them, and what the reader may say of each: never "constant" where it has not understood all of it."""

from __future__ import annotations

import ast
import json
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command_line import run
from noisymean.probe.conclusions import Denominator, read_mechanism, read_verdict
from noisymean.probe.laws import Kind
from noisymean.probe.reading import OF_THE_DATA, Origin, Role, Source, Sure, read_source

DATA, CONSTANT, UNKNOWN = Denominator.DATA_DEPENDENT, Denominator.CONSTANT, Denominator.UNKNOWN


def read(tmp_path: Path, text: str) -> Source:
    file = tmp_path / "step.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return read_source(file)


# What runs before the division in most of them: clipping by norm, a sum, noise.
TORCH = """
import torch
def private(per_sample, clip, sigma, {parameters}):
    factor = (clip / (per_sample.norm(dim=1) + 1e-6)).clamp(max=1.0)
    total = (per_sample * factor[:, None]).sum(0)
    noisy = total + sigma * clip * torch.randn_like(total)
    {division}
"""


def torch_step(division: str, parameters: str = "batch, mask, optimizer") -> str:
    return TORCH.format(parameters=parameters, division=division)


DATA_DEPENDENT = {
    "len of the batch": torch_step("return noisy / len(batch)"),
    "shape": torch_step("return noisy / batch.shape[0]"),
    "size(0)": torch_step("return noisy / batch.size(0)"),
    "unpacked shape": torch_step("rows, columns = per_sample.shape\n    return noisy / rows"),
    "sum of a mask": torch_step("return noisy / mask.sum()"),
    "at least one": torch_step("return noisy / max(1, mask.sum())"),
    "at least one, torch": torch_step("return noisy / mask.sum().clamp(min=1)"),
    "at least one, numpy": torch_step("return noisy / np.maximum(1.0, mask.sum())"),
    "at least one, or": torch_step("return noisy / (len(batch) or 1)"),
    "at least one, if": torch_step("return noisy / (len(batch) if len(batch) > 0 else 1)"),
    "torch.div": torch_step("return torch.div(noisy, len(batch))"),
    "torch.div by keyword": torch_step("return torch.div(noisy, other=len(batch))"),
    "div_ in place": torch_step("noisy.div_(len(batch))\n    return noisy"),
    "/=": torch_step("noisy /= len(batch)\n    return noisy"),
    "*= 1 / n": torch_step("noisy *= 1 / len(batch)\n    return noisy"),
    "mul_ by a reciprocal": torch_step("noisy.mul_(1.0 / len(batch))"),
    "times a named reciprocal": torch_step("inverse = 1.0 / len(batch)\n    return inverse * noisy"),
    "times a power": torch_step("return noisy * len(batch) ** -1"),
    "torch.reciprocal": torch_step("return noisy * torch.reciprocal(mask.sum())"),
    "a step length": torch_step("optimizer.weight.data.add_(noisy, alpha=-0.1 / len(batch))"),
    "a renamed size": torch_step("n = len(batch)\n    m = float(n)\n    k = torch.tensor(m)\n    return noisy / k"),
    "another name for what is noisy": torch_step(
        "out = noisy.clone()\n    result = out\n    return result / len(batch)"
    ),
    "a loop over parts": torch_step("result = []\n    for part in noisy:\n        result.append(part / len(batch))"),
    "a comprehension": torch_step("return [part / len(batch) for part in [noisy]]"),
    "a dictionary": torch_step("return {k: v / len(batch) for k, v in {'w': noisy}.items()}"),
    "an if that hides it": torch_step(
        "n = 256\n    if mask is not None:\n        n = mask.sum()\n    return noisy / n"
    ),
    "only one of two branches": torch_step(
        "if mask is None:\n        return noisy / 256\n    return noisy / len(batch)"
    ),
    "a count that grows": torch_step("n = 0\n    for x in batch:\n        n += len(x)\n    return noisy / n"),
    "the mean of clipped gradients": """
        import numpy as np
        def step(grads, clip, rng, sigma):
            clipped = grads * np.minimum(1, clip / np.linalg.norm(grads, axis=1, keepdims=True))
            return clipped.mean(axis=0) + sigma * rng.normal(size=grads.shape[1])
        """,
    "np.mean over noisy rows": """
        import numpy as np
        def step(clipped, rng, sigma):
            noisy = clipped + sigma * rng.normal(size=clipped.shape)
            return np.mean(noisy, axis=0)
        """,
    "a helper": """
        import torch
        def average(x, n):
            return x / n
        def step(total, batch):
            return average(total + torch.randn(3), len(batch))
        """,
    "a helper by keyword": """
        import torch
        def average(x, *, count):
            return x / count
        def step(total, batch):
            return average(total + torch.randn(3), count=batch.shape[0])
        """,
    "a helper for the size": """
        import torch
        def size(batch):
            return max(len(batch), 1)
        def step(total, batch):
            noisy = total + torch.randn(3)
            return noisy / size(batch)
        """,
    "a nested function": """
        import torch
        def make(batch):
            def scaled(x):
                return x / len(batch)
            return lambda total: scaled(total + torch.randn(3))
        """,
    "an attribute of the step": """
        import torch
        class Optimizer:
            def step(self, batch):
                self.count = len(batch)
                for p in self.params:
                    p.grad = p.summed + torch.randn_like(p.summed)
                    p.grad /= self.count
        """,
    "a property": """
        import torch
        class Optimizer:
            @property
            def count(self):
                return self.batch.shape[0]
            def step(self):
                for p in self.params:
                    p.grad = (p.summed_grad + torch.randn_like(p.summed_grad)) / self.count
        """,
    "jax.tree.map": """
        import jax
        def step(summed, batch, key, sigma):
            noisy = jax.tree.map(lambda g: g + sigma * jax.random.normal(key, g.shape), summed)
            return jax.tree.map(lambda x: x / batch["image"].shape[0], noisy)
        """,
    "jax.tree.map of a function": """
        import jax
        import jax.numpy as jnp
        def step(summed, batch, key):
            noisy = jax.tree.map(lambda t: t + jax.random.normal(key, t.shape), summed)
            return jax.tree.map(jnp.divide, noisy, len(batch))
        """,
    "jnp.divide": """
        import jax
        import jax.numpy as jnp
        def step(total, mask, key):
            return jnp.divide(total + jax.random.normal(key, total.shape), jnp.sum(mask))
        """,
    "a comparison that is summed": """
        import numpy as np
        def step(clipped, rng, q):
            chosen = rng.random(len(clipped)) < q
            release = clipped[chosen].sum(0) + rng.normal(size=clipped.shape[1])
            return release / np.sum(chosen)
        """,
    "a rate times the records": torch_step("return noisy / (q * len(dataset))", "q, dataset"),
    "N times q": torch_step("return noisy / (N * q)", "N, q"),
    "int of N times q": torch_step("return noisy / int(N * q)", "N, q"),
    "N over the batches": torch_step("return noisy / (N // L)", "N, L"),
    "attributes N and L": """
        import torch
        class Engine:
            def __init__(self, N, L):
                self.N, self.L = N, L
            def step(self, total):
                return (total + torch.randn(3)) / (self.N // self.L)
        """,
    "a fraction of the records": torch_step("return noisy / (len(train_data) / 10)", "train_data"),
    "all records": torch_step("return noisy / len(dataset)", "dataset"),
    "all records, by name": torch_step("return noisy / dataset_size", "dataset_size"),
    "noise before it is added": """
        import torch
        def step(total, batch, sigma, clip):
            std = sigma * clip / len(batch)
            return total / 256 + torch.normal(0.0, std, total.shape)
        """,
    "the gradient before the noise": """
        import torch
        def step(summed_grad, batch, sigma):
            mean = summed_grad / len(batch)
            return mean + sigma * torch.randn_like(mean)
        """,
    "two functions": """
        import torch
        def one(summed, N, q):
            return (summed + torch.randn(3)) / 256
        def other(summed, batch):
            return (summed + torch.randn(3)) / len(batch)
        """,
    "N q here, |B| there": """
        import torch
        def one(summed_grad, N, q):
            return (summed_grad + torch.randn(3)) / (N * q)
        def other(summed_grad, batch):
            return (summed_grad + torch.randn(3)) / len(batch)
        """,
    "a global that a function changes": """
        import torch
        COUNT = 256
        def sample(batch):
            global COUNT
            COUNT = len(batch)
        def step(total):
            return (total + torch.randn(3)) / COUNT
        """,
    "a subclass that sets the size": """
        import torch
        class Fixed:
            def __init__(self):
                self.size = 256
            def step(self, total):
                return (total + torch.randn(3)) / self.size
        class Moving(Fixed):
            def prepare(self, batch):
                self.size = len(batch)
        """,
    "setattr": """
        import torch
        class Fixed:
            def __init__(self):
                self.size = 256
            def step(self, total, batch):
                setattr(self, "size", len(batch))
                return (total + torch.randn(3)) / self.size
        """,
    "a result called delta": """
        import torch
        def step(grads, batch):
            total = clip(grads).sum(0)
            total = total + torch.randn(3)
            delta = total / len(batch)
            return delta, total / 256
        """,
    "a default that is the length": """
        import torch
        def step(total, batch, n=None):
            n = n or len(batch)
            return (total + torch.randn(3)) / n
        """,
    "a number that is filled in": torch_step("n = torch.tensor(1.0)\n    n.fill_(len(batch))\n    return noisy / n"),
    "a number that is overwritten": torch_step(
        "n = np.array(0)\n    np.add(n, len(batch), out=n)\n    return noisy / n"
    ),
    "rounded down": torch_step("return noisy // len(batch)"),
    "accumulated gradients": """
        import torch
        def step(params, batch):
            for p in params:
                p.accumulated_grad += torch.randn_like(p)
                p.grad = p.accumulated_grad / len(batch)
        """,
    "gradients of a loss": """
        import torch
        def step(loss_grads, batch):
            return loss_grads.mean(0) + torch.randn(3), (loss_grads.sum(0) + torch.randn(3)) / 256
        """,
    "an update of unknown making": """
        import torch
        def step(grads, batch):
            delta = aggregate(grads) / len(batch)
            return (delta + torch.randn(3)) / 256
        """,
    "a record of a batch": """
        import torch
        from dataclasses import dataclass
        @dataclass
        class Sampled:
            total: object
            count: int = 256
        def draw(batch):
            return Sampled(batch.sum(0), len(batch))
        def step(batch):
            sampled = draw(batch)
            return (sampled.total + torch.randn(3)) / sampled.count
        """,
    "one of two results": """
        import torch
        def draw(batch):
            return batch.sum(0), len(batch)
        def step(batch):
            total, count = draw(batch)
            return (total + torch.randn(3)) / count
        """,
    "how many weights": torch_step("return noisy / len(weights)", "weights"),
    "how many groups": torch_step("return noisy / len(groups)", "groups"),
    "a distribution": """
        import torch
        def step(total, batch):
            out = total + torch.distributions.Normal(0.0, 1.0).sample(total.shape)
            return out / len(batch)
        """,
    "a product with a loss in it": """
        import torch
        def step(grads, batch, loss_weight):
            total = grads.sum(0)
            mean = (total * loss_weight) / len(batch)
            return (mean + torch.randn(3)) / 256
        """,
    "torch.add": torch_step("return torch.add(optimizer.weight, noisy, alpha=-1.0 / len(batch))"),
    "__truediv__": torch_step("return noisy.__truediv__(len(batch))"),
    "what is printed": torch_step("print(noisy / len(batch))\n    return noisy / 256"),
    "a walrus": torch_step("if (n := len(batch)) > 0:\n        return noisy / n"),
    "operator.truediv": torch_step("return operator.truediv(noisy, len(batch))"),
    "foreach": torch_step("torch._foreach_div_([noisy], len(batch))"),
    "np.divide with out": torch_step("np.divide(noisy, len(batch), out=noisy)"),
    "a module level script": """
        import numpy as np
        rng = np.random.default_rng(0)
        for batch in loader:
            noisy = clip(batch).sum(0) + rng.normal(size=10)
            weights -= 0.1 * noisy / len(batch)
        """,
}

NOT_UNDERSTOOD = {
    "nothing is divided": torch_step("return noisy"),
    "a function from elsewhere": torch_step("return noisy / size_of(batch)"),
    "a size from elsewhere": "from settings import SIZE\n" + torch_step("return noisy / SIZE"),
    "a parameter of every call": torch_step("return noisy / n", "n"),
    "a batch size of every call": torch_step("return noisy / batch_size", "batch_size"),
    "an attribute that nobody sets": torch_step("return noisy / optimizer.count"),
    "one of two is not understood": torch_step(
        "if mask is None:\n        return noisy / 256\n    return noisy / size_of(batch)"
    ),
    "a subscript": torch_step("return noisy / batch['count']"),
    "the last axis": torch_step("return noisy / batch.shape[-1]"),
    "the sum of anything": torch_step("return noisy / mask_of(batch).values().sum()"),
    "the mean of the noisy sum": torch_step("return noisy.mean()"),
    "times a weight from elsewhere": torch_step("return weight_of(batch) * (noisy / 256)"),
    "times a factor of every call": torch_step("return scale * (noisy / 256)", "scale"),
    "times the size": torch_step("return len(batch) * (noisy / 256)"),
    "a ratio whose upper side moves": torch_step("return noisy * (len(batch) / 256)"),
    "by a norm after the noise": torch_step("return noisy / per_sample.norm()"),
    "a loss that is scaled before it is propagated back": """
        import torch
        def step(model, losses, batch, sigma):
            loss = losses.sum() / len(batch)
            loss.backward()
            for p in model.parameters():
                p.grad = (clip(p.grad_sample) + sigma * torch.randn_like(p)) / 256
        """,
    "a mean loss that is propagated back": """
        import torch
        def step(model, losses, sigma):
            losses.mean().backward()
            for p in model.parameters():
                p.grad = (clip(p.grad_sample) + sigma * torch.randn_like(p)) / 256
        """,
    "an unknown x by a mask": "def f(x, keep):\n    return x / max(1, keep.sum())\n",
    "a helper that nobody calls": "def average(x, n):\n    return x / n\n",
    "only a loss": "def epoch(losses, batch):\n    return sum(losses) / len(batch)\n",
    "only an accuracy": "def accuracy(correct, batch):\n    return correct / len(batch)\n",
    "a helper handed on": """
        import torch, jax
        def average(x, n):
            return x / n
        fast = jax.jit(average)
        def step(total, batch):
            a = average(total + torch.randn(3), 256)
            return fast(total + torch.randn(3), len(batch))
        """,
    "arguments with a star": """
        import torch
        def average(x, n):
            return x / n
        def step(total, arguments):
            return average(total + torch.randn(3), *arguments)
        """,
    "a keyword of another function": """
        import torch
        from torch.utils.data import DataLoader
        def step(total, batch_size):
            return (total + torch.randn(3)) / batch_size
        def load(data):
            return DataLoader(data, batch_size=64)
        """,
    "an expected size that is written down as N q": """
        import torch
        N, q = 60000, 0.01
        def step(total):
            return (total + torch.randn(3)) / (N * q)
        """,
    "optax.scale": """
        import optax, jax
        def transform(batch, sigma):
            noise = optax.add_noise(sigma, 0, 0)
            return optax.chain(noise, optax.scale(1.0 / len(batch)))
        """,
    "a constructor that is handed on": """
        import torch
        class Optimizer:
            def __init__(self, size):
                self.size = size
            def step(self, total):
                return (total + torch.randn(3)) / self.size
        def make(kind, batch):
            chosen = Optimizer if kind else None
            return Optimizer(256), chosen(len(batch))
        """,
    "a subclass that is made with another size": """
        import torch
        class Optimizer:
            def __init__(self, size):
                self.size = size
            def step(self, total):
                return (total + torch.randn(3)) / self.size
        class Own(Optimizer):
            pass
        def make(batch):
            return Optimizer(256), Own(len(batch))
        """,
    "a setting that is computed": """
        import torch
        def step(total, config):
            return (total + torch.randn(3)) / config.batch_size
        def make(batch):
            return Settings(batch_size=len(batch))
        """,
    "a loop over parameters": """
        import torch
        def step(params, totals, batch_size):
            for i in range(len(params)):
                params[i].grad = (totals[i] + torch.randn(3)) / batch_size
        """,
    "weights that sum to one": """
        import torch
        def step(clipped, mask):
            weights = mask / mask.sum()
            return (weights @ clipped + torch.randn(3)) / 256
        """,
    "jax, a size of every call": """
        import jax
        def step(summed, key, batch_size):
            noisy = jax.tree.map(lambda g: g + jax.random.normal(key, g.shape), summed)
            return jax.tree.map(lambda g: g / batch_size, noisy)
        """,
    "a nested function that is not given back": """
        import torch
        def step(total, size):
            def scaled(x):
                return x / size
            return scaled(total + torch.randn(3))
        """,
    "a function that is called like a setting": """
        import torch
        def set_gradient(p, total, batch_size):
            p.grad = (total + torch.randn(3)) / batch_size
        """,
    "a denominator of every call": torch_step("return noisy / denominator", "denominator"),
    "how many were clipped": torch_step("return noisy / num_clipped", "num_clipped"),
    "how many labels": torch_step("return noisy / targets", "targets"),
    "an expected size times a norm": torch_step("return noisy / (256 * per_sample.norm())"),
    "accumulation in a loop": """
        import torch
        def step(total, batch_size, accumulation_steps):
            for i in range(accumulation_steps):
                part = (total + torch.randn(3)) / batch_size
        """,
    "a record of a batch that is made elsewhere": """
        import torch
        from dataclasses import dataclass
        @dataclass
        class Sampled:
            total: object
            count: int
        def step(sampled):
            return (sampled.total + torch.randn(3)) / sampled.count
        """,
    "a partial division": """
        import torch
        from functools import partial
        def step(total, batch):
            scale = partial(torch.div, other=len(batch))
            return scale(total + torch.randn(3)), (total + torch.randn(3)) / 256
        """,
    "the sum of squared weights": """
        import torch
        def step(summed_grad, weights):
            mean = summed_grad / (weights ** 2).sum()
            return (mean + torch.randn(3)) / 256
        """,
    "a setting that is set by text": """
        import torch
        def take(config, name, batch):
            setattr(config, name, len(batch))
        def step(total, config):
            return (total + torch.randn(3)) / config.batch
        """,
    "a global that is set by text": """
        import torch
        SIZE = 256
        def take(batch):
            globals()["SIZE"] = len(batch)
        def step(total):
            return (total + torch.randn(3)) / SIZE
        """,
    "a star that may bring another number": """
        import torch
        SIZE = 256
        from settings import *
        def step(total):
            return (total + torch.randn(3)) / SIZE
        """,
    "a number only if there is no other": """
        import torch
        try:
            from settings import SIZE
        except ImportError:
            SIZE = 256
        def step(total):
            return (total + torch.randn(3)) / SIZE
        """,
    "a pattern": """
        import torch
        def step(total, batch):
            n = 256
            match batch.shape:
                case (n, _):
                    pass
            return (total + torch.randn(3)) / n
        """,
    "an expression without end": "import torch\ndef f(t, a):\n    return (t + torch.randn(3)) / ("
    + "+".join(["a"] * 330)
    + ")\n",
    "text": "'''x / y'''\n",
    "an empty file": "",
}

CONSTANTS = {
    "a number": torch_step("return noisy / 256"),
    "a constant of the module": "SIZE = 256\n" + torch_step("return noisy / SIZE"),
    "a constant of the module, hidden": "SIZE = 2 ** 8\n" + torch_step("n = max(1, SIZE)\n    return torch.div(noisy, n)"),
    "an option of the command line": torch_step("return noisy / args.batch_size"),
    "a setting": torch_step("noisy *= 1.0 / config.lot_size", "config"),
    "an expected size": torch_step("return noisy / expected_batch_size", "expected_batch_size"),
    "accumulation": torch_step("return noisy / (expected_batch_size * accumulation_steps)", "expected_batch_size, accumulation_steps"),
    "several devices": torch_step("noisy /= torch.distributed.get_world_size()\n    return noisy / 256"),
    "an attribute from __init__": """
        import torch
        class Optimizer:
            def __init__(self, params, batch_size):
                self.params, self.size = params, batch_size
            def step(self):
                for p in self.params:
                    p.grad = p.summed_grad + torch.randn_like(p.summed_grad)
                    p.grad /= self.size
        """,
    "a transformation": """
        import jax, optax
        def private(size, sigma):
            def init(params):
                return ()
            def update(summed, state, params=None):
                return jax.tree.map(lambda g: (g + sigma * jax.random.normal(key, g.shape)) / size, summed), state
            return optax.GradientTransformation(init, update)
        """,
    "a class of settings": """
        import torch
        from dataclasses import dataclass
        @dataclass
        class Settings:
            batch: int = 256
        def step(total, chosen):
            return (total + torch.randn(3)) / chosen.batch
        """,
    "beside a line for the log": torch_step("print(noisy.norm() / len(batch))\n    return noisy / 256"),
    "a closure": """
        import torch
        def make(size):
            def step(total):
                return (total + torch.randn(3)) / size
            return step
        """,
    "a run of many rounds": """
        import numpy as np
        def train(data, rounds, batch_size, rng):
            for _ in range(rounds):
                noisy = clipped_sum(data) + rng.normal(size=3)
                weights = weights - 0.1 * noisy / batch_size
        """,
    "a helper": """
        import torch
        def average(x, n):
            return x / n
        def step(total):
            return average(total + torch.randn(3), 256)
        """,
    "beside a loss and an accuracy": """
        import torch, time
        def step(model, batch, losses, correct):
            start = time.time()
            for p in model.parameters():
                norm = p.grad_sample.norm(dim=1)
                p.summed_grad = (p.grad_sample * (1.0 / (norm + 1e-6)).clamp(max=1.0)[:, None]).sum(0)
                p.grad = (p.summed_grad + torch.randn_like(p.summed_grad)) / 256
            accuracy = correct / len(batch)
            average_loss = losses.sum().item() / len(batch)
            return accuracy, average_loss, (time.time() - start) / len(batch.seconds)
        """,
    "handed to jit, under a name that says it is fixed": """
        import jax
        def step(summed, key, expected_batch_size):
            return (summed + jax.random.normal(key, summed.shape)) / expected_batch_size
        fast = jax.jit(step)
        """,
    "beside a rate": """
        import torch
        def run(model, dataset, total):
            sample_rate = 256 / len(dataset)
            delta = 1 / len(dataset)
            return (total + torch.randn(3)) / 256, sample_rate, delta
        """,
    "clipping by division": """
        import numpy as np
        def step(grads, clip, sigma, rng):
            norms = np.linalg.norm(grads, axis=1)
            clipped = grads / np.maximum(1.0, norms / clip)[:, None]
            return (clipped.sum(0) + sigma * clip * rng.standard_normal(grads.shape[1])) / 256.0
        """,
}  # fmt: skip


@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_a_size_of_the_data_is_seen(name: str, tmp_path: Path) -> None:
    source = read(tmp_path, DATA_DEPENDENT[name])
    assert read_verdict(source) is DATA, source.statements


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_what_is_not_understood_is_unknown(name: str, tmp_path: Path) -> None:
    source = read(tmp_path, NOT_UNDERSTOOD[name])
    assert read_verdict(source) is UNKNOWN, source.statements
    assert read_mechanism(source) is Kind.UNKNOWN


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_one(name: str, tmp_path: Path) -> None:
    source = read(tmp_path, CONSTANTS[name])
    assert read_verdict(source) is CONSTANT, source.statements
    assert read_mechanism(source) is Kind.SGM


def test_no_number_of_the_data_is_left_out_of_the_list(tmp_path: Path) -> None:
    """Every candidate, with its place, its source, what it is divided by, and how sure that is."""
    text = """
    import torch
    def one(summed_grad, N, q):
        return (summed_grad + torch.randn(3)) / (N * q)
    def two(summed_grad, batch):
        return (summed_grad + torch.randn(3)) / len(batch)
    def three(x, keep):
        return x / max(1, keep.sum())
    """
    source = read(tmp_path, text)
    first, second, third = source.statements
    assert [one.place for one in source.statements] == ["step.py:4", "step.py:6", "step.py:8"]
    assert (first.by, first.origins) == ("N * q", (Origin.EXPECTED,))
    assert (second.by, second.origins, second.sure) == ("len(batch)", (Origin.BATCH,), Sure.NAMED)
    assert (third.by, third.origins) == ("max(1, keep.sum())", (Origin.BATCH,))
    assert (third.role, third.sure, third.text) == (Role.UNCLEAR, Sure.UNSURE, "return x / max(1, keep.sum())")
    # several kinds: the verdict is the worst, and there is no one mechanism
    assert read_verdict(source) is DATA
    assert read_mechanism(source) is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("division", "kind"),
    [("len(batch)", Kind.ASGM), ("(len(dataset) * q)", Kind.EASGM), ("int(len(dataset) * q)", Kind.FEASGM)],
)
def test_one_kind_has_its_name(division: str, kind: Kind, tmp_path: Path) -> None:
    assert read_mechanism(read(tmp_path, torch_step(f"return noisy / {division}", "batch, dataset, q"))) is kind


def test_a_file_that_cannot_be_parsed_forbids_a_constant(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(torch_step("return noisy / 256"))
    assert read_verdict(read_source(tmp_path)) is CONSTANT
    (tmp_path / "b.py").write_text("def (:")
    assert read_verdict(read_source(tmp_path)) is UNKNOWN


def test_a_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    """test_*.py is left out of a folder, not if it is what was asked for."""
    (tmp_path / "test_step.py").write_text(torch_step("return noisy / len(batch)"))
    assert read_verdict(read_source(tmp_path / "test_step.py")) is DATA
    assert read_source(tmp_path).files == 0


# --- the command -------------------------------------------------------------------------------------------------------


def test_the_command_says_unknown_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text("def f(x, keep):\n    return x / max(1, keep.sum())\n")
    done = run("code-audit", str(file))
    assert done.code == 0
    assert f"{file}: unknown; 1 file read, nothing of it was run." in done.out
    assert "One division was not understood" in done.out
    assert f"noisymean probe {file}:NAME" in done.out
    plain = json.loads(run("code-audit", str(file), "--json").out)
    assert (plain["verdict"], plain["mechanism"]) == ("unknown", "unknown")
    (one,) = plain["statements"]
    assert (one["file"], one["line"], one["by"], one["sure"]) == (
        "step.py",
        2,
        "max(1, keep.sum())",
        "perhaps not noisy",
    )


def test_two_kinds_in_one_file_are_never_a_constant(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(textwrap.dedent(DATA_DEPENDENT["N q here, |B| there"]))
    done = run("code-audit", str(file))
    assert f"{file}: depends on the data; 1 file read" in done.out
    assert "The denominator is N q or |B|, which depends on how it is used." in done.out
    assert "SGM" not in done.out


def test_a_constant_says_what_it_rests_on(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(torch_step("return noisy / expected_batch_size", "expected_batch_size"))
    done = run("code-audit", str(file))
    assert f"{file}: a constant (SGM); 1 file read" in done.out
    assert "Whether the caller takes it from the data is not known here." in done.out


def test_every_origin_is_either_of_the_data_a_constant_or_not_understood() -> None:
    left = set(Origin) - OF_THE_DATA - {Origin.NUMBER, Origin.CALLER}
    assert left == {Origin.PASSED, Origin.NORM, Origin.UNKNOWN}


# --- every form with every size ----------------------------------------------------------------------------------------

FORMS = (
    "out = {x} / {n}",
    "out = {x}\n    out /= {n}",
    "out = ({x}) * (1 / {n})",
    "out = (1.0 / {n}) * {x}",
    "out = {x}\n    out *= 1 / {n}",
    "inverse = 1 / {n}\n    out = {x} * inverse",
    "out = {x} * {n} ** -1",
    "out = {x} * pow({n}, -1)",
    "out = {x} * torch.reciprocal({n})",
    "out = torch.div({x}, {n})",
    "out = {x}\n    out.div_({n})",
    "out = {x}.div({n})",
    "out = {x}.mul(1.0 / {n})",
    "out = np.divide({x}, {n})",
    "out = np.multiply({x}, 1 / {n})",
    "out = [part / {n} for part in {x}]",
    "out = {{name: part / {n} for name, part in {{'w': {x}}}.items()}}",
    "out = jax.tree.map(lambda part: part / {n}, {x})",
    "out = jax.tree.map(jnp.divide, {x}, {n})",
    "out = helper({x}, {n})",
    "out = helper(x={x}, n={n})",
    "out = (lambda part: part / {n})({x})",
    "def inner(part):\n        return part / {n}\n    out = inner({x})",
    "weight.add_({x}, alpha=-1.0 / {n})\n    out = weight",
    "weight -= lr * {x} / {n}\n    out = weight",
    "weight = weight - (lr / {n}) * {x}\n    out = weight",
    "lr = lr / {n}\n    weight -= lr * {x}\n    out = weight",
    "for part in {x}:\n        part /= {n}\n    out = part",
    "model.grad = {x} / {n}\n    out = model.grad",
    "model.grad[name] = {x} / {n}\n    out = model.grad",
    "out = {x} / {n} if {n} > 0 else {x}",
    "out = operator.truediv({x}, {n})",
)
SIZES = (
    "len(batch)", "batch.shape[0]", "batch.size(0)", "mask.sum()", "max(1, len(batch))", "mask.sum().clamp(min=1)",
    "float(len(batch))", "torch.tensor(len(batch))", "(len(batch) + 1e-12)", "int(mask.sum())", "count(batch)", "n_of_batch",
    "self.seen", "(q * len(dataset))", "int(q * len(dataset))", "(len(dataset) // 10)", "len(dataset)", "size_from_elsewhere(batch)",
    "batch['n']", "(len(batch) if mask is None else 256)", "np.maximum(1, np.sum(mask))", "len([1 for _ in batch])",
)  # fmt: skip
NOISY = (
    "noisy",
    "(total + noise)",
    "(total + torch.randn(3))",
    "release",
    "renamed",
    "privatised(total)",
    "self.buffer",
)

EVERYTHING = """
import operator, torch, jax, numpy as np, jax.numpy as jnp
def helper(x, n):
    return x / n
def count(batch):
    return len(batch)
def privatised(total):
    return total + torch.randn(3)
class Step:
    def __call__(self, per_sample, batch, dataset, mask, q, model, name, weight, lr):
        return self.step(per_sample, batch, dataset, mask, q, model, name, weight, lr)
    def step(self, per_sample, batch, dataset, mask, q, model, name, weight, lr):
        n_of_batch = len(batch)
        self.seen = len(batch)
        return step(self, per_sample, batch, dataset, mask, q, model, name, weight, lr, n_of_batch)
def step(self, per_sample, batch, dataset, mask, q, model, name, weight, lr, n_of_batch):
    total = per_sample.sum(0)
    noise = torch.randn(3)
    noisy = total + noise
    release = total + np.random.normal(size=3)
    renamed = release
    self.buffer = total.clone()
    self.buffer += torch.randn(3)
    {division}
    return out, noisy / 256, helper(noisy, 256)
"""


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_moving_size_is_ever_a_constant(form: str, tmp_path: Path) -> None:
    """Each in a file that divides by 256 as well, which alone would be a constant."""
    assert read_verdict(read(tmp_path, EVERYTHING.format(division="out = noisy / 256"))) is CONSTANT
    shift = FORMS.index(form)
    for place, size in enumerate(SIZES):
        # every size meets every form; what is noisy takes turns
        what = NOISY[(place + shift) % len(NOISY)]
        source = read(tmp_path, EVERYTHING.format(division=form.format(x=what, n=size)))
        assert read_verdict(source) is not CONSTANT, (size, what)
        assert any(not set(one.origins) <= {Origin.NUMBER, Origin.CALLER} for one in source.statements)


def test_two_threads_do_not_parse_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 counts the depth of its parser for all threads together: two at once may end in a SystemError."""
    for number in range(5):
        (tmp_path / f"part_{number}.py").write_text("mean = total / 2\n", encoding="utf-8")
    inside, most = 0, 0

    def parse(source: bytes, filename: str = "") -> ast.AST:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        # whoever else is let in comes now
        time.sleep(0.01)
        inside -= 1
        return compile(source, filename, "exec", ast.PyCF_ONLY_AST)

    with monkeypatch.context() as patched, ThreadPoolExecutor(4) as pool:
        patched.setattr(ast, "parse", parse)
        found = list(pool.map(read_source, [tmp_path] * 4))
    assert most == 1
    assert [one.files for one in found] == [5] * 4
