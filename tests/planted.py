"""Implementations of DP-SGD that are wrong in one way each, and correct ones that look unusual: what the prober must not mix up.

Every function is one round on per-record gradients, as `noisymean probe FILE.py:NAME` takes it. `Round` is the correct one in
parts; a bug replaces one part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Generator = np.random.Generator


def flat(gradients: Array, bound: float) -> Array:
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * np.minimum(1.0, bound / lengths)


def poisson(count: int, rate: float, generator: Generator) -> Array:
    return np.flatnonzero(generator.random(count) < rate)


def normal(generator: Generator, wide: int, _: Array) -> Array:
    return generator.standard_normal(wide)


def seven(size: int, count: int, rate: float) -> float:
    return 7.0


@dataclass
class Round:
    """(sum of the clipped batch + sigma C xi) / c, times a step."""

    clip: Callable[[Array, float], Array] = flat
    draw: Callable[[int, float, Generator], Array] = poisson
    noise: Callable[[Generator, int, Array], Array] = normal
    scale: Callable[[float, float], float] = lambda sigma, bound: sigma * bound
    divisor: Callable[[int, int, float], float] = seven
    noise_divisor: Callable[[int, int, float], float] | None = None
    step: float = 1.0

    def __call__(
        self,
        gradients: Array,
        generator: Generator,
        *,
        sample_rate: float,
        noise_multiplier: float,
        max_grad_norm: float,
    ) -> Array:
        count, wide = gradients.shape
        batch = self.draw(count, sample_rate, generator)
        clipped = self.clip(gradients, max_grad_norm)[batch] if self.clip is not None else gradients[batch]
        noise = self.scale(noise_multiplier, max_grad_norm) * self.noise(generator, wide, batch)
        by = self.divisor(len(batch), count, sample_rate)
        other = by if self.noise_divisor is None else self.noise_divisor(len(batch), count, sample_rate)
        return self.step * (clipped.sum(axis=0) / by + noise / other)


def size_of_batch(size: int, count: int, rate: float) -> float:
    return float(max(size, 1))


# --- clipping ------------------------------------------------------------------------------------------------------------


def by_value(gradients: Array, bound: float) -> Array:
    return np.clip(gradients, -bound, bound)


def by_layer(shares: tuple[float, ...]) -> Callable[[Array, float], Array]:
    """Blocks of columns, each clipped to its share of the bound."""

    def clip(gradients: Array, bound: float) -> Array:
        blocks = np.array_split(gradients, len(shares), axis=1)
        parts = []
        for block, share in zip(blocks, shares, strict=True):
            lengths = np.maximum(np.linalg.norm(block, axis=1, keepdims=True), 1e-300)
            parts.append(block * np.minimum(1.0, share * bound / lengths))
        return np.concatenate(parts, axis=1)

    return clip


def last_layer_left_out(gradients: Array, bound: float) -> Array:
    """The norm is taken over the first three quarters of the columns."""
    part = gradients[:, : gradients.shape[1] * 3 // 4]
    lengths = np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-300)
    return gradients * np.minimum(1.0, bound / lengths)


def not_at_all(gradients: Array, bound: float) -> Array:
    return gradients


def to_a_constant(gradients: Array, bound: float) -> Array:
    return flat(gradients, 1.0)


def by_maximum(gradients: Array, bound: float) -> Array:
    """The largest coordinate instead of the norm."""
    lengths = np.maximum(np.abs(gradients).max(axis=1, keepdims=True), 1e-300)
    return gradients * np.minimum(1.0, bound / lengths)


def automatic(gradients: Array, bound: float) -> Array:
    """Always scaled to a length just below the bound, whatever the length was: sound."""
    return gradients * bound / (np.linalg.norm(gradients, axis=1, keepdims=True) + 1e-2)


def mean_first(
    gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
) -> Array:
    """The gradient of the mean loss, clipped as if it were one record's."""
    count, wide = gradients.shape
    batch = gradients[poisson(count, sample_rate, generator)]
    mean = batch.mean(axis=0) if len(batch) else np.zeros(wide)
    clipped = mean * min(1.0, max_grad_norm / max(float(np.linalg.norm(mean)), 1e-300))
    return clipped + noise_multiplier * max_grad_norm * generator.standard_normal(wide) / (count * sample_rate)


def gradients_of_the_mean(
    gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
) -> Array:
    """Per-record gradients of the mean loss, a |B|-th of their own each, clipped then."""
    count, wide = gradients.shape
    batch = gradients[poisson(count, sample_rate, generator)]
    clipped = flat(batch / max(len(batch), 1), max_grad_norm)
    return clipped.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(wide)


def over_the_records(gradients: Array, bound: float) -> Array:
    """Divided by N before clipping: one record more changes what all others add."""
    return flat(gradients / len(gradients), bound)


# --- noise ---------------------------------------------------------------------------------------------------------------


def constant_seed(generator: Generator, wide: int, batch: Array) -> Array:
    return np.random.default_rng(0).standard_normal(wide)


def seeded_by_the_batch(generator: Generator, wide: int, batch: Array) -> Array:
    return np.random.default_rng(len(batch)).standard_normal(wide)


