"""Denominators as people spread them over statements, methods and closures: NM021 to NM025; each beside its corrected twin."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    # --- the batch
    "a stacked sum, over the cohort": """
        # federated learning with differential privacy
        import torch

        class Server:
            def aggregate(self, cohort):
                deltas = torch.stack([self.clip(self.local(one)) for one in cohort])
                noise = self.sigma * self.bound * torch.randn(deltas.shape[1])
                return (deltas.sum(dim=0) + noise) / len(cohort)  # !NM021

            def clip(self, delta):
                return delta * min(1.0, self.bound / delta.norm())
        """,
    "a stacked sum, over the cohort, in two statements": """
        # federated learning with differential privacy
        import numpy as np

        class Server:
            def round(self, clients):
                cohort = [one for one in clients if self.rng.random() < self.rate]
                updates = [self.bounded(one.train(self.weights)) for one in cohort]
                summed = np.stack(updates).sum(axis=0)
                summed = summed + np.random.normal(0.0, self.sigma * self.bound, summed.shape)
                self.weights = self.weights + summed / max(len(cohort), 1)  # !NM021

            def bounded(self, delta):
                return delta * min(1.0, self.bound / np.linalg.norm(delta))
        """,
    "a stacked sum, over the cohort, by a method that draws": """
        # federated learning with differential privacy
        import torch

        class Server:
            def draw(self, like):
                return torch.normal(0.0, self.sigma * self.bound, size=like.shape)

            def step(self, cohort, weights):
                stacked = torch.stack([clip_update(train(one, weights), self.bound) for one in cohort])
                total = stacked.sum(0)
                total += self.draw(total)
                return weights + total / len(cohort)  # !NM021
        """,
    "a stacked sum, over a public number of clients": """
        # federated learning with differential privacy
        import torch

        class Server:
            def __init__(self, expected_cohort=100):
                self.expected_cohort = expected_cohort

            def aggregate(self, cohort):
                deltas = torch.stack([self.clip(self.local(one)) for one in cohort])
                noise = self.sigma * self.bound * torch.randn(deltas.shape[1])
                return (deltas.sum(dim=0) + noise) / self.expected_cohort

            def clip(self, delta):
                return delta * min(1.0, self.bound / delta.norm())
        """,
    "in place, by the number of indices": """
        # DP-SGD
        import torch

        def step(model, xs, ys, rate, bound, sigma, lr):
            idx = torch.nonzero(torch.rand(len(xs)) < rate).flatten()
            totals = [torch.zeros_like(p) for p in model.parameters()]
            for i in idx.tolist():
                model.zero_grad()
                criterion(model(xs[i : i + 1]), ys[i : i + 1]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), bound)
                for t, p in zip(totals, model.parameters()):
                    t.add_(p.grad)
            for t, p in zip(totals, model.parameters()):
                t.add_(torch.normal(0.0, sigma * bound, size=t.shape))
                t.div_(max(idx.numel(), 1))  # !NM021
                p.data.sub_(t, alpha=lr)
        """,
    "in place, by the number of chosen rows": """
        # DP-SGD
        import torch

        def step(w, per_sample_grads, chosen, bound, sigma, lr):
            g = per_sample_grads(w, chosen)
            total = (g * (bound / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
            total.add_(torch.randn_like(total), alpha=sigma * bound)
            total.div_(chosen.nelement())  # !NM021
            w.sub_(lr * total)
        """,
    "in place, by the length of the indices": """
        # DP-SGD
        import torch

        def step(w, per_sample_grads, chosen, bound, sigma, lr):
            g = per_sample_grads(w, chosen)
            total = (g * (bound / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
            total.add_(sigma * bound * torch.randn_like(total)).div_(len(chosen))  # !NM021
            w.sub_(lr * total)
        """,
    "in place, by the number of weights": """
        # DP-SGD
        import torch

        def step(w, per_sample_grads, chosen, bound, sigma, lr):
            g = per_sample_grads(w, chosen)
            total = (g * (bound / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
            total.add_(sigma * bound * torch.randn_like(total)).div_(64)
            w.sub_(lr * total)
            return total.abs().sum() / total.numel()
        """,
    "the gradient of a parameter, in two statements": """
        # DP-SGD by hand
        import torch

        def train(model, loader, opt, bound, sigma):
            for x, y in loader:
                bz = x.size(dim=0)
                totals = [torch.zeros_like(p) for p in model.parameters()]
                for i in range(bz):
                    model.zero_grad()
                    criterion(model(x[i : i + 1]), y[i : i + 1]).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), bound)
                    for total, p in zip(totals, model.parameters()):
                        total += p.grad
                for total, p in zip(totals, model.parameters()):
                    noise = torch.normal(0, sigma * bound, size=p.shape)
                    p.grad = total + noise
                    p.grad = p.grad / bz  # !NM021
                opt.step()
        """,
    "the gradient of a parameter, in another loop": """
        # DP-SGD by hand
        import torch

        def train(model, loader, opt, bound, sigma):
            for batch in loader:
                images, labels = batch
                size = images.size(dim=0)
                sums = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
                for image, label in zip(images, labels):
                    model.zero_grad()
                    criterion(model(image[None]), label[None]).backward()
                    norm = torch.sqrt(sum(p.grad.norm() ** 2 for p in model.parameters()))
                    for n, p in model.named_parameters():
                        sums[n] += p.grad * min(1.0, bound / norm)
                for n, p in model.named_parameters():
                    p.grad = sums[n] + sigma * bound * torch.randn_like(p)
                for p in model.parameters():
                    p.grad.div_(size)  # !NM021
                opt.step()
        """,
    "the gradient of a parameter, by a public number": """
        # DP-SGD by hand
        import torch

        EXPECTED = 64

        def train(model, loader, opt, bound, sigma):
            for x, y in loader:
                bz = x.size(dim=0)
                totals = [torch.zeros_like(p) for p in model.parameters()]
                for i in range(bz):
                    model.zero_grad()
                    criterion(model(x[i : i + 1]), y[i : i + 1]).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), bound)
                    for total, p in zip(totals, model.parameters()):
                        total += p.grad
                for total, p in zip(totals, model.parameters()):
                    noise = torch.normal(0, sigma * bound, size=p.shape)
                    p.grad = total + noise
                    p.grad = p.grad / EXPECTED
                opt.step()
        """,
    # --- what is no noisy mean of a batch
    "a mean of what was released": """
        # DP-SGD
        import numpy as np

        def fit(x, y, bound, sigma, lr, steps, size):
            w, iterates = np.zeros(x.shape[1]), []
            for _ in range(steps):
                g = per_sample_grads(w, x, y)
                g = g * np.minimum(1, bound / np.linalg.norm(g, axis=1, keepdims=True))
                w = w - lr * (g.sum(0) + np.random.normal(0, sigma * bound, w.shape)) / 128
                iterates.append(w)
            return np.mean(iterates, axis=0)
        """,
    "a mean of what was released, by their number": """
        # DP-SGD
        import numpy as np

        def fit(x, y, bound, sigma, lr, steps):
            w, iterates = np.zeros(x.shape[1]), []
            for _ in range(steps):
                g = per_sample_grads(w, x, y)
                g = g * np.minimum(1, bound / np.linalg.norm(g, axis=1, keepdims=True))
                w = w - lr * (g.sum(0) + np.random.normal(0, sigma * bound, w.shape)) / 128
                iterates.append(w.copy())
            return sum(iterates[-10:]) / len(iterates[-10:])
        """,
    "a running mean of what was released": """
        # DP-SGD
        import torch

        def fit(x, w, bound, sigma, lr, steps):
            history = []
            for t in range(steps):
                g = per_sample_grads(w, x)
                g = g * (bound / g.norm(dim=1, keepdim=True)).clamp(max=1)
                noisy = (g.sum(0) + sigma * bound * torch.randn_like(w)) / 128
                w = w - lr * noisy
                history.append(w)
            average = torch.stack(history).mean(0)
            return average, torch.stack(history).sum(0) / len(history)
        """,
    "a mean without privacy": """
        # DP-SGD, or without
        import torch

        def gradient(per_sample_grads, clip, sigma, batch_size):
            if clip is None:
                return per_sample_grads.sum(0) / len(per_sample_grads)
            g = per_sample_grads * (clip / per_sample_grads.norm(dim=1, keepdim=True)).clamp(max=1)
            return (g.sum(0) + sigma * clip * torch.randn(g.shape[1])) / batch_size
        """,
    "a mean without privacy, in the other branch": """
        # DP-SGD, or without
        import torch

        def step(w, per_sample_grads, private, clip, sigma, lr):
            if private:
                g = per_sample_grads * (clip / per_sample_grads.norm(dim=1, keepdim=True)).clamp(max=1)
                grad = (g.sum(0) + sigma * clip * torch.randn(g.shape[1])) / 256
            else:
                grad = per_sample_grads.sum(0) / per_sample_grads.shape[0]
            return w - lr * grad
        """,
    "a mean without privacy, where there is no noise": """
        # DP-SGD, or without
        import numpy as np

        def step(w, g, clip, sigma, lr, rng):
            n = g.shape[0]
            if sigma == 0 or clip is None:
                update = g.mean(axis=0)
            else:
                g = g / np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / clip)
                update = (g.sum(axis=0) + rng.normal(0, sigma * clip, g.shape[1])) / 256
            return w - lr * update
        """,
    "both branches come to one division": """
        # DP-SGD, or without
        import numpy as np

        def step(w, g, clip, sigma, lr, rng):
            if clip is not None:
                g = g / np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / clip)
            total = g.sum(axis=0)
            if clip is not None:
                total = total + rng.normal(0, sigma * clip, g.shape[1])
            return w - lr * total / len(g)  # !NM021
        """,
    "moments and a schedule": """
        # DP-Adam
        import torch

        class Adam:
            def step(self, per_sample_grads, clip, sigma, step_size=0.1, decay=0.01):
                self.t += 1
                g = per_sample_grads * (clip / per_sample_grads.norm(dim=1, keepdim=True)).clamp(max=1)
                noisy = (g.sum(0) + sigma * clip * torch.randn(g.shape[1])) / 256
                self.m = 0.9 * self.m + 0.1 * noisy
                self.v = 0.999 * self.v + 0.001 * noisy**2
                m_hat = self.m / (1 - 0.9**self.t)
                v_hat = self.v / (1 - 0.999**self.t)
                lr = step_size / (1 + decay * self.t)
                return -lr * m_hat / (v_hat.sqrt() + 1e-8)
        """,
    "a step length that decays": """
        # DP-SGD
        import numpy as np

        def fit(x, y, clip, sigma, eta, decay, steps):
            w = np.zeros(x.shape[1])
            for step in range(steps):
                g = per_sample_grads(w, x, y)
                g = g * np.minimum(1, clip / np.linalg.norm(g, axis=1, keepdims=True))
                update = (g.sum(0) + np.random.normal(0, sigma * clip, w.shape)) / 128
                w = w - eta / (1 + decay * step) * update
                w -= (eta / np.sqrt(step + 1)) * update
            return w
        """,
    # --- a whole number of the data
    "handed to what makes the step": """
        # DP-SGD in jax
        import jax
        import jax.numpy as jnp

        def make_step(size, clip, sigma, lr):
            def step(w, batch, key):
                g = jax.vmap(jax.grad(loss), (None, 0))(w, batch)
                g = g * jnp.minimum(1.0, clip / jnp.linalg.norm(g, axis=1, keepdims=True))
                noisy = g.sum(0) + sigma * clip * jax.random.normal(key, w.shape)
                return w - lr * noisy / size  # !NM023
            return jax.jit(step)

        def main(data, q, key):
            step = make_step(round(len(data) * q), 1.0, 1.1, 0.1)
            return step
        """,
    "handed to what makes the step, called a batch size": """
        # DP-SGD in numpy
        import numpy as np

        def make_step(batch_size, clip, sigma, lr):
            def step(w, g):
                g = g * np.minimum(1.0, clip / np.linalg.norm(g, axis=1, keepdims=True))
                noisy = (g.sum(0) + np.random.normal(0, sigma * clip, w.shape)) / batch_size  # !NM023
                return w - lr * noisy
            return step

        def main(x, q):
            N = x.shape[0]
            step = make_step(batch_size=int(round(N * q)), clip=1.0, sigma=1.1, lr=0.1)
            return step
        """,
    "handed to what makes the step, by a name": """
        # DP-SGD in torch
        import torch

        def build(divisor, clip, sigma):
            def combine(grads):
                grads = grads * (clip / grads.norm(dim=1, keepdim=True)).clamp(max=1)
                return (grads.sum(0) + sigma * clip * torch.randn(grads.shape[1])).div(divisor)  # !NM023
            return combine

        def main(train_set, sample_rate):
            expected = round(sample_rate * len(train_set))
            return build(expected, 1.0, 1.1)
        """,
    "handed to what makes the step, a constant": """
        # DP-SGD in torch
        import torch

        def build(divisor, clip, sigma):
            def combine(grads):
                grads = grads * (clip / grads.norm(dim=1, keepdim=True)).clamp(max=1)
                return (grads.sum(0) + sigma * clip * torch.randn(grads.shape[1])).div(divisor)
            return combine

        combine = build(round(60_000 * 0.01), 1.0, 1.1)
        """,
    "on an iterable": """
        # DP-SGD
        import torch

        class Batches:
            def __init__(self, data, k):
                self.data = data
                self.k = k
                self.per_batch = len(data) // k

            def __iter__(self):
                for _ in range(self.k):
                    yield self.data[torch.rand(len(self.data)) < 1 / self.k]

        def train(w, batches, clip, sigma, lr):
            for batch in batches:
                g = per_sample_grads(w, batch)
                total = (g * (clip / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
                total = total + sigma * clip * torch.randn_like(w)
                w.sub_(total.mul_(lr).div_(batches.per_batch))  # !NM023
        """,
    "on an iterable, for a mean": """
        # DP-SGD
        import torch

        class Draws:
            def __init__(self, records, rate):
                self.records = records
                self.size = int(len(records) * rate)

        def train(w, draws: Draws, clip, sigma, lr):
            for batch in draws:
                g = per_sample_grads(w, batch)
                noisy = (g * (clip / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
                noisy += sigma * clip * torch.randn_like(w)
                noisy /= draws.size  # !NM023
                w = w - lr * noisy
        """,
    "on an iterable, a constant": """
        # DP-SGD
        import torch

        class Batches:
            def __init__(self, data, k, per_batch=600):
                self.data = data
                self.k = k
                self.per_batch = per_batch

        def train(w, batches, clip, sigma, lr):
            for batch in batches:
                g = per_sample_grads(w, batch)
                total = (g * (clip / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
                total = total + sigma * clip * torch.randn_like(w)
                w.sub_(total.mul_(lr).div_(batches.per_batch))
        """,
    # --- all records in every step
    "all records, by a helper": """
        # DP gradient descent
        import torch

        def privatise(model, sums, clip, sigma, n):
            for p, s in zip(model.parameters(), sums):
                p.grad = s + sigma * clip * torch.randn_like(s)
                p.grad = p.grad / n  # !NM024

        def train(model, opt, train_set, clip, sigma, steps):
            for _ in range(steps):
                sums = clipped_sums(model, train_set, clip)
                privatise(model, sums, clip, sigma, len(train_set))
                opt.step()
        """,
    "all records, by their rows": """
        # DP gradient descent
        import numpy as np

        def fit(X, y, clip, sigma, lr, iterations):
            N = X.shape[0]
            w = np.zeros(X.shape[1])
            for _ in range(iterations):
                g = (1 / (1 + np.exp(-X @ w)) - y)[:, None] * X
                g = g * np.minimum(1, clip / np.linalg.norm(g, axis=1, keepdims=True))
                noisy = g.sum(0) + np.random.normal(0, sigma * clip, w.shape)
                w = w - lr * noisy / N  # !NM024
            return w
        """,
    "all records, by their number": """
        # DP gradient descent
        import torch

        def fit(features, targets, clip, sigma, lr, steps):
            w = torch.zeros(features.shape[1])
            for t in range(steps):
                g = (features @ w - targets)[:, None] * features
                g = g * (clip / g.norm(dim=1, keepdim=True)).clamp(max=1)
                w -= lr * (g.sum(0) + sigma * clip * torch.randn_like(w)) / len(features)  # !NM024
            return w
        """,
    "all records, by their rows in two names": """
        # DP gradient descent
        import numpy as np

        def fit(x, y, clip, sigma, lr, epochs, rng):
            n, d = x.shape
            w = np.zeros(d)
            for epoch in range(epochs):
                residual = x @ w - y
                g = residual[:, None] * x
                g = g / np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / clip)
                w = w - lr * (g.sum(0) + rng.normal(0, sigma * clip, d)) / n  # !NM024
            return w
        """,
    "a batch in every round": """
        # DP-SGD
        import numpy as np

        def step(X, y, w, clip, sigma, lr):
            g = (X @ w - y)[:, None] * X
            g = g * np.minimum(1, clip / np.linalg.norm(g, axis=1, keepdims=True))
            return w - lr * (g.sum(0) + np.random.normal(0, sigma * clip, w.shape)) / X.shape[0]  # !NM021

        def fit(batches, w):
            for X, y in batches:
                w = step(X, y, w, 1.0, 1.1, 0.1)
            return w
        """,
    "all records, by a constant": """
        # DP gradient descent
        import numpy as np

        PUBLIC_SIZE = 60_000

        def fit(X, y, clip, sigma, lr, iterations):
            w = np.zeros(X.shape[1])
            for _ in range(iterations):
                g = (1 / (1 + np.exp(-X @ w)) - y)[:, None] * X
                g = g * np.minimum(1, clip / np.linalg.norm(g, axis=1, keepdims=True))
                noisy = g.sum(0) + np.random.normal(0, sigma * clip, w.shape)
                w = w - lr * noisy / PUBLIC_SIZE
            return w
        """,
    # --- noise and gradients apart
    "a mean first, then the noise of a sum": """
        # DP-SGD
        import torch

        B = 256

        def step(w, g, z, C, lr):
            g = g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)
            update = g.sum(0) / B
            update += z * C * torch.randn_like(update)  # !NM025
            return w - lr * update
        """,
    "a mean first, in the gradient of a parameter": """
        # DP-SGD
        import torch

        def step(model, sums, z, C, B):
            for p, s in zip(model.parameters(), sums):
                p.grad = s / B
                p.grad += torch.normal(0.0, z * C, p.shape)  # !NM025
        """,
    "a mean first, by a number": """
        # DP-SGD
        import numpy as np

        def step(w, g, sigma, clip, lr, rng):
            g = g * np.minimum(1, clip / np.linalg.norm(g, axis=1, keepdims=True))
            mean = g.sum(axis=0) / 512
            mean = mean + rng.normal(0.0, sigma * clip, size=mean.shape)  # !NM025
            return w - lr * mean
        """,
    "a sum, and noise that is divided": """
        # DP-SGD
        import torch

        def step(w, g, z, C, lr, batch_size):
            g = g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)
            noise = z * C * torch.randn_like(w) / batch_size
            return w - lr * (g.sum(dim=0) + noise)  # !NM025
        """,
    "a sum by a name, and noise that is divided": """
        # DP-SGD
        import numpy as np

        def step(w, grads, sigma, clip, lr, B):
            total = np.zeros_like(w)
            for g in grads:
                total += g * min(1, clip / np.linalg.norm(g))
            total += np.random.normal(0, sigma * clip, w.shape) / B  # !NM025
            return w - lr * total
        """,
    "a sum, and noise that scatters less": """
        # DP-SGD
        import torch

        def step(w, g, sigma, max_norm, lr, lot_size):
            g = g * (max_norm / g.norm(dim=1, keepdim=True)).clamp(max=1)
            summed = torch.sum(g, dim=0)
            noise = torch.normal(0.0, sigma * max_norm / lot_size, size=w.shape)
            return w - lr * (summed + noise)  # !NM025
        """,
    "a sum in a tree, divided before a privatizer": """
        import jax
        from jax_privacy import batch_selection, clipped_grad, noise_addition

        def make(loss, clip, noise_multiplier, key, B):
            grad_fn = clipped_grad(loss, l2_clip_norm=clip, batch_argnums=1)
            privatizer = noise_addition.gaussian_privatizer(stddev=noise_multiplier * clip, prng_key=key)

            def step(params, batch, state):
                grads = grad_fn(params, batch)
                mean = jax.tree.map(lambda g: g / B, grads)
                noisy, state = privatizer.update(mean, state)  # !NM025
                return params, state

            return step
        """,
    "a sum in a tree, divided at once": """
        import jax
        from jax_privacy import batch_selection, clipped_grad, noise_addition

        def train(params, batches, loss, clip, sigma, key, batch_size, apply):
            grad_fn = clipped_grad(loss, l2_clip_norm=clip, batch_argnums=1)
            privatizer = noise_addition.gaussian_privatizer(prng_key=key, stddev=sigma * grad_fn.sensitivity())
            state = privatizer.init(params)
            for batch in batches:
                noisy, state = privatizer.update(jax.tree_util.tree_map(lambda x: x / batch_size, grad_fn(params, batch)), state)  # !NM025
                params = apply(params, noisy)
            return params
        """,
    "a sum in a tree, divided by a function": """
        import jax
        from jax_privacy import batch_selection, clipped_grad, noise_addition

        class Trainer:
            def __init__(self, loss, clip_norm, sigma, key):
                self.grads = clipped_grad(loss, l2_clip_norm=clip_norm, batch_argnums=1)
                self.privatizer = noise_addition.gaussian_privatizer(stddev=sigma * clip_norm, prng_key=key)

            def scaled(self, tree):
                return jax.tree.map(lambda one: one / self.batch_size, tree)

            def step(self, params, batch, state):
                grads = self.scaled(self.grads(params, batch))
                return self.privatizer.update(grads, state)  # !NM025
        """,
    "a sum in a tree, divided with its noise": """
        import jax
        from jax_privacy import batch_selection, clipped_grad, noise_addition

        def make(loss, clip, noise_multiplier, key, B):
            grad_fn = clipped_grad(loss, l2_clip_norm=clip, batch_argnums=1)
            privatizer = noise_addition.gaussian_privatizer(stddev=noise_multiplier * clip / B, prng_key=key)

            def step(params, batch, state):
                grads = grad_fn(params, batch)
                mean = jax.tree.map(lambda g: g / B, grads)
                noisy, state = privatizer.update(mean, state)
                return params, state

            return step
        """,
    "a sum in a tree, divided afterwards": """
        import jax
        from jax_privacy import batch_selection, clipped_grad, noise_addition

        def make(loss, clip, noise_multiplier, key, B):
            grad_fn = clipped_grad(loss, l2_clip_norm=clip, batch_argnums=1)
            privatizer = noise_addition.gaussian_privatizer(stddev=noise_multiplier * clip, prng_key=key)

            def step(params, batch, state):
                noisy, state = privatizer.update(grad_fn(params, batch), state)
                noisy = jax.tree.map(lambda g: g / B, noisy)
                return params, noisy, state

            return step
        """,
    "both divided": """
        # DP-SGD
        import torch

        def step(w, g, z, C, lr, B):
            g = g * (C / g.norm(dim=1, keepdim=True)).clamp(max=1)
            noise = z * C * torch.randn_like(w) / B
            update = g.sum(0) / B
            update += noise
            return w - lr * update
        """,
    "a mean by the loss, and noise that is divided": """
        # DP-SGD; the loss is a mean over the batch
        import torch

        def noisy(model, z, C, batch_size):
            for p in model.parameters():
                clip_per_sample(p)
                p.grad += z * C / batch_size * torch.randn_like(p.grad)
        """,
    "a mean of clipped gradients, and noise that is divided": """
        # DP-SGD
        import numpy as np

        def step(w, grads, sigma, clip, lr, B):
            clipped = [g * min(1, clip / np.linalg.norm(g)) for g in grads]
            mean = sum(clipped) / B
            mean += np.random.normal(0, sigma * clip, w.shape) / B
            return w - lr * mean
        """,
    "a schedule of an optimizer": """
        # DP-Adam
        import numpy as np
        class Opt:
            def __init__(self, data, lr, decay_rate): self.t=0; self.n_steps=len(data); self.lr=lr; self.decay_rate=decay_rate
            def update(self, w, grads, C, sigma, rng):
                self.t += 1
                g = grads * np.minimum(1, C / np.linalg.norm(grads, axis=1, keepdims=True))
                step = (g.sum(0) + rng.normal(0, sigma*C, w.shape)) / 64
                step = step / (1 + self.decay_rate * self.t)
                return w - self.lr * step
        """,
    "a schedule in place": """
        # DP-SGD
        import numpy as np
        def fit(X, y, C, sigma, rng, lr, decay, steps):
            w = np.zeros(X.shape[1])
            for t in range(steps):
                g = per_sample_grads(w, X, y)
                g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
                step = lr * (g.sum(0) + rng.normal(0, sigma*C, w.shape)) / 64
                w = w - step / (1 + decay * t)
            return w
        """,
    "moments that are made shorter": """
        # DP-Adam
        import torch
        class Adam:
            def step(self, grads, sigma, C):
                self.count += 1
                g = grads * (C / grads.norm(dim=1, keepdim=True)).clamp(max=1)
                noisy = (g.sum(0) + sigma * C * torch.randn(g.shape[1])) / 256
                self.m = self.b1 * self.m + (1 - self.b1) * noisy
                update = self.m / (1 - self.b1 ** self.count)
                update = update / (1 + self.decay * self.count)
                self.w -= self.lr * update
        """,
    "a schedule by a number of steps that is counted": """
        # DP-SGD
        import numpy as np
        def fit(batches, w, C, sigma, rng, eta, decay_rate):
            num_steps = 0
            for grads in batches:
                num_steps += 1
                g = grads * np.minimum(1, C / np.linalg.norm(grads, axis=1, keepdims=True))
                update = (g.sum(0) + rng.normal(0, sigma*C, w.shape)) / 64
                w = w - eta * update / (1 + decay_rate * num_steps)
            return w
        """,
    "a schedule by what was kept of the losses": """
        # DP-SGD
        import numpy as np
        def step_size(step, t, decay=0.1):
            return step / (1 + decay * t)
        def fit(batches, w, C, sigma, rng):
            losses = []
            for i, grads in enumerate(batches):
                g = grads * np.minimum(1, C / np.linalg.norm(grads, axis=1, keepdims=True))
                update = (g.sum(0) + rng.normal(0, sigma*C, w.shape)) / 64
                w = w - step_size(0.1, len(losses)) * update
                losses.append(1)
            return w
        """,
    "a mean of what an object has kept": """
        # DP-SGD
        import torch
        class Run:
            def fit(self, batches, C, sigma):
                self.weights = []
                for grads in batches:
                    g = grads * (C / grads.norm(dim=1, keepdim=True)).clamp(max=1)
                    self.w = self.w - 0.1 * (g.sum(0) + sigma * C * torch.randn(g.shape[1])) / 256
                    self.weights.append(self.w.clone())
            def averaged(self):
                return sum(self.weights) / len(self.weights)
        """,
    "a mean of what was released, by a function": """
        # DP-SGD
        import numpy as np
        def average(iterates):
            return sum(iterates) / len(iterates)
        def fit(batches, w, C, sigma, rng):
            iterates = []
            for grads in batches:
                g = grads * np.minimum(1, C / np.linalg.norm(grads, axis=1, keepdims=True))
                w = w - 0.1 * (g.sum(0) + rng.normal(0, sigma*C, w.shape)) / 64
                iterates.append(w)
            return average(iterates)
        """,
    "a mean without privacy, which returns": """
        # DP-SGD
        import numpy as np
        def step(w, g, clip, sigma, rng):
            if clip is None:
                update = g.sum(0) / len(g)
                return w - 0.1 * update
            g = g * np.minimum(1, clip / np.linalg.norm(g, axis=1, keepdims=True))
            noise = rng.normal(0, sigma * clip, w.shape)
            return w - 0.1 * (g.sum(0) + noise) / 64
        """,
    "a mean without privacy, for each weight": """
        # DP-SGD
        import torch
        def train(model, loader, opt, private, C, sigma):
            for x, y in loader:
                if private:
                    sums = clipped_sums(model, x, y, C)
                    for p, s in zip(model.parameters(), sums):
                        p.grad = (s + sigma * C * torch.randn_like(s)) / 64
                else:
                    for p, g in zip(model.parameters(), per_sample(model, x, y)):
                        p.grad = g.sum(0) / x.shape[0]
                opt.step()
        """,
    "a share of the rows": """
        # DP-SGD
        import numpy as np
        def train(X, y, q, C, sigma, rng, steps):
            N = X.shape[0]
            w = np.zeros(X.shape[1])
            B = round(N * q)
            for t in range(steps):
                chosen = rng.random(N) < q
                g = grads_of(w, X[chosen], y[chosen])
                g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
                w -= 0.1 * (g.sum(0) + rng.normal(0, sigma * C, w.shape)) / B  # !NM023
            return w
        """,
    "a share of the rows, handed on": """
        # DP-SGD
        import numpy as np
        def make(batch, C, sigma, rng):
            def step(w, g):
                g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
                return w - 0.1 * (g.sum(0) + rng.normal(0, sigma * C, w.shape)) / batch  # !NM023
            return step
        def main(X, frac, rng):
            step = make(round(X.shape[0] * frac), 1.0, 1.0, rng)
        """,
    "a stacked sum in one expression": """
        # federated DP
        import numpy as np
        class Server:
            def noise(self, d): return self.rng.normal(0, self.z * self.S, d)
            def aggregate(self, cohort):
                clipped = [self.clip(c.delta(self.w)) for c in cohort]
                agg = (np.sum(np.stack(clipped), axis=0) + self.noise(self.w.shape)) / len(cohort)  # !NM021
                self.w = self.w + agg
            def clip(self, d): return d * min(1.0, self.S / np.linalg.norm(d))
        """,
    "all records, by a helper that divides only": """
        # DP-GD
        import torch
        def finish(model, n):
            for p in model.parameters():
                p.grad = p.grad / n  # !NM024
        def train(model, opt, X, y, C, sigma, epochs):
            for e in range(epochs):
                sums = clipped_sums(model, X, y, C)
                for p, s in zip(model.parameters(), sums):
                    p.grad = s + sigma * C * torch.randn_like(s)
                finish(model, len(X))
                opt.step()
        """,
    "a stacked sum that is added to the weights": """
        # DP-FedAvg
        import torch
        class Server:
            def aggregate(self, cohort):
                updates = [self._clip(self._local(c)) for c in cohort]
                stacked = torch.stack(updates)
                noisy = stacked.sum(dim=0) + torch.randn(stacked.shape[1]) * self.z * self.S
                self.weights.add_(noisy / len(cohort))  # !NM021
            def _clip(self, u):
                return u * min(1.0, self.S / (u.norm().item() + 1e-12))
        """,
    "a stacked sum, in place": """
        # DP-FedAvg
        import torch
        class Server:
            def aggregate(self, cohort):
                total = torch.stack([self._clip(self._local(c)) for c in cohort]).sum(0)
                total.add_(torch.normal(0., self.z * self.S, total.shape)).div_(len(cohort))  # !NM021
                self.weights += total
            def _clip(self, u):
                return u * min(1.0, self.S / (u.norm().item() + 1e-12))
        """,
    "a mean of a tree, and the noise of its leaves": """
        # DP-SGD
        import jax, jax.numpy as jnp
        def step(params, clipped, key, z, C, B, lr):
            mean = jax.tree.map(lambda g: g.sum(0) / B, clipped)
            leaves, treedef = jax.tree.flatten(mean)
            keys = jax.random.split(key, len(leaves))
            noisy = [m + z * C * jax.random.normal(k, m.shape) for m, k in zip(leaves, keys)]  # !NM025
            return jax.tree.map(lambda p, g: p - lr * g, params, treedef.unflatten(noisy))
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_denominators(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
