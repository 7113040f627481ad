"""Steps of DP-SGD whose noise, or what comes beside the release, is wrong in one way; a part of `planted_steps`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from planted import Array, Generator, flat, poisson

Step = Callable[..., Any]


def drawn(gradients: Array, generator: Generator, rate: float, bound: float) -> Array:
    """The clipped gradients of a Poisson batch."""
    return flat(gradients, bound)[poisson(len(gradients), rate, generator)]


def step(change: Callable[..., Any]) -> Callable[[], Step]:
    """A step that hands the clipped batch, one fresh normal number for each coordinate and sigma C to `change`."""

    def made() -> Step:
        def release(
            gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
        ) -> Any:
            batch = drawn(gradients, generator, sample_rate, max_grad_norm)
            noise = generator.standard_normal(gradients.shape[1])
            return change(batch, noise, noise_multiplier * max_grad_norm)

        return release

    return made


# --- noise of another law or precision -----------------------------------------------------------------------------------


def in_half(batch: Array, noise: Array, scale: float) -> Array:
    return (batch.sum(axis=0) + scale * noise.astype(np.float16).astype(np.float64)) / 7.0


def in_bfloat(batch: Array, noise: Array, scale: float) -> Array:
    """Eight bits of mantissa: a float32 whose lower half is cut off."""
    cut = (noise.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return (batch.sum(axis=0) + scale * cut.astype(np.float64)) / 7.0


def two_decimals(batch: Array, noise: Array, scale: float) -> Array:
    return (batch.sum(axis=0) + scale * np.round(noise, 2)) / 7.0


def released_in_half(batch: Array, noise: Array, scale: float) -> Array:
    return ((batch.sum(axis=0) + scale * noise) / 7.0).astype(np.float16)


def where_nonzero(batch: Array, noise: Array, scale: float) -> Array:
    total = batch.sum(axis=0)
    return (total + scale * noise * (total != 0.0)) / 7.0


def per_record(batch: Array, noise: Array, scale: float) -> Array:
    """One noise for every record, before the sum."""
    generator = np.random.default_rng(np.abs(noise * 1e12).astype(np.int64).tolist()[:4])
    return (batch + scale * generator.standard_normal(batch.shape)).sum(axis=0) / 7.0


def growing_with_the_batch(batch: Array, noise: Array, scale: float) -> Array:
    return (batch.sum(axis=0) + scale * math.sqrt(max(len(batch), 1)) * noise) / 7.0


def by_the_longest(
    gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
) -> Array:
    """Noise for the longest gradient that is there instead of for the bound."""
    batch = drawn(gradients, generator, sample_rate, max_grad_norm)
    longest = float(np.linalg.norm(batch, axis=1).max(initial=0.0))
    return (batch.sum(axis=0) + noise_multiplier * longest * generator.standard_normal(gradients.shape[1])) / 7.0


def student(generator: Generator, wide: int, _: Array) -> Array:
    return generator.standard_t(6, wide) * math.sqrt(4.0 / 6.0)


def triangular(generator: Generator, wide: int, _: Array) -> Array:
    return generator.triangular(-1.0, 0.0, 1.0, wide) * math.sqrt(6.0)


def sum_of_three_uniform(generator: Generator, wide: int, _: Array) -> Array:
    return 2.0 * (generator.random((3, wide)) - 0.5).sum(axis=0)


class Once:
    """One noise for each length, drawn in the first round."""

    def __init__(self) -> None:
        self.kept: dict[int, Array] = {}

    def __call__(self, generator: Generator, wide: int, _: Array) -> Array:
        return self.kept.setdefault(wide, generator.standard_normal(wide))


class Turned(Once):
    """The last noise, turned by one place; drawn anew in every tenth round."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0

    def __call__(self, generator: Generator, wide: int, _: Array) -> Array:
        self.rounds += 1
        fresh = self.rounds % 10 == 1 or wide not in self.kept
        self.kept[wide] = generator.standard_normal(wide) if fresh else np.roll(self.kept[wide], 1)
        return self.kept[wide]


class Shuffled(Once):
    """The last noise in another order; drawn anew in every second round."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0

    def __call__(self, generator: Generator, wide: int, _: Array) -> Array:
        self.rounds += 1
        if self.rounds % 2 == 1 or wide not in self.kept:
            self.kept[wide] = generator.standard_normal(wide)
        return generator.permutation(self.kept[wide])


class Pool:
    """A hundred thousand numbers drawn once, of which each noise is picked."""

    def __init__(self) -> None:
        self.numbers = np.random.default_rng(5).standard_normal(100_000)

    def __call__(self, generator: Generator, wide: int, _: Array) -> Array:
        return generator.choice(self.numbers, wide)


class Opposed(Once):
    """Every second noise is the last one with another sign, so that they cancel."""

    def __call__(self, generator: Generator, wide: int, _: Array) -> Array:
        if wide in self.kept:
            return -self.kept.pop(wide)
        return self.kept.setdefault(wide, generator.standard_normal(wide))


def torch_seeded(generator: Generator, wide: int, _: Array) -> Array:
    import torch

    torch.manual_seed(42)
    return torch.randn(wide).numpy().astype(np.float64)


# --- beside the gradient -------------------------------------------------------------------------------------------------


def size_beside(batch: Array, noise: Array, scale: float) -> Array:
    return np.append((batch.sum(axis=0) + scale * noise) / 7.0, len(batch))


def size_in_a_pair(batch: Array, noise: Array, scale: float) -> tuple[Array, int]:
    return (batch.sum(axis=0) + scale * noise) / 7.0, len(batch)


def size_in_a_dictionary(batch: Array, noise: Array, scale: float) -> dict[str, Any]:
    return {"batch_size": len(batch), "gradient": (batch.sum(axis=0) + scale * noise) / 7.0}


def loss_beside(batch: Array, noise: Array, scale: float) -> tuple[Array, float]:
    """Something of every record, without noise."""
    return (batch.sum(axis=0) + scale * noise) / 7.0, float((batch**2).mean()) if len(batch) else 0.0


def share_clipped_beside(
    gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
) -> dict[str, Any]:
    batch = gradients[poisson(len(gradients), sample_rate, generator)]
    noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
    lengths = np.linalg.norm(batch, axis=1)
    return {
        "update": (flat(batch, max_grad_norm).sum(axis=0) + noise) / 7.0,
        "clipped": float((lengths > max_grad_norm).mean()) if len(batch) else 0.0,
    }


def constant_beside(batch: Array, noise: Array, scale: float) -> tuple[Array, float]:
    """A learning rate, the same whatever is in the batch."""
    return (batch.sum(axis=0) + scale * noise) / 7.0, 0.1


def constant_at_the_end(batch: Array, noise: Array, scale: float) -> Array:
    return np.append((batch.sum(axis=0) + scale * noise) / 7.0, 7.0)


def layers(batch: Array, noise: Array, scale: float) -> dict[str, Array]:
    """A release in two parts, as models have their parameters."""
    found = (batch.sum(axis=0) + scale * noise) / 7.0
    return {"weight": found[:-3], "bias": found[-3:]}


def one_row(batch: Array, noise: Array, scale: float) -> Array:
    return ((batch.sum(axis=0) + scale * noise) / 7.0)[None, :]


def noise_beside(batch: Array, noise: Array, scale: float) -> tuple[Array, Array]:
    return (batch.sum(axis=0) + scale * noise) / 7.0, noise
