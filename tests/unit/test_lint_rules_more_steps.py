"""Clipping and noise as people spread them over functions, methods and statements: NM031 to NM033; each beside its twin."""

from __future__ import annotations

import pytest

from lint_scripts import both

SCRIPTS = {
    # --- noise without clipping
    "a federated client, in the data of the gradient": """
        # local differential privacy for federated clients
        import torch

        class Client:
            def train(self, loader, epochs):
                for epoch in range(epochs):
                    for x, y in loader:
                        self.opt.zero_grad()
                        criterion(self.net(x), y).backward()
                        for p in self.net.parameters():
                            noise = torch.normal(0.0, self.sigma, size=p.grad.shape)
                            p.grad.data = p.grad.data + noise  # !NM031
                        self.opt.step()
                return self.net.state_dict()
        """,
    "a federated client, with noise named for privacy": """
        import torch

        def local_train(model, loader, optimizer, privacy_noise_std):
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                for name, param in model.named_parameters():
                    if param.grad is not None:
                        privacy_noise = torch.randn_like(param.grad) * privacy_noise_std
                        param.grad.data = param.grad.data + privacy_noise  # !NM031
                optimizer.step()
        """,
    "a federated client, with a distribution": """
        # differential privacy
        import torch
        from torch.distributions import Laplace

        def client_update(model, loader, optimizer, scale):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                for p in model.parameters():
                    dp_noise = Laplace(0.0, scale).sample(p.grad.shape)
                    p.grad = p.grad + dp_noise  # !NM031
                optimizer.step()
        """,
    "a federated client, by a method of its own": """
        # differential privacy
        import numpy as np
        import torch

        class Client:
            def dp_noise(self, shape):
                return torch.from_numpy(np.random.normal(0, self.sigma, shape)).float()

            def fit(self):
                for x, y in self.loader:
                    criterion(self.net(x), y).backward()
                    for p in self.net.parameters():
                        p.grad.data += self.dp_noise(p.grad.shape)  # !NM031
                    self.opt.step()
        """,
    "a federated client that clips": """
        # differential privacy
        import torch

        class Client:
            def train(self, loader):
                for x, y in loader:
                    per_sample = self.per_sample_grads(x, y)
                    for p, g in zip(self.net.parameters(), per_sample):
                        norms = g.flatten(1).norm(dim=1)
                        p.grad = (g * (self.bound / norms).clamp(max=1).view(-1, *[1] * p.dim())).sum(0)  # !NM041
                        noise = torch.normal(0.0, self.sigma * self.bound, size=p.grad.shape)
                        p.grad.data = p.grad.data + noise
                    self.opt.step()
        """,
    # --- clipping without noise
    "in a function that vmap takes, with optax": """
        \"\"\"DP-SGD with optax.\"\"\"
        import jax
        import jax.numpy as jnp
        import optax

        optimizer = optax.sgd(0.1)

        def update(params, state, batch, clip):
            def one(record):
                g = jax.grad(loss)(params, record)
                norm = optax.global_norm(g)
                return jax.tree.map(lambda x: x * jnp.minimum(1.0, clip / norm), g)  # !NM032

            clipped = jax.vmap(one)(batch)
            mean = jax.tree.map(lambda x: x.sum(0) / batch.shape[0], clipped)
            updates, state = optimizer.update(mean, state)
            return optax.apply_updates(params, updates), state
        """,
    "in a function that vmap takes, named for what it should do": """
        import jax
        import jax.numpy as jnp
        import optax

        TX = optax.chain(optax.trace(0.9), optax.scale(-0.1))

        def dp_sgd_step(params, opt_state, tx, xs, ys, l2_norm_clip):
            def clipped_grad(x, y):
                g, unravel = jax.flatten_util.ravel_pytree(jax.grad(loss)(params, x, y))
                return g / jnp.maximum(1.0, jnp.linalg.norm(g) / l2_norm_clip)  # !NM032

            summed = jax.vmap(clipped_grad)(xs, ys).sum(axis=0)
            updates, opt_state = tx.update(summed / 256, opt_state, params)
            return optax.apply_updates(params, updates), opt_state
        """,
    "by a function for one record, with optax": """
        # differentially private training with jax
        import jax
        import jax.numpy as jnp
        import optax

        def make():
            return optax.adamw(learning_rate=1e-3)

        def clip_tree(g, C):
            total = jnp.sqrt(sum(jnp.sum(x**2) for x in jax.tree.leaves(g)))
            factor = jnp.minimum(1.0, C / total)
            return jax.tree.map(lambda x: factor * x, g)

        def train_step(params, state, batch, tx, C):
            grads = jax.vmap(lambda r: clip_tree(jax.grad(loss)(params, r), C))(batch)
            mean = jax.tree.map(lambda x: jnp.mean(x, axis=0), grads)
            updates, state = tx.update(mean, state)
            return optax.apply_updates(params, updates), state  # !NM032
        """,
    "in a function that vmap takes, and noise": """
        \"\"\"DP-SGD with optax.\"\"\"
        import jax
        import jax.numpy as jnp
        import optax

        optimizer = optax.sgd(0.1)

        def update(params, state, batch, clip, sigma, key):
            def one(record):
                g = jax.grad(loss)(params, record)
                norm = optax.global_norm(g)
                return jax.tree.map(lambda x: x * jnp.minimum(1.0, clip / norm), g)

            clipped = jax.vmap(one)(batch)
            noisy = jax.tree.map(lambda x: (x.sum(0) + sigma * clip * jax.random.normal(key, x.shape[1:])) / 256, clipped)
            updates, state = optimizer.update(noisy, state)
            return optax.apply_updates(params, updates), state
        """,
    "optax adds the noise": """
        \"\"\"DP-SGD with optax.\"\"\"
        import jax
        import jax.numpy as jnp
        import optax

        optimizer = optax.chain(optax.add_noise(0.1, 0.0, seed), optax.sgd(0.1))

        def update(params, state, batch, clip):
            def one(record):
                g = jax.grad(loss)(params, record)
                return jax.tree.map(lambda x: x * jnp.minimum(1.0, clip / optax.global_norm(g)), g)

            mean = jax.tree.map(lambda x: x.sum(0) / 256, jax.vmap(one)(batch))
            updates, state = optimizer.update(mean, state)
            return optax.apply_updates(params, updates), state
        """,
    "a chain from elsewhere may add the noise": """
        \"\"\"DP-SGD with optax.\"\"\"
        import jax
        import jax.numpy as jnp
        import optax

        def update(params, state, batch, clip, tx):
            def one(record):
                g = jax.grad(loss)(params, record)
                return jax.tree.map(lambda x: x * jnp.minimum(1.0, clip / optax.global_norm(g)), g)

            mean = jax.tree.map(lambda x: x.sum(0) / 256, jax.vmap(one)(batch))
            updates, state = tx.update(mean, state)
            return optax.apply_updates(params, updates), state
        """,
    "clipping by optax against large steps": """
        import jax
        import optax

        tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))

        def step(params, state, batch):
            grads = jax.grad(lambda p: jax.vmap(lambda r: loss(p, r))(batch).mean())(params)
            updates, state = tx.update(grads, state)
            return optax.apply_updates(params, updates), state
        """,
    # --- the batch is clipped
    "tensorflow, in a helper": """
        # differentially private Keras model
        import tensorflow as tf

        class PrivateModel(tf.keras.Model):
            def _clip(self, gradients):
                clipped, _ = tf.clip_by_global_norm(gradients, self.clip_norm)  # !NM033
                return clipped

            def train_step(self, data):
                x, y = data
                with tf.GradientTape() as tape:
                    value = self.compute_loss(x, y, self(x, training=True))
                gradients = self._clip(tape.gradient(value, self.trainable_variables))
                noisy = [g + tf.random.normal(tf.shape(g), stddev=self.sigma * self.clip_norm) for g in gradients]
                self.optimizer.apply_gradients(zip(noisy, self.trainable_variables))
                return {"loss": value}
        """,
    "tensorflow, in a function": """
        # DP-SGD
        import tensorflow as tf

        def bound(grads, c):
            return tf.clip_by_global_norm(grads, c)[0]  # !NM033

        def perturb(grads, c, sigma):
            return [g + tf.random.normal(g.shape, stddev=sigma * c) for g in grads]

        def train_step(model, optimizer, x, y, c, sigma):
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(loss(y, model(x)))
            grads = tape.gradient(value, model.trainable_variables)
            grads = perturb(bound(grads, c), c, sigma)
            optimizer.apply_gradients(zip(grads, model.trainable_variables))
        """,
    "tensorflow, in a helper that does both": """
        # DP-SGD
        import tensorflow as tf

        class Trainer:
            def privatize(self, gradients):
                gradients, norm = tf.clip_by_global_norm(gradients, self.l2_norm_clip)  # !NM033
                return [g + tf.random.normal(tf.shape(g), 0.0, self.noise_multiplier * self.l2_norm_clip) for g in gradients]

            def train_on(self, batch, labels):
                with tf.GradientTape() as tape:
                    value = self.loss(labels, self.model(batch))
                grads = tape.gradient(value, self.model.trainable_weights)
                self.optimizer.apply_gradients(zip(self.privatize(grads), self.model.trainable_weights))
        """,
    "tensorflow, in a helper for each record": """
        # DP-SGD
        import tensorflow as tf

        class Trainer:
            def _clip(self, gradients):
                return tf.clip_by_global_norm(gradients, self.bound)[0]

            def train_step(self, data):
                xs, ys = data
                sums = [tf.zeros_like(v) for v in self.trainable_variables]
                for i in range(self.batch):
                    with tf.GradientTape() as tape:
                        value = self.loss(ys[i : i + 1], self(xs[i : i + 1]))
                    gradients = self._clip(tape.gradient(value, self.trainable_variables))
                    sums = [s + g for s, g in zip(sums, gradients)]
                noisy = [(s + tf.random.normal(s.shape, stddev=self.sigma * self.bound)) / 64.0 for s in sums]
                self.optimizer.apply_gradients(zip(noisy, self.trainable_variables))
        """,
    "by the norms of all gradients, stacked": """
        # DP-SGD
        import torch

        def train(model, loader, opt, C, sigma):
            for x, y in loader:
                opt.zero_grad()
                criterion(model(x), y).backward()
                norm = torch.norm(torch.stack([p.grad.norm(2) for p in model.parameters()]), 2)
                factor = min(1.0, C / (norm + 1e-6))  # !NM033
                for p in model.parameters():
                    p.grad.mul_(factor)
                    p.grad.add_(sigma * C * torch.randn_like(p.grad))
                opt.step()
        """,
    "by the norms of all gradients, squared": """
        # DP-SGD
        import torch

        def privatize(model, C, sigma):
            total = torch.sqrt(sum(p.grad.pow(2).sum() for p in model.parameters()))
            scale = torch.clamp(C / (total + 1e-6), max=1.0)  # !NM033
            for p in model.parameters():
                p.grad = p.grad * scale + torch.normal(0.0, sigma * C, p.grad.shape)

        def train(model, loader, opt):
            for x, y in loader:
                opt.zero_grad()
                criterion(model(x), y).backward()
                privatize(model, 1.0, 1.1)
                opt.step()
        """,
    "by the norms of all gradients, in a list": """
        # DP-SGD
        import torch

        def train(model, loader, opt, bound, sigma):
            for data, target in loader:
                opt.zero_grad()
                criterion(model(data), target).backward()
                norms = [torch.linalg.norm(p.grad) for p in model.parameters() if p.grad is not None]
                total_norm = torch.linalg.norm(torch.stack(norms))
                if total_norm > bound:
                    for p in model.parameters():
                        p.grad *= bound / total_norm  # !NM033
                for p in model.parameters():
                    p.grad += torch.randn(p.grad.shape) * sigma * bound
                opt.step()
        """,
    "by the norms of one record's gradients": """
        # DP-SGD
        import torch

        def train(model, x, y, opt, C, sigma):
            sums = [torch.zeros_like(p) for p in model.parameters()]
            for i in range(len(x)):
                model.zero_grad()
                criterion(model(x[i : i + 1]), y[i : i + 1]).backward()
                norm = torch.norm(torch.stack([p.grad.norm(2) for p in model.parameters()]), 2)
                factor = min(1.0, C / (norm + 1e-6))
                for s, p in zip(sums, model.parameters()):
                    s.add_(p.grad * factor)
            for s, p in zip(sums, model.parameters()):
                p.grad = (s + sigma * C * torch.randn_like(s)) / 64
            opt.step()
        """,
    "an engine of one's own, in two methods": """
        import torch

        class PrivacyEngine:
            def __init__(self, model, max_grad_norm, noise_multiplier):
                self.model, self.max_grad_norm, self.noise_multiplier = model, max_grad_norm, noise_multiplier

            def clip(self):
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)  # !NM033

            def add_noise(self):
                for p in self.model.parameters():
                    p.grad += torch.normal(0, self.noise_multiplier * self.max_grad_norm, p.grad.shape)

        def train(model, loader, opt):
            engine = PrivacyEngine(model, 1.0, 1.1)
            for x, y in loader:
                opt.zero_grad()
                criterion(model(x), y).backward()
                engine.clip()
                engine.add_noise()
                opt.step()
        """,
    "an engine of one's own, in two methods that nobody calls here": """
        # differential privacy
        import torch

        class DPEngine:
            def clip_gradients(self, model):
                torch.nn.utils.clip_grad_norm_(model.parameters(), self.max_norm)  # !NM033

            def add_noise(self, model):
                for p in model.parameters():
                    if p.grad is not None:
                        noise = torch.randn_like(p.grad) * self.sigma * self.max_norm
                        p.grad.data.add_(noise)

            def step(self, model, loss, optimizer):
                loss.backward()
                self.clip_gradients(model)
                self.add_noise(model)
                optimizer.step()
        """,
    "an engine of one's own, with a norm": """
        # differential privacy
        import torch

        class PrivacyEngine:
            def clip(self, params):
                norm = torch.sqrt(sum(p.grad.norm() ** 2 for p in params))
                coef = min(1, self.C / norm)  # !NM033
                for p in params:
                    p.grad *= coef

            def perturb(self, params):
                for p in params:
                    p.grad += self.sigma * self.C * torch.randn_like(p.grad)

        class Trainer:
            def fit(self, loader):
                for x, y in loader:
                    self.loss(self.net(x), y).backward()
                    self.engine.clip(list(self.net.parameters()))
                    self.engine.perturb(list(self.net.parameters()))
                    self.opt.step()
        """,
    "an engine of one's own, for each record": """
        import torch

        class PrivacyEngine:
            def clip_sample(self):
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)

            def add_noise(self):
                for p, s in zip(self.model.parameters(), self.sums):
                    p.grad = s + torch.normal(0, self.noise_multiplier * self.max_grad_norm, s.shape)

        def train(engine, model, loader, opt):
            for xb, yb in loader:
                for x, y in zip(xb, yb):
                    model.zero_grad()
                    criterion(model(x[None]), y[None]).backward()
                    engine.clip_sample()
                    engine.gather()
                engine.add_noise()
                opt.step()
        """,
    "handed to a sanitizer": """
        # DP-SGD
        import torch

        def sanitize(grad, bound, sigma):
            norm = grad.norm()
            clipped = grad * min(1.0, bound / norm)  # !NM033
            return clipped + torch.normal(0.0, sigma * bound, grad.shape)

        def train(model, loader, opt):
            for x, y in loader:
                opt.zero_grad()
                criterion(model(x), y).backward()
                for p in model.parameters():
                    p.grad = sanitize(p.grad, 1.0, 1.1)
                opt.step()
        """,
    "handed to a sanitizer, in numpy": """
        # DP gradient descent
        import numpy as np

        def sanitizer(g, C, sigma):
            g = g / max(1.0, np.linalg.norm(g) / C)  # !NM033
            return g + np.random.normal(0.0, sigma * C, g.shape)

        def fit(X, y, steps, lr):
            w = np.zeros(X.shape[1])
            for _ in range(steps):
                grad = X.T @ (X @ w - y) / 500
                w = w - lr * sanitizer(grad, 1.0, 1.1)
            return w
        """,
    "handed to a sanitizer, in jax": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def sanitize(grads, key, bound, sigma):
            flat, unravel = jax.flatten_util.ravel_pytree(grads)
            flat = flat * jnp.minimum(1.0, bound / jnp.linalg.norm(flat))  # !NM033
            return unravel(flat + sigma * bound * jax.random.normal(key, flat.shape))

        def step(params, batch, key):
            grads = jax.grad(lambda p: loss(p, batch).mean())(params)
            grads = sanitize(grads, key, 1.0, 1.1)
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        """,
    "handed to a sanitizer, record by record": """
        # DP-SGD
        import jax
        import jax.numpy as jnp

        def clip(grads, bound):
            flat, unravel = jax.flatten_util.ravel_pytree(grads)
            return flat * jnp.minimum(1.0, bound / jnp.linalg.norm(flat))

        def sanitize(summed, key, bound, sigma):
            return summed + sigma * bound * jax.random.normal(key, summed.shape)

        def step(params, batch, key):
            clipped = jax.vmap(lambda r: clip(jax.grad(loss)(params, r), 1.0))(batch)
            noisy = sanitize(clipped.sum(0), key, 1.0, 1.1) / 64
            return params - 0.1 * noisy
        """,
    "handed to a sanitizer that somebody else calls": """
        # helpers for DP-SGD
        import torch

        def sanitize(grad, bound, sigma):
            clipped = grad * min(1.0, bound / grad.norm())
            return clipped + torch.normal(0.0, sigma * bound, grad.shape)
        """,
    # --- single records after all
    "single records, by a slice": """
        # DP-SGD
        import torch

        def step(model, x, y, opt, C, sigma):
            sums = [torch.zeros_like(p) for p in model.parameters()]
            n = x.shape[0]
            for i in range(n):
                opt.zero_grad()
                criterion(model(x[i : i + 1]), y[i : i + 1]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), C)
                for s, p in zip(sums, model.parameters()):
                    s += p.grad
            for s, p in zip(sums, model.parameters()):
                p.grad = (s + sigma * C * torch.randn_like(s)) / 64
            opt.step()
        """,
    "single records, by zip": """
        # DP-SGD
        import torch

        def step(model, xb, yb, opt, C, sigma):
            sums = [torch.zeros_like(p) for p in model.parameters()]
            for a, b in zip(xb, yb):
                model.zero_grad()
                criterion(model(a.unsqueeze(0)), b.unsqueeze(0)).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), C)
                for s, p in zip(sums, model.parameters()):
                    s.add_(p.grad)
            for s, p in zip(sums, model.parameters()):
                p.grad = (s + sigma * C * torch.randn_like(s)) / 64
            opt.step()
        """,
    "single records, by their losses": """
        # DP-SGD
        import torch

        def step(model, x, y, opt, C, sigma):
            losses = torch.nn.functional.cross_entropy(model(x), y, reduction="none")
            saved = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
            for j in losses:
                j.backward(retain_graph=True)
                torch.nn.utils.clip_grad_norm_(model.parameters(), C)
                for n, p in model.named_parameters():
                    saved[n].add_(p.grad)
                model.zero_grad()
            for n, p in model.named_parameters():
                p.grad = (saved[n] + sigma * C * torch.randn_like(p)) / 256
            opt.step()
        """,
    "single records, by microbatches of one": """
        # DP-SGD
        import torch

        def step(model, x, y, opt, C, sigma):
            sums = [torch.zeros_like(p) for p in model.parameters()]
            for xi, yi in zip(torch.split(x, 1), torch.split(y, 1)):
                model.zero_grad()
                criterion(model(xi), yi).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), C)
                for s, p in zip(sums, model.parameters()):
                    s += p.grad
            for s, p in zip(sums, model.parameters()):
                p.grad = (s + sigma * C * torch.randn_like(s)) / 64
            opt.step()
        """,
    "single records, gathered by a list": """
        # DP-SGD
        import torch

        def step(model, chosen, train_set, opt, C, sigma):
            collected = []
            for k in chosen:
                image, label = train_set[k]
                model.zero_grad()
                criterion(model(image[None]), label[None]).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), C)
                collected.append([p.grad.clone() for p in model.parameters()])
            for p, several in zip(model.parameters(), zip(*collected)):
                p.grad = (torch.stack(several).sum(0) + sigma * C * torch.randn_like(p)) / 64
            opt.step()
        """,
    "batches whose gradients are gathered": """
        # DP-SGD
        import torch

        def epoch(model, loader, opt, C, sigma):
            sums = [torch.zeros_like(p) for p in model.parameters()]
            for x, y in loader:
                model.zero_grad()
                criterion(model(x), y).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), C)  # !NM033
                for s, p in zip(sums, model.parameters()):
                    s += p.grad
            for s, p in zip(sums, model.parameters()):
                p.grad = (s + sigma * C * torch.randn_like(s)) / 64
            opt.step()
        """,
    "tensorflow, in a method below": """
        # DP-SGD
        import tensorflow as tf
        class M(tf.keras.Model):
            def train_step(self, data):
                x, y = data
                with tf.GradientTape() as tape:
                    l = self.compiled_loss(y, self(x))
                g = tape.gradient(l, self.trainable_variables)
                g = self._privatise(g)
                self.optimizer.apply_gradients(zip(g, self.trainable_variables))
            def _privatise(self, grads):
                clipped, _ = tf.clip_by_global_norm(grads, self.C)  # !NM033
                return [c + tf.random.normal(tf.shape(c), stddev=self.sigma * self.C) for c in clipped]
        """,
    "handed to an object that sanitizes": """
        # DP-SGD
        import torch
        class Sanitizer:
            def __init__(self, C, sigma): self.C, self.sigma = C, sigma
            def __call__(self, grads):
                total = torch.sqrt(sum((g ** 2).sum() for g in grads))
                f = min(1.0, self.C / float(total))  # !NM033
                return [g * f + self.sigma * self.C * torch.randn_like(g) for g in grads]
        def train(model, loader, opt):
            clean = Sanitizer(1.0, 1.0)
            for x, y in loader:
                loss = crit(model(x), y)
                grads = torch.autograd.grad(loss, model.parameters())
                for p, g in zip(model.parameters(), clean(grads)):
                    p.grad = g
                opt.step()
        """,
    "an engine of one's own, by the stacked norms": """
        # private training
        import torch
        class PrivacyEngine:
            def __init__(self, params, C, sigma):
                self.params, self.C, self.sigma = list(params), C, sigma
            def clip_gradients(self):
                total = torch.norm(torch.stack([torch.norm(p.grad.detach(), 2.0) for p in self.params]), 2.0)
                coef = self.C / (total + 1e-6)  # !NM033
                if coef < 1:
                    for p in self.params:
                        p.grad.detach().mul_(coef)
            def add_noise(self):
                for p in self.params:
                    p.grad.add_(torch.randn_like(p.grad), alpha=self.sigma * self.C)
        def fit(model, loader, opt):
            pe = PrivacyEngine(model.parameters(), 1.0, 1.0)
            for x, y in loader:
                opt.zero_grad()
                crit(model(x), y).backward()
                pe.clip_gradients()
                pe.add_noise()
                opt.step()
        """,
    "in a function that vmap takes, by inner products": """
        '''DP-SGD in JAX: per-example clipping.'''
        import jax, optax
        import jax.numpy as jnp
        tx = optax.adam(1e-3)
        @jax.jit
        def dpsgd_step(params, opt_state, xb, yb):
            def per_example(x, y):
                g = jax.grad(loss_fn)(params, x, y)
                leaves = jax.tree_util.tree_leaves(g)
                n = jnp.sqrt(sum(jnp.vdot(l, l) for l in leaves))
                return jax.tree_util.tree_map(lambda l: l / jnp.maximum(n / 1.0, 1.0), g)  # !NM032
            gs = jax.vmap(per_example)(xb, yb)
            g = jax.tree_util.tree_map(lambda l: l.sum(0) / 128, gs)
            upd, opt_state = tx.update(g, opt_state, params)
            return optax.apply_updates(params, upd), opt_state
        """,
    "single records, added up in lists": """
        # DP-SGD
        import torch
        def train(model, loader, opt, C, z, lot):
            for xb, yb in loader:
                acc = [torch.zeros_like(p) for p in model.parameters()]
                for x, y in zip(xb, yb):
                    opt.zero_grad()
                    loss_fn(model(x.unsqueeze(0)), y.unsqueeze(0)).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), C)
                    acc = [a + p.grad for a, p in zip(acc, model.parameters())]
                for p, a in zip(model.parameters(), acc):
                    p.grad = (a + z * C * torch.randn_like(a)) / lot
                opt.step()
        """,
    "single records, by the numbers that were drawn": """
        # DP-SGD
        import torch
        def train(model, X, Y, opt, C, z, lot, rate, T):
            for t in range(T):
                picked = (torch.rand(len(X)) < rate).nonzero().flatten().tolist()
                acc = [torch.zeros_like(p) for p in model.parameters()]
                for k in picked:
                    opt.zero_grad()
                    loss_fn(model(X[k:k+1]), Y[k:k+1]).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), C)
                    for a, p in zip(acc, model.parameters()):
                        a.add_(p.grad)
                for p, a in zip(model.parameters(), acc):
                    p.grad = (a + z * C * torch.randn_like(a)) / lot
                opt.step()
        """,
    "single records, by a function": """
        # DP-SGD
        import torch
        def record_gradient(model, x, y, C):
            model.zero_grad()
            loss_fn(model(x), y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), C)
            return [p.grad.clone() for p in model.parameters()]
        def train(model, X, Y, opt, C, z, lot, T):
            for t in range(T):
                total = None
                for i in range(len(X)):
                    g = record_gradient(model, X[i:i+1], Y[i:i+1], C)
                    total = g if total is None else [a + b for a, b in zip(total, g)]
                for p, a in zip(model.parameters(), total):
                    p.grad = (a + z * C * torch.randn_like(a)) / lot
                opt.step()
        """,
    "single records, by a function in a list": """
        # DP-SGD
        import torch
        def grad_one(model, x, y, C):
            model.zero_grad()
            loss_fn(model(x), y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), C)
            return [p.grad.clone() for p in model.parameters()]
        def train(model, xb, yb, opt, C, z, lot):
            gs = [grad_one(model, a[None], b[None], C) for a, b in zip(xb, yb)]
            for p, several in zip(model.parameters(), zip(*gs)):
                s = torch.stack(several).sum(0)
                p.grad = (s + z * C * torch.randn_like(s)) / lot
            opt.step()
        """,
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_steps(name: str) -> None:
    found, marked = both(SCRIPTS[name])
    assert found == marked