@dataclass
class Counted:
    """The seed is the number of the step: another noise in each, the same in every run of the program."""

    step: int = 0

    def __call__(self, generator: Generator, wide: int, batch: Array) -> Array:
        self.step += 1
        return np.random.default_rng(self.step).standard_normal(wide)


@dataclass
class Reused:
    """Drawn once for every two steps."""

    kept: Array | None = None

    def __call__(self, generator: Generator, wide: int, batch: Array) -> Array:
        if self.kept is not None and len(self.kept) == wide:
            noise, self.kept = self.kept, None
            return noise
        self.kept = generator.standard_normal(wide)
        return self.kept


@dataclass
class Remembered:
    """A tenth of the last noise comes again."""

    last: Array | None = None

    def __call__(self, generator: Generator, wide: int, batch: Array) -> Array:
        fresh = generator.standard_normal(wide)
        before = self.last if self.last is not None and len(self.last) == wide else generator.standard_normal(wide)
        self.last = fresh
        return math.sqrt(0.99) * fresh + 0.1 * before


def one_number(generator: Generator, wide: int, batch: Array) -> Array:
    return np.full(wide, generator.standard_normal())


def half_the_axes(generator: Generator, wide: int, batch: Array) -> Array:
    noise = generator.standard_normal(wide)
    noise[: wide // 2] *= math.sqrt(2.0)
    noise[wide // 2 :] = 0.0
    return noise


def tiled(generator: Generator, wide: int, batch: Array) -> Array:
    return np.resize(generator.standard_normal(wide // 2), wide)


def uniform(generator: Generator, wide: int, batch: Array) -> Array:
    return math.sqrt(3.0) * generator.uniform(-1.0, 1.0, wide)


def laplace(generator: Generator, wide: int, batch: Array) -> Array:
    return generator.laplace(scale=math.sqrt(0.5), size=wide)


def truncated(generator: Generator, wide: int, batch: Array) -> Array:
    return np.clip(generator.standard_normal(wide), -2.5, 2.5)


# --- sampling ------------------------------------------------------------------------------------------------------------


def twice(count: int, rate: float, generator: Generator) -> Array:
    """Two draws, one after the other: a record may be in both."""
    return np.concatenate([poisson(count, rate, generator), poisson(count, rate, generator)])


def with_replacement(count: int, rate: float, generator: Generator) -> Array:
    return generator.integers(0, count, generator.binomial(count, rate))


def double_rate(count: int, rate: float, generator: Generator) -> Array:
    return poisson(count, min(1.0, 1.05 * rate), generator)


def rounded_up(count: int, rate: float, generator: Generator) -> Array:
    """ceil(N q) / N: close to q, but it follows N."""
    return poisson(count, math.ceil(count * rate) / count, generator)


def one_more(count: int, rate: float, generator: Generator) -> Array:
    return poisson(count, rate * count / (count + 1), generator)


def fixed_size(count: int, rate: float, generator: Generator) -> Array:
    return generator.permutation(count)[: round(count * rate)]


def first_records_first(count: int, rate: float, generator: Generator) -> Array:
    """The mean is right, the records' rates are not."""
    rates = np.full(count, rate)
    if count > 1 and rate < 1.0:
        rates[0], rates[-1] = 1.5 * rate if 1.5 * rate <= 1.0 else 1.0, max(0.0, 2.0 * rate - min(1.0, 1.5 * rate))
    return np.flatnonzero(generator.random(count) < rates)


def cut_off(count: int, rate: float, generator: Generator) -> Array:
    """No batch of more than one and a half times the expected size."""
    return poisson(count, rate, generator)[: math.ceil(1.5 * count * rate)]


@dataclass
class Kept:
    """The batch of every second round is that of the one before."""

    last: Array | None = None
    size: int = 0

    def __call__(self, count: int, rate: float, generator: Generator) -> Array:
        if self.last is not None and self.size == count:
            batch, self.last = self.last, None
            return batch
        self.last, self.size = poisson(count, rate, generator), count
        return self.last


# --- the empty batch -----------------------------------------------------------------------------------------------------


def silent_when_empty(
    gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
) -> Array:
    count, wide = gradients.shape
    batch = flat(gradients, max_grad_norm)[poisson(count, sample_rate, generator)]
    if not len(batch):
        return np.zeros(wide)
    return (batch.sum(axis=0) + noise_multiplier * max_grad_norm * generator.standard_normal(wide)) / 7.0


def louder_when_empty(
    gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
) -> Array:
    count, wide = gradients.shape
    batch = flat(gradients, max_grad_norm)[poisson(count, sample_rate, generator)]
    noise = noise_multiplier * max_grad_norm * generator.standard_normal(wide)
    return (batch.sum(axis=0) + noise) / (7.0 if len(batch) else 1.0)


def drawn_again_when_empty(count: int, rate: float, generator: Generator) -> Array:
    while True:
        batch = poisson(count, rate, generator)
        if len(batch):
            return batch


# What each is, and a word that the remarks must have. Functions with a state are made anew for each probe.
BUGS: dict[str, tuple[Callable[[], Callable[..., Array]], str]] = {
    "clipping by value": (lambda: Round(clip=by_value), "moves the clipped sum by"),
    "clipping by the largest coordinate": (lambda: Round(clip=by_maximum), "moves the clipped sum by"),
    "two layers, the full bound each": (lambda: Round(clip=by_layer((1.0, 1.0))), "moves the clipped sum by"),
    "seven layers, the full bound each": (lambda: Round(clip=by_layer((1.0,) * 7)), "moves the clipped sum by"),
    "the last layer left out of the norm": (lambda: Round(clip=last_layer_left_out), "moves the clipped sum by"),
    "no clipping": (lambda: Round(clip=not_at_all), "gradients are not clipped"),
    "the mean loss before clipping": (lambda: mean_first, "moves the clipped sum by"),
    "gradients of the mean loss": (lambda: gradients_of_the_mean, "before clipping"),
    "gradients over N": (lambda: Round(clip=over_the_records), "before clipping"),
    "a bound that is not the one set": (lambda: Round(clip=to_a_constant), "the noise is not sigma C"),
    "no noise": (lambda: Round(scale=lambda sigma, bound: 0.0), "no noise is added"),
    "noise that ignores C": (lambda: Round(scale=lambda sigma, bound: sigma), "the noise is not sigma C"),
    "noise that ignores sigma": (
        lambda: Round(scale=lambda sigma, bound: bound * min(sigma, 1.0)),
        "the noise is not sigma C",
    ),
    "noise over C": (lambda: Round(scale=lambda sigma, bound: sigma / bound), "the noise is not sigma C"),
    "nine tenths of the noise": (
        lambda: Round(scale=lambda sigma, bound: 0.9 * sigma * bound),
        "times what was asked for",
    ),
    "a constant seed": (lambda: Round(noise=constant_seed), "noise is used again"),
    "the size of the batch as a seed": (lambda: Round(noise=seeded_by_the_batch), "noise is used again"),
    "the step as a seed": (lambda: Round(noise=Counted()), "not come from the generator"),
    "noise for two steps": (lambda: Round(noise=Reused()), "noise is used again"),
    "a tenth of the last noise": (lambda: Round(noise=Remembered()), "depends on that of 1 round before"),
    "one number for all axes": (lambda: Round(noise=one_number), "depends on that of others"),
    "noise on half the axes": (lambda: Round(noise=half_the_axes), "noise"),
    "the same noise twice": (lambda: Round(noise=tiled), "depends on that of others"),
    "uniform noise": (lambda: Round(noise=uniform), "not normal"),
    "Laplace noise": (lambda: Round(noise=laplace), "not normal"),
    "truncated noise": (lambda: Round(noise=truncated), "not"),
    "noise by |B|, the sum by a constant": (
        lambda: Round(noise_divisor=size_of_batch),
        "divided by the size of the batch",
    ),
    "noise by |B|, the sum by N q": (
        lambda: Round(divisor=lambda size, count, rate: count * rate, noise_divisor=size_of_batch),
        "divided by the size of the batch",
    ),
    "a record drawn twice": (lambda: Round(draw=twice), "drawn more than once"),
    "drawn with replacement": (lambda: Round(draw=with_replacement), "drawn more than once"),
    "five percent more": (lambda: Round(draw=double_rate), "how batches are drawn"),
    "a rate rounded up to ceil(N q) / N": (lambda: Round(draw=rounded_up), "how batches are drawn"),
    "a rate of q N / (N + 1)": (lambda: Round(draw=one_more), "how batches are drawn"),
    "batches of a fixed size": (lambda: Round(draw=fixed_size), "the same number of records"),
    "batches that are cut off": (lambda: Round(draw=cut_off), "how batches are drawn"),
    "some records more often": (lambda: Round(draw=first_records_first), "more often than others"),
    "a batch for two rounds": (lambda: Round(draw=Kept()), "depends on the one before"),
    "zeros for an empty batch": (lambda: silent_when_empty, "an empty batch releases zeros"),
    "another noise for an empty batch": (lambda: louder_when_empty, "an empty batch is a step of noise"),
    "never an empty batch": (lambda: Round(draw=drawn_again_when_empty), "no batch is ever empty"),
}

# Correct, each with the mechanism that it is.
TWINS: dict[str, tuple[Callable[..., Array], str]] = {
    "a constant": (Round(), "sgm"),
    "|B|": (Round(divisor=size_of_batch), "asgm"),
    "N q": (Round(divisor=lambda size, count, rate: count * rate), "easgm"),
    "floor(N q)": (Round(divisor=lambda size, count, rate: max(math.floor(count * rate + 1e-9), 1)), "feasgm"),
    "a minus sign": (Round(step=-1.0), "sgm"),
    "a step against the gradient": (Round(step=-0.05, divisor=size_of_batch), "asgm"),
    "two layers, their share each": (Round(clip=by_layer((math.sqrt(0.5),) * 2)), "sgm"),
    "three layers, unequal shares": (Round(clip=by_layer((0.9, 0.3, 0.3))), "sgm"),
    "clipping by scaling": (Round(clip=automatic), "sgm"),
}
