"""Norms, bounds, sizes and what is given back in steps of one's own: every fault beside its right twin."""

from __future__ import annotations

import pytest

from lint_scripts import both, sides

PAIRS = {
    "numpy: the largest coordinate": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = {-np.abs(batch).max(axis=1, keepdims=True)-|+np.linalg.norm(batch, axis=1, keepdims=True)+}
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))  {-# !NM042-|++}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: ord=inf": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            norms = torch.linalg.vector_norm(batch, {-ord=float("inf")-|+ord=2+}, dim=1)
            clipped = batch * (max_grad_norm / norms.clamp(min=1e-9)).clamp(max=1.0)[:, None]  {-# !NM042-|++}
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return (clipped.sum(0) + noise) / 64.0
        """,
    "torch: the sum of absolute values": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            norms = batch.norm({-p=1-|+p=2+}, dim=1, keepdim=True)
            clipped = batch * (max_grad_norm / norms.clamp(min=1e-9)).clamp(max=1.0)  {-# !NM042-|++}
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return (clipped.sum(0) + noise) / 64.0
        """,
    "numpy: coordinates are clipped": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {-clipped = np.clip(batch, -max_grad_norm, max_grad_norm)  # !NM042-|+clipped = batch * np.clip(max_grad_norm / np.linalg.norm(batch, axis=1, keepdims=True), 0.0, 1.0)+}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: coordinates are clamped": """
        import torch

        def aggregate(per_sample_grads, noise_multiplier, max_grad_norm, lot_size):
            {-clipped = per_sample_grads.clamp(-max_grad_norm, max_grad_norm)  # !NM042-|+clipped = per_sample_grads * (max_grad_norm / per_sample_grads.norm(dim=1, keepdim=True)).clamp(0.0, 1.0)+}
            total = clipped.sum(dim=0)
            return (total + torch.normal(0.0, noise_multiplier * max_grad_norm, total.shape)) / lot_size
        """,
    "numpy: squares without a root": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = {-(batch**2).sum(axis=1)-|+np.sqrt((batch**2).sum(axis=1))+}
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))[:, None]  {-# !NM042-|++}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "numpy: the norm along the records": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis={-0-|+1+}, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))  {-# !NM043-|++}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: one norm for all rows": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            norms = batch.norm({--|+dim=1, keepdim=True+})
            clipped = batch * torch.clamp(max_grad_norm / (norms + 1e-9), max=1.0)  {-# !NM043-|++}
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return (clipped.sum(0) + noise) / 64.0
        """,
    "numpy: the larger of the two": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.{-maximum-|+minimum+}(1.0, max_grad_norm / np.maximum(norms, 1e-12))  {-# !NM045-|++}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: clamped from below": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            factor = (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp({-min-|+max+}=1.0)
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return ((batch * factor).sum(0) + noise) / 64.0  {-# !NM045-|++}
        """,
    "numpy: divided by the smaller": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1)
            clipped = batch / np.{-minimum-|+maximum+}(1.0, norms / max_grad_norm)[:, None]  {-# !NM045-|++}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "numpy: the longer ones are left": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1)
            factors = np.where(norms {-<-|+>+} max_grad_norm, max_grad_norm / norms, 1.0)
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return ((batch * factors[:, None]).sum(axis=0) + noise) / 64.0  {-# !NM045-|++}
        """,
    "numpy: zeros for an empty batch": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {-if len(batch) == 0:  # !NM036
                return np.zeros(gradients.shape[1])-|++}
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: nothing for an empty batch": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = torch.rand(len(gradients), generator=generator) < sample_rate
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            if not mask.any():  {-# !NM036-|++}
                return {-torch.zeros_like(gradients[0])-|+noise / 64.0+}
            batch = gradients[mask]
            clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            return (clipped.sum(0) + noise) / 64.0
        """,
    "torch: noise only where somebody was drawn": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = torch.rand(len(gradients), generator=generator) < sample_rate
            total = torch.zeros(gradients.shape[1])
            {-if mask.sum() > 0:  # !NM036
                batch = gradients[mask]
                clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
                total = clipped.sum(0)
                total = total + noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)-|+if mask.sum() > 0:
                batch = gradients[mask]
                clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
                total = clipped.sum(0)
            total = total + noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)+}
            return total / 64.0
        """,
    "numpy: drawn again until somebody is there": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            chosen = np.flatnonzero(generator.random(len(gradients)) < sample_rate)
            {-while len(chosen) == 0:  # !NM036
                chosen = np.flatnonzero(generator.random(len(gradients)) < sample_rate)-|++}
            batch = gradients[chosen]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "numpy: uniform noise": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            sigma = noise_multiplier * max_grad_norm
            noise = {-generator.uniform(-np.sqrt(3) * sigma, np.sqrt(3) * sigma, gradients.shape[1])-|+generator.normal(0.0, sigma, gradients.shape[1])+}
            return (clipped.sum(axis=0) + noise) / 64.0  {-# !NM046-|++}
        """,
    "torch: uniform noise around nought": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            total = clipped.sum(0)
            unit = {-3**0.5 * (2 * torch.rand(total.shape, generator=generator) - 1)-|+torch.randn(total.shape, generator=generator)+}
            return (total + noise_multiplier * max_grad_norm * unit) / 64.0  {-# !NM046-|++}
        """,
    "numpy: Laplace noise for a Euclidean bound": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = generator.{-laplace-|+normal+}(0.0, noise_multiplier * max_grad_norm, gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0  {-# !NM046-|++}
        """,
    "torch: the tails are cut off": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            noise = torch.randn(gradients.shape[1], generator=generator){-.clamp(-3.0, 3.0)-|++}
            return (clipped.sum(0) + noise_multiplier * max_grad_norm * noise) / 64.0  {-# !NM046-|++}
        """,
    "numpy: the size of the batch is returned": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0{-, len(batch)  # !NM047-|+, gradients.shape[1]+}
        """,
    "numpy: the size is put beside it": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            keep = generator.random(len(gradients)) < sample_rate
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            clipped = gradients * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            noisy = (clipped[keep].sum(axis=0) + noise) / 64.0
            return {-np.append(noisy, keep.sum())  # !NM047-|+np.append(noisy, 1.0)+}
        """,
    "torch: a share of clipped records is returned": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            norms = batch.norm(dim=1, keepdim=True)
            clipped = batch * (max_grad_norm / norms.clamp(min=1e-9)).clamp(max=1.0)
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            noisy = (clipped.sum(0) + noise) / 64.0
            return {"gradient": noisy, {-"clipped": (norms > max_grad_norm).float().mean()-|+"norm": noisy.norm()+}}  {-# !NM047-|++}
        """,
    "torch: the size is logged": """
        import logging

        import torch

        log = logging.getLogger(__name__)

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            {-log.info("batch of %d", len(batch))  # !NM047-|+log.info("expected batch of %d", 64)+}
            return (clipped.sum(0) + noise) / 64.0
        """,
    "numpy: noise for each record": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            {-noisy = clipped + noise_multiplier * max_grad_norm * generator.standard_normal(clipped.shape)  # !NM048
            return noisy.sum(axis=0) / 64.0-|+noisy = clipped.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(clipped.shape[1])
            return noisy / 64.0+}
        """,
    "torch loop: noise for each record": """
        import torch

        def train(model, batches, optimizer, noise_multiplier, max_grad_norm, lot_size):
            for xs, ys in batches:
                sums = [torch.zeros_like(p) for p in model.parameters()]
                for x, y in zip(xs, ys):
                    model.zero_grad()
                    torch.nn.functional.cross_entropy(model(x[None]), y[None]).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
                    for total, p in zip(sums, model.parameters()):
                        total += p.grad{- + noise_multiplier * max_grad_norm * torch.randn_like(p)  # !NM048-|++}
                for p, total in zip(model.parameters(), sums):
                    p.grad = {-total-|+(total + noise_multiplier * max_grad_norm * torch.randn_like(p))+} / lot_size
                optimizer.step()
        """,
    "numpy: noise, then clipping": """
        import numpy as np

        def clip(rows, bound):
            return rows * np.minimum(1.0, bound / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))  {-# !NM049-|++}

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {-noisy = batch + noise_multiplier * max_grad_norm * generator.standard_normal(batch.shape)
            return clip(noisy, max_grad_norm).sum(axis=0) / 64.0-|+noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clip(batch, max_grad_norm).sum(axis=0) + noise) / 64.0+}
        """,
    "torch: noise, then the norm": """
        import torch

        def private_step(model, optimizer, noise_multiplier, max_grad_norm):
            for p in model.parameters():
                p.grad_sample = p.grad_sample{- + noise_multiplier * max_grad_norm * torch.randn_like(p.grad_sample)-|++}
            norms = torch.stack([p.grad_sample.flatten(1).norm(dim=1) for p in model.parameters()]).norm(dim=0)
            factor = (max_grad_norm / (norms + 1e-6)).clamp(max=1.0)
            for p in model.parameters():
                p.grad = torch.einsum("n,n...->...", factor, p.grad_sample){-  # !NM049-|+ + noise_multiplier * max_grad_norm * torch.randn_like(p)+}
                p.grad /= 256
            optimizer.step()
        """,
    "torch: noise in every tenth step": """
        import torch

        def train(model, per_sample_gradients, batches, lr, noise_multiplier, max_grad_norm):
            for t, batch in enumerate(batches):
                g = per_sample_gradients(model, batch)
                update = (g * (max_grad_norm / g.norm(dim=1, keepdim=True)).clamp(max=1.0)).sum(0)
                {-if t % 10 == 0:  # !NM051
                    update = update + noise_multiplier * max_grad_norm * torch.randn_like(update)-|+update = update + noise_multiplier * max_grad_norm * torch.randn_like(update)+}
                model.weights -= lr * update / 64
        """,
    "numpy: noise where the counter says so": """
        import numpy as np

        class Step:
            def __init__(self):
                self.count = 0

            def __call__(self, gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
                self.count += 1
                batch = gradients[generator.random(len(gradients)) < sample_rate]
                norms = np.linalg.norm(batch, axis=1, keepdims=True)
                total = (batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))).sum(axis=0)
                noise = generator.standard_normal(len(total)){- if self.count % 2 else np.zeros(len(total))  # !NM051-|++}
                return (total + noise_multiplier * max_grad_norm * noise) / 64.0
        """,
    "numpy: the median of the norms": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            bound = {-np.median(norms)-|+max_grad_norm+}
            clipped = batch * np.minimum(1.0, bound / np.maximum(norms, 1e-12))  {-# !NM052-|++}
            noise = noise_multiplier * bound * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: a quantile of the norms": """
        import torch

        class Adaptive:
            def __init__(self, noise_multiplier, max_grad_norm, lot_size):
                self.noise_multiplier, self.bound, self.lot_size = noise_multiplier, max_grad_norm, lot_size

            def step(self, per_sample_grads):
                norms = per_sample_grads.flatten(1).norm(dim=1)
                {-self.bound = torch.quantile(norms, 0.5).item()-|+below = (norms <= self.bound).float().sum() + 5.0 * torch.randn(())
                self.bound *= torch.exp(-0.2 * (below / self.lot_size - 0.5)).item()+}
                total = ((self.bound / (norms + 1e-6)).clamp(max=1.0)[:, None] * per_sample_grads.flatten(1)).sum(0)  {-# !NM052-|++}
                return (total + self.noise_multiplier * self.bound * torch.randn_like(total)) / self.lot_size
        """,
    "numpy: gradients are centred by the batch": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {-batch = batch - batch.mean(axis=0)  # !NM053-|++}
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: gradients are standardised by the batch": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[torch.rand(len(gradients), generator=generator) < sample_rate]
            {-scale = batch.std(dim=0, keepdim=True) + 1e-6
            batch = batch / scale  # !NM053-|++}
            clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return (clipped.sum(0) + noise) / 64.0
        """,
    "numpy: a mean loss before clipping": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {-batch = batch / max(len(batch), 1)  # !NM021-|++}
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "numpy: the step follows the size of the batch": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            lr = 0.1 * {-len(batch)-|+60+} / 64.0
            return lr * (clipped.sum(axis=0) + noise)  {-# !NM027-|++}
        """,
    "torch: noise that grows with the batch": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            mask = torch.rand(len(gradients), generator=generator) < sample_rate
            clipped = gradients * (max_grad_norm / gradients.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            {-noise = noise * mask.sum().sqrt()-|++}
            return (clipped[mask].sum(0) + noise) / 64.0  {-# !NM027-|++}
        """,
    "numpy: a linear scaling rule": """
        import numpy as np

        def train(weights, batches, gradients_of, lr, noise_multiplier, max_grad_norm, rng):
            for x, y in batches:
                g = gradients_of(weights, x, y)
                g = g / np.maximum(1.0, np.linalg.norm(g, axis=1, keepdims=True) / max_grad_norm)
                noisy = (g.sum(axis=0) + noise_multiplier * max_grad_norm * rng.standard_normal(weights.shape)) / 256
                eta = lr{- * np.sqrt(len(x) / 256)-|++}
                weights = weights - eta * noisy  {-# !NM027-|++}
            return weights
        """,
    "numpy: over the batch": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / {-max(len(batch), 1)  # !NM021-|+64.0+}
        """,
    "torch: over the expected size": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            keep = torch.rand(len(gradients), generator=generator) < sample_rate
            clipped = gradients * (max_grad_norm / gradients.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return (clipped[keep].sum(0) + noise) / {-(len(gradients) * sample_rate)  # !NM022-|+64.0+}
        """,
    "numpy: over a whole number of it": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            n, d = gradients.shape
            batch = gradients[generator.random(n) < sample_rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            expected = {-max(int(n * sample_rate), 1)-|+64+}
            return (clipped.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(d)) / expected  {-# !NM023-|++}
        """,
    "torch: noise twice over the batch": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm, batch_size=64):
            keep = torch.rand(len(gradients), generator=generator) < sample_rate
            clipped = gradients * (max_grad_norm / gradients.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            noise = noise_multiplier * max_grad_norm{- / batch_size-|++} * torch.randn(gradients.shape[1], generator=generator)
            return (clipped[keep].sum(0) + noise) / batch_size  {-# !NM025-|++}
        """,
    "numpy: drawn with replacement": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            n = len(gradients)
            chosen = {-generator.choice(n, size=int(n * sample_rate))  # !NM008-|+np.flatnonzero(generator.random(n) < sample_rate)+}
            batch = gradients[chosen]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (clipped.sum(axis=0) + noise) / 64.0
        """,
    "torch: the first of a permutation": """
        import torch

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            n = len(gradients)
            {-size = round(n * sample_rate)
            chosen = torch.randperm(n, generator=generator)[:size]  # !NM008-|+chosen = torch.rand(n, generator=generator) < sample_rate+}
            batch = gradients[chosen]
            clipped = batch * (max_grad_norm / batch.norm(dim=1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
            noise = noise_multiplier * max_grad_norm * torch.randn(gradients.shape[1], generator=generator)
            return (clipped.sum(0) + noise) / 64.0
        """,
    "numpy: nothing is clipped": """
        import numpy as np

        def step(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < sample_rate]
            {--|+batch = batch / np.maximum(1.0, np.linalg.norm(batch, axis=1, keepdims=True) / max_grad_norm)+}
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return (batch.sum(axis=0) + noise) / 64.0  {-# !NM031-|++}
        """,
    "numpy: stops when norms are short": """
        import numpy as np

        def train(weights, batches, per_example_gradients, lr, noise_multiplier, max_grad_norm, rng):
            for x, y in batches:
                g = per_example_gradients(weights, x, y)
                norms = np.linalg.norm(g, axis=1, keepdims=True)
                clipped = g * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
                noise = noise_multiplier * max_grad_norm * rng.standard_normal(weights.shape)
                update = (clipped.sum(axis=0) + noise) / 256
                weights = weights - lr * update
                if {-norms.mean()-|+np.linalg.norm(update)+} < 1e-3:  {-# !NM054-|++}
                    break
            return weights
        """,
    "torch: stops when the sum is short": """
        import torch

        def train(weights, batches, gradients_of, lr, noise_multiplier, max_grad_norm):
            for batch in batches:
                g = gradients_of(weights, batch)
                total = (g * (max_grad_norm / g.norm(dim=1, keepdim=True)).clamp(max=1.0)).sum(0)
                noisy = (total + noise_multiplier * max_grad_norm * torch.randn_like(total)) / 64
                if {-total-|+noisy+}.norm() < 0.01:  {-# !NM054-|++}
                    break
                weights = weights - lr * noisy
            return weights
        """,
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_is_found_and_its_right_twin_is_not(name: str) -> None:
    wrong, right = sides(PAIRS[name])
    found, marked = both(wrong)
    assert marked
    assert found == marked
    assert both(right) == ([], [])
