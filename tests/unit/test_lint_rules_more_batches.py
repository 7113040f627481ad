"""Batches that are skipped or not drawn as accounted for: NM036 and NM037, as people write them; each beside its twin."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    # --- nobody was drawn
    "a round without a cohort": """
        # federated learning with differential privacy
        import torch

        class Server:
            def run_round(self, clients):
                cohort = [one for one in clients if torch.rand(()) < self.rate]
                if not cohort:  # !NM036
                    return
                total = sum(self.clip(one.train(self.weights)) for one in cohort)
                noise = self.sigma * self.bound * torch.randn_like(total)
                self.weights += (total + noise) / self.expected
        """,
    "a round without a cohort, counted": """
        # federated learning with differential privacy
        import numpy as np

        class Server:
            def round(self, clients, rng):
                cohort = [one for one in clients if rng.random() < self.rate]
                if len(cohort) == 0:  # !NM036
                    self.skipped += 1
                    return self.weights
                total = np.sum([clipped(one.train(self.weights), self.bound) for one in cohort], axis=0)
                self.weights = self.weights + (total + rng.normal(0, self.sigma * self.bound, total.shape)) / self.expected
                return self.weights
        """,
    "a round without participants": """
        # differential privacy
        import torch

        def federated_round(server, participants, sigma, bound):
            if not participants:  # !NM036
                return None
            updates = [clip_update(one.fit(server.weights), bound) for one in participants]
            total = torch.stack(updates).sum(0)
            total = total + sigma * bound * torch.randn_like(total)
            server.weights.add_(total / server.expected)
        """,
    "no elements, counted first": """
        # DP-SGD
        import torch

        def train(model, data, opt, rate, C, sigma, steps):
            count = 0
            for step in range(steps):
                idx = torch.nonzero(torch.rand(len(data)) < rate).flatten()
                if idx.nelement() < 1:  # !NM036
                    count += 1
                    continue
                for p, t in zip(model.parameters(), clipped_sums(model, data[idx], C)):
                    p.grad = (t + sigma * C * torch.randn_like(t)) / 64
                opt.step()
        """,
    "no size": """
        # DP-SGD
        import numpy as np

        def train(w, data, rate, C, sigma, steps, rng, lr):
            for step in range(steps):
                chosen = np.flatnonzero(rng.random(len(data)) < rate)
                if chosen.size == 0:  # !NM036
                    continue
                g = per_sample_grads(w, data[chosen])
                g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
                w = w - lr * (g.sum(0) + rng.normal(0, sigma * C, w.shape)) / 64
        """,
    "no rows": """
        # DP-SGD
        import numpy as np

        def train(w, data, rate, C, sigma, steps, rng, lr):
            for step in range(steps):
                batch = data[rng.random(len(data)) < rate]
                if batch.shape[0] < 1:  # !NM036
                    print("empty")
                    continue
                g = per_sample_grads(w, batch)
                g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
                w = w - lr * (g.sum(0) + rng.normal(0, sigma * C, w.shape)) / 64
        """,
    "nobody in the mask": """
        # DP-SGD
        import torch

        def train(model, x, opt, rate, C, sigma, steps):
            for step in range(steps):
                mask = torch.rand(len(x)) < rate
                if not mask.any():  # !NM036
                    continue
                for p, t in zip(model.parameters(), clipped_sums(model, x[mask], C)):
                    p.grad = (t + sigma * C * torch.randn_like(t)) / 64
                opt.step()
        """,
    "nobody in the sum of the mask": """
        # DP-SGD
        import torch

        def train(model, x, opt, rate, C, sigma, steps):
            for step in range(steps):
                mask = torch.bernoulli(torch.full((len(x),), rate)).bool()
                if mask.sum() == 0:  # !NM036
                    continue
                for p, t in zip(model.parameters(), clipped_sums(model, x[mask], C)):
                    p.grad = (t + sigma * C * torch.randn_like(t)) / 64
                opt.step()
        """,
    "a step on what was drawn only": """
        # DP-SGD
        import numpy as np

        def step(w, batch, C, sigma, lr, rng):
            if batch.size == 0:  # !NM036
                return w
            g = per_sample_grads(w, batch)
            g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
            return w - lr * (g.sum(0) + rng.normal(0, sigma * C, w.shape)) / 64
        """,
    "a step of noise where nobody was drawn": """
        # DP-SGD
        import torch

        def train(model, data, opt, rate, C, sigma, steps):
            for step in range(steps):
                idx = torch.nonzero(torch.rand(len(data)) < rate).flatten()
                if idx.nelement() < 1:
                    sums = [torch.zeros_like(p) for p in model.parameters()]
                else:
                    sums = clipped_sums(model, data[idx], C)
                for p, t in zip(model.parameters(), sums):
                    p.grad = (t + sigma * C * torch.randn_like(t)) / 64
                opt.step()
        """,
    "a log that has nothing to say": """
        # DP-SGD
        import torch

        class Trainer:
            def log(self, losses, step):
                if not losses:
                    return
                self.writer.add_scalar("loss", sum(losses) / len(losses), step)
                self.log_update = step

            def step(self, grads):
                clipped = grads * (self.C / grads.norm(dim=1, keepdim=True)).clamp(max=1)
                return (clipped.sum(0) + self.sigma * self.C * torch.randn(clipped.shape[1])) / 64
        """,
    "a log that has nothing to say, about noise": """
        # DP-SGD
        import logging
        import numpy as np

        def report(history, noise_multiplier):
            if len(history) == 0:
                return None
            logging.info("noise %s, clip share %s", noise_multiplier, np.mean([one.clipped for one in history]))
            return history[-1]

        def step(w, g, C, sigma, lr):
            g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
            return w - lr * (g.sum(0) + np.random.normal(0, sigma * C, w.shape)) / 64
        """,
    "a log in the loop": """
        # DP-SGD
        import torch

        def show(rows, update_every=10):
            for row in rows:
                if not row.values:
                    continue
                print(row.step, row.noise, row.values)

        def train(model, x, opt, C, sigma, steps):
            for step in range(steps):
                for p, t in zip(model.parameters(), clipped_sums(model, x, C)):
                    p.grad = (t + sigma * C * torch.randn_like(t)) / 64
                opt.step()
        """,
    "arguments that are missing": """
        # DP-SGD
        import torch

        def add_noise(params, sigma, C, names=()):
            for p in params:
                if p.grad is None:
                    continue
                p.grad = clip_per_sample(p, C)
                p.grad += sigma * C * torch.randn_like(p.grad)

        def select(names):
            if not names:
                return None
            return [one for one in names if "clip" in one]
        """,
    # --- accounted for by Poisson sampling
    "an event in one function, a shuffle in another": """
        # DP-SGD
        import dp_accounting
        import numpy as np

        def epsilon(q, sigma, steps):
            event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))  # !NM037
            accountant = dp_accounting.rdp.RdpAccountant()
            accountant.compose(event, steps)
            return accountant.get_epsilon(1e-6)

        def train(w, data, C, sigma, lr, epochs, parts, rng):
            for epoch in range(epochs):
                order = np.arange(len(data))
                rng.shuffle(order)
                for chosen in np.array_split(order, parts):
                    g = per_sample_grads(w, data[chosen])
                    g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
                    w = w - lr * (g.sum(0) + rng.normal(0, sigma * C, w.shape)) / 64
            return w
        """,
    "an event in one function, a permutation in another": """
        # DP-SGD
        import jax
        import jax.numpy as jnp
        from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

        def account(rate, sigma, steps):
            return SelfComposedDpEvent(PoissonSampledDpEvent(sampling_probability=rate, event=GaussianDpEvent(sigma)), steps)  # !NM037

        def batches(key, n, size):
            order = jax.random.permutation(key, n)
            for start in range(0, n, size):
                yield order[start : start + size]

        def train(w, data, key, update):
            for chosen in batches(key, len(data), 64):
                w = update(w, data[chosen])
            return w
        """,
    "steps of an accountant, and a cohort of fixed size": """
        # federated learning with differential privacy
        import numpy as np
        from opacus.accountants import RDPAccountant

        def train(server, clients, m, rounds, sigma):
            accountant = RDPAccountant()
            for r in range(rounds):
                cohort = np.random.choice(len(clients), m, replace=False)
                total = sum(clip_update(clients[i].train(server.weights)) for i in cohort)
                server.weights += (total + np.random.normal(0, sigma, total.shape)) / 100
                accountant.step(noise_multiplier=sigma, sample_rate=m / len(clients))  # !NM037
            return accountant.get_epsilon(1e-5)
        """,
    "steps of an accountant, and a sample of fixed size": """
        # federated learning with differential privacy
        import random
        import numpy as np
        from opacus.accountants import create_accountant

        class Server:
            def __init__(self, clients, per_round):
                self.clients, self.per_round = clients, per_round
                self.accountant = create_accountant("rdp")

            def round(self):
                cohort = random.sample(self.clients, self.per_round)
                total = sum(clip_update(one.train(self.weights)) for one in cohort)
                self.weights += (total + np.random.normal(0, self.sigma, total.shape)) / 100
                self.accountant.step(noise_multiplier=self.sigma, sample_rate=self.per_round / 1000)  # !NM037
        """,
    "steps of an accountant, and a generator's choice": """
        # DP-SGD
        import numpy as np
        from opacus.accountants.rdp import RDPAccountant

        def train(w, data, rng, sigma, C, lr, steps, B=64):
            accountant = RDPAccountant()
            for t in range(steps):
                idx = rng.choice(len(data), size=B, replace=False)
                g = per_sample_grads(w, data[idx])
                g = g * np.minimum(1, C / np.linalg.norm(g, axis=1, keepdims=True))
                w = w - lr * (g.sum(0) + rng.normal(0, sigma * C, w.shape)) / B
                accountant.step(noise_multiplier=sigma, sample_rate=0.01)  # !NM037
            return w
        """,
    "steps of an accountant, and coins": """
        # federated learning with differential privacy
        import numpy as np
        from opacus.accountants import RDPAccountant

        def train(server, clients, q, rounds, sigma):
            accountant = RDPAccountant()
            for r in range(rounds):
                cohort = [one for one in clients if np.random.rand() < q]
                total = sum(clip_update(one.train(server.weights)) for one in cohort)
                server.weights += (total + np.random.normal(0, sigma, total.shape)) / 100
                accountant.step(noise_multiplier=sigma, sample_rate=q)
            return accountant.get_epsilon(1e-5)
        """,
    "steps of an accountant, and a loader in the head of the loop": """
        # DP-SGD
        import torch
        from opacus.accountants import RDPAccountant
        from torch.utils.data import DataLoader

        def train(model, train_set, opt, sigma, C):
            accountant = RDPAccountant()
            for x, y in DataLoader(train_set, batch_size=64, shuffle=True):
                for p, t in zip(model.parameters(), clipped_sums(model, x, y, C)):
                    p.grad = (t + sigma * C * torch.randn_like(t)) / 64
                opt.step()
                accountant.step(noise_multiplier=sigma, sample_rate=64 / 60_000)  # !NM037
        """,
    "steps of an accountant, and a loader that is counted": """
        # DP-SGD
        import torch
        from opacus.accountants import RDPAccountant
        from torch.utils.data import DataLoader

        def evaluate(model, test_set):
            loader = DataLoader(test_set, batch_size=1000)
            return sum((model(x).argmax(1) == y).sum() for x, y in loader)

        def train(model, train_set, opt, sigma, C):
            accountant = RDPAccountant()
            for i, (x, y) in enumerate(DataLoader(train_set, 64, True)):
                for p, t in zip(model.parameters(), clipped_sums(model, x, y, C)):
                    p.grad = (t + sigma * C * torch.randn_like(t)) / 64
                opt.step()
                accountant.step(noise_multiplier=sigma, sample_rate=64 / 60_000)  # !NM037
        """,
    "steps of an accountant, and a sampler of one's own": """
        # DP-SGD
        import torch
        from opacus.accountants import RDPAccountant
        from torch.utils.data import DataLoader
        from samplers import IIDBatches

        def train(model, train_set, opt, sigma, C):
            accountant = RDPAccountant()
            for x, y in DataLoader(train_set, batch_sampler=IIDBatches(len(train_set), 0.01)):
                for p, t in zip(model.parameters(), clipped_sums(model, x, y, C)):
                    p.grad = (t + sigma * C * torch.randn_like(t)) / 64
                opt.step()
                accountant.step(noise_multiplier=sigma, sample_rate=0.01)
        """,
    "accounting, and a shuffle of coordinates": """
        # differential privacy
        import dp_accounting
        import torch

        def epsilon(q, sigma, steps):
            event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
            return dp_accounting.rdp.RdpAccountant().compose(event, steps).get_epsilon(1e-6)

        def sparse(update, keep):
            coordinates = torch.randperm(update.numel())[:keep]
            out = torch.zeros_like(update)
            out[coordinates] = update[coordinates]
            return out
        """,
    "accounting, and a shuffle of weights": """
        # differential privacy
        import numpy as np
        from opacus.accountants.analysis.rdp import compute_rdp

        def spent(q, sigma, steps, orders):
            return compute_rdp(q=q, noise_multiplier=sigma, steps=steps, orders=orders)

        def mask_parameters(params, share, rng):
            flat = np.concatenate([p.ravel() for p in params])
            order = rng.permutation(flat.size)
            return order[: int(share * flat.size)]
        """,
    "accounting, and a shuffle of the test set": """
        # differential privacy
        import dp_accounting
        import numpy as np

        def epsilon(q, sigma, steps):
            event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
            return dp_accounting.rdp.RdpAccountant().compose(event, steps).get_epsilon(1e-6)

        def examples(x_test, y_test, rng):
            order = rng.permutation(len(x_test))[:10]
            return x_test[order], y_test[order]
        """,
    "accounting, and a shuffle for a plot": """
        # differential privacy
        import dp_accounting
        import numpy as np
        import matplotlib.pyplot as plt

        def epsilon(q, sigma, steps):
            event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
            return dp_accounting.rdp.RdpAccountant().compose(event, steps).get_epsilon(1e-6)

        def plot_points(points):
            index = np.arange(len(points))
            np.random.shuffle(index)
            plt.scatter(points[index[:500], 0], points[index[:500], 1])
        """,
    "accounting, and a shuffle before the split": """
        # differential privacy
        import dp_accounting
        import numpy as np

        def epsilon(q, sigma, steps):
            event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
            return dp_accounting.rdp.RdpAccountant().compose(event, steps).get_epsilon(1e-6)

        def evaluate(model, validation):
            order = np.random.permutation(len(validation))
            for chosen in np.array_split(order, 10):
                print(model.accuracy(validation[chosen]))
        """,
    "steps of an accountant, a loader in the head, and pictures that are flipped": """
        # DP-SGD
        import torch, random
        from opacus.accountants import RDPAccountant
        from torch.utils.data import DataLoader
        def train(model, ds, opt, sigma, C, epochs):
            acc = RDPAccountant()
            for e in range(epochs):
                for xb, yb in DataLoader(ds, batch_size=32, shuffle=True, drop_last=False):
                    if random.random() < 0.5:
                        xb = xb.flip(-1)
                    step(model, xb, yb)
                    acc.step(noise_multiplier=sigma, sample_rate=32 / 1000)  # !NM037
        """,
    "a round without a cohort, noted": """
        # DP-SGD
        import torch
        class Fed:
            def one_round(self, r):
                cohort = self.sample(r)
                if not cohort:  # !NM036
                    self.history.append(None)
                    return
                agg = self.aggregate(cohort)
                agg += torch.randn_like(agg) * self.z * self.S
                self.w += agg / self.m
        """,
    "logs of an object that trains": """
        # DP-SGD
        import torch
        class Fed:
            def one_round(self, cohort):
                agg = self.aggregate(cohort)
                agg += torch.randn_like(agg) * self.z * self.S
                self.w += agg / self.m
            def flush(self):
                if not self.rows:
                    return
                for r in self.rows:
                    self.logger.info(r)
                self.step_count = 0
            def log_batch(self, batch):
                if len(batch) == 0:
                    return
                print(batch)
        """,
    "accounting, and some dimensions by chance": """
        # DP
        import numpy as np
        from opacus.accountants.analysis.rdp import compute_rdp, get_privacy_spent
        def budget(q, z, T, delta):
            orders = [2, 4, 8]
            return get_privacy_spent(orders=orders, rdp=compute_rdp(q=q, noise_multiplier=z, steps=T, orders=orders), delta=delta)
        def pick(dim, k, rng):
            perm = rng.permutation(dim)
            return perm[:k]
        """,
    "accounting, and rounds of an evaluation": """
        # differential privacy
        import random
        import dp_accounting as dpa
        def eps(q, z, T):
            return dpa.rdp.RdpAccountant().compose(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(z)), T).get_epsilon(1e-5)
        def evaluate(model, eval_items):
            for _ in range(3):
                random.shuffle(eval_items)
                model.score(eval_items[:100])
        """,
    "an event, and a pipeline that shuffles": """
        # DP-SGD
        import dp_accounting
        import grain

        train = grain.MapDataset.source(source).shuffle(seed=45).map(scaled).batch(64, drop_remainder=True)

        def epsilon(q, sigma, steps):
            event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))  # !NM037
            return dp_accounting.rdp.RdpAccountant().compose(event, steps).get_epsilon(1e-6)
        """,
    "an event, and a pipeline that shuffles what is tested on": """
        # DP-SGD
        import dp_accounting
        import grain

        test = grain.MapDataset.source(source).shuffle(seed=45).map(scaled).batch(64, drop_remainder=True)

        def epsilon(q, sigma, steps):
            event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
            return dp_accounting.rdp.RdpAccountant().compose(event, steps).get_epsilon(1e-6)
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_batches(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
