"""Whole steps of DP-SGD as people write them, each with one bug, and correct ones that look unusual.

`planted` varies the parts of one round; these have a state, several layers, other number types or more than one thing to release.
Every function is one round, as `noisymean probe FILE.py:NAME` takes it. What is a class is made anew for each probe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from planted import Array, Generator, Round, by_layer, fixed_size, flat, poisson, size_of_batch
from planted_noise import (
    Once,
    Opposed,
    Pool,
    Shuffled,
    Step,
    Turned,
    by_the_longest,
    constant_at_the_end,
    constant_beside,
    drawn,
    growing_with_the_batch,
    in_bfloat,
    in_half,
    layers,
    loss_beside,
    noise_beside,
    one_row,
    per_record,
    released_in_half,
    share_clipped_beside,
    size_beside,
    size_in_a_dictionary,
    size_in_a_pair,
    step,
    student,
    sum_of_three_uniform,
    torch_seeded,
    triangular,
    two_decimals,
    where_nonzero,
)

# --- learning rates, schedules, momentum -----------------------------------------------------------------------------------


def rate_by_the_batch(batch: Array, noise: Array, scale: float) -> Array:
    """A learning rate in proportion to the batch."""
    return 0.1 * len(batch) / 8.0 * (batch.sum(axis=0) + scale * noise) / 7.0


def rate_by_the_root(batch: Array, noise: Array, scale: float) -> Array:
    return 0.1 * math.sqrt(max(len(batch), 1)) * (batch.sum(axis=0) + scale * noise) / 7.0


def one_more_in_the_batch(batch: Array, noise: Array, scale: float) -> Array:
    return (batch.sum(axis=0) + scale * noise) / (len(batch) + 1.0)


def by_the_nonzero(batch: Array, noise: Array, scale: float) -> Array:
    """Divided by how many gradients are short."""
    short = np.linalg.norm(batch, axis=1) < 0.5 if len(batch) else np.zeros(0)
    return (batch.sum(axis=0) + scale * noise) / (1.0 + short.sum())


class Momentum:
    """v = beta v + u, released; `before`: u lacks its noise, which is added to v."""

    def __init__(self, beta: float = 0.9, *, before: bool = False, damped: bool = False) -> None:
        self.beta, self.before, self.damped = beta, before, damped
        self.kept: Array | None = None

    def __call__(
        self,
        gradients: Array,
        generator: Generator,
        *,
        sample_rate: float,
        noise_multiplier: float,
        max_grad_norm: float,
    ) -> Array:
        total = drawn(gradients, generator, sample_rate, max_grad_norm).sum(axis=0)
        noise = noise_multiplier * max_grad_norm * generator.standard_normal(len(total))
        fresh = (total if self.before else total + noise) / 7.0
        if self.kept is None or len(self.kept) != len(fresh):
            self.kept = np.zeros(len(fresh))
        self.kept = self.beta * self.kept + (1.0 - self.beta if self.damped else 1.0) * fresh
        return self.kept + noise / 7.0 if self.before else self.kept.copy()


class Decaying:
    """A learning rate of 1/sqrt(t): the same for everybody, whatever is in the batch."""

    def __init__(self) -> None:
        self.rounds = 0

    def __call__(
        self,
        gradients: Array,
        generator: Generator,
        *,
        sample_rate: float,
        noise_multiplier: float,
        max_grad_norm: float,
    ) -> Array:
        self.rounds += 1
        total = drawn(gradients, generator, sample_rate, max_grad_norm).sum(axis=0)
        noise = noise_multiplier * max_grad_norm * generator.standard_normal(len(total))
        return (total + noise) / 7.0 / math.sqrt(self.rounds)


class Adam:
    """Adam on noisy gradients: nothing but what was released goes in."""

    def __init__(self) -> None:
        self.first: Array = np.zeros(0)
        self.second: Array = np.zeros(0)

    def __call__(
        self,
        gradients: Array,
        generator: Generator,
        *,
        sample_rate: float,
        noise_multiplier: float,
        max_grad_norm: float,
    ) -> Array:
        total = drawn(gradients, generator, sample_rate, max_grad_norm).sum(axis=0)
        fresh = (total + noise_multiplier * max_grad_norm * generator.standard_normal(len(total))) / 7.0
        if len(self.first) != len(fresh):
            self.first, self.second = np.zeros(len(fresh)), np.zeros(len(fresh))
        self.first = 0.9 * self.first + 0.1 * fresh
        self.second = 0.999 * self.second + 0.001 * fresh**2
        return self.first / (np.sqrt(self.second) + 1e-8)


# --- clipping --------------------------------------------------------------------------------------------------------------


def by_square(gradients: Array, bound: float) -> Array:
    return gradients * np.minimum(1.0, bound / np.maximum((gradients**2).sum(axis=1, keepdims=True), 1e-300))


def bias_left_out(gradients: Array, bound: float) -> Array:
    clipped = flat(gradients[:, :-1], bound)
    return np.concatenate([clipped, gradients[:, -1:]], axis=1)


def bias_apart(gradients: Array, bound: float) -> Array:
    """Weights and bias, the full bound each."""
    return np.concatenate([flat(gradients[:, :-2], bound), flat(gradients[:, -2:] + 1e-300, bound)], axis=1)


def with_epsilon(gradients: Array, bound: float) -> Array:
    return gradients * np.minimum(1.0, bound / (np.linalg.norm(gradients, axis=1, keepdims=True) + 1e-6))


def by_division(gradients: Array, bound: float) -> Array:
    return gradients / np.maximum(1.0, np.linalg.norm(gradients, axis=1, keepdims=True) / bound)


def by_sum_of_sizes(gradients: Array, bound: float) -> Array:
    """The 1-norm is larger than the norm: sound."""
    return gradients * np.minimum(1.0, bound / np.maximum(np.abs(gradients).sum(axis=1, keepdims=True), 1e-300))


def by_the_longest_in_view(gradients: Array, bound: float) -> Array:
    """One factor for all, from the longest."""
    return gradients * min(1.0, bound / float(np.linalg.norm(gradients, axis=1).max(initial=1e-300)))


def on_the_batch(clip: Callable[[Array, float], Array]) -> Callable[[], Step]:
    """Clipped within the batch, where records see each other."""

    def made() -> Step:
        def release(
            gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
        ) -> Array:
            batch = gradients[poisson(len(gradients), sample_rate, generator)]
            noise = noise_multiplier * max_grad_norm * generator.standard_normal(gradients.shape[1])
            return ((clip(batch, max_grad_norm).sum(axis=0) if len(batch) else 0.0) + noise) / 7.0

        return release

    return made


def normalised(batch: Array, bound: float) -> Array:
    """Batch norm: mean and deviation of the batch go into every record."""
    return flat((batch - batch.mean(axis=0)) / (batch.std(axis=0) + 1e-5), bound)


def centred(batch: Array, bound: float) -> Array:
    return flat(batch - batch.mean(axis=0), bound)


def by_the_median(batch: Array, bound: float) -> Array:
    """The bound is the median length of the batch, where that is less."""
    return flat(batch, min(bound, float(np.median(np.linalg.norm(batch, axis=1)))))


def microbatches(batch: Array, bound: float) -> Array:
    """Four records are averaged, and the averages clipped."""
    return np.array([flat(batch[i : i + 4].mean(axis=0)[None, :], bound)[0] for i in range(0, len(batch), 4)])


def around_a_public_one(gradients: Array, bound: float) -> Array:
    """Clipped after something that everybody knows was taken away: one record moves the sum by C all the same."""
    return flat(gradients - 0.05 * np.cos(np.arange(gradients.shape[1])), bound)


def by_class(*weights: float) -> Callable[[Array, float], Array]:
    """Clipped, times a weight by what the record looks like."""

    def clip(gradients: Array, bound: float) -> Array:
        return flat(gradients, bound) * np.array(weights)[(gradients[:, 0] > 0).astype(int), None]

    return clip


def weighted(batch: Array, bound: float) -> Array:
    """Each record over the batch's mean length."""
    return flat(batch / max(float(np.linalg.norm(batch, axis=1).mean()), 1e-300) * bound, bound)


# --- sampling and empty batches -------------------------------------------------------------------------------------------


def padded(count: int, rate: float, generator: Generator) -> Array:
    """Filled up to the expected size with records that are there already, and cut to it."""
    batch = poisson(count, rate, generator)
    wanted = max(1, round(count * rate))
    return np.resize(batch, wanted) if len(batch) else batch


class Epochs:
    """Shuffled epochs, in batches of round(N q)."""

    def __init__(self) -> None:
        self.left: dict[int, list[int]] = {}

    def __call__(self, count: int, rate: float, generator: Generator) -> Array:
        left = self.left.setdefault(count, [])
        size = max(1, round(count * rate))
        if len(left) < size:
            left[:] = generator.permutation(count).tolist()
        batch, left[:] = left[:size], left[size:]
        return np.array(batch)


class Last:
    """An empty batch releases what was released before."""

    def __init__(self) -> None:
        self.last: Array = np.zeros(0)

    def __call__(
        self,
        gradients: Array,
        generator: Generator,
        *,
        sample_rate: float,
        noise_multiplier: float,
        max_grad_norm: float,
    ) -> Array:
        batch = drawn(gradients, generator, sample_rate, max_grad_norm)
        wide = gradients.shape[1]
        noise = noise_multiplier * max_grad_norm * generator.standard_normal(wide)
        if len(batch) or len(self.last) != wide:
            self.last = (batch.sum(axis=0) + noise) / 7.0
        return self.last.copy()


def nothing_when_empty(batch: Array, noise: Array, scale: float) -> Array | None:
    return (batch.sum(axis=0) + scale * noise) / 7.0 if len(batch) else None


def not_a_number_when_empty(batch: Array, noise: Array, scale: float) -> Array:
    return (batch.sum(axis=0) + scale * noise) / (np.float64(7.0) if len(batch) else np.float64(np.nan))


def raises_when_empty(batch: Array, noise: Array, scale: float) -> Array:
    if not len(batch):
        raise ValueError("need at least one array to stack")
    return (batch.sum(axis=0) + scale * noise) / 7.0


# --- correct ones ----------------------------------------------------------------------------------------------------------


def in_single(batch: Array, noise: Array, scale: float) -> Array:
    return ((batch.sum(axis=0) + scale * noise) / 7.0).astype(np.float32)


def noise_in_single(batch: Array, noise: Array, scale: float) -> Array:
    return (batch.sum(axis=0) + scale * noise.astype(np.float32)) / 7.0


def drawn_in_single(generator: Generator, wide: int, _: Array) -> Array:
    return generator.standard_normal(wide, dtype=np.float32)


def two_halves(generator: Generator, wide: int, _: Array) -> Array:
    return generator.normal(0.0, math.sqrt(0.5), wide) + generator.normal(0.0, math.sqrt(0.5), wide)


def four_quarters(generator: Generator, wide: int, _: Array) -> Array:
    return generator.standard_normal((4, wide)).sum(axis=0) / 2.0


def coordinates_shuffled(batch: Array, noise: Array, scale: float) -> Array:
    order = np.random.default_rng(batch.shape[1]).permutation(batch.shape[1])
    found = np.empty(batch.shape[1])
    found[order] = (batch[:, order].sum(axis=0) + scale * noise) / 7.0
    return found


def in_torch() -> Step:
    import torch

    def release(
        gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
    ) -> Any:
        source = torch.Generator().manual_seed(int(generator.integers(2**62)))
        rows = torch.from_numpy(gradients)
        batch = rows[torch.rand(len(rows), generator=source, dtype=torch.float64) < sample_rate]
        lengths = batch.norm(dim=1, keepdim=True)
        total = (batch * (max_grad_norm / (lengths + 1e-6)).clamp(max=1.0)).sum(dim=0)
        noise = torch.normal(0.0, noise_multiplier * max_grad_norm, (rows.shape[1],), generator=source)
        return 0.05 * (total + noise) / 7.0

    return release


def torch_by_itself() -> Step:
    """Its own global generator, from the seed of the process: not known to be drawn anew."""
    import torch

    def release(
        gradients: Array, generator: Generator, *, sample_rate: float, noise_multiplier: float, max_grad_norm: float
    ) -> Any:
        batch = drawn(gradients, generator, sample_rate, max_grad_norm)
        noise = torch.normal(0.0, noise_multiplier * max_grad_norm, (gradients.shape[1],), dtype=torch.float64)
        return (torch.from_numpy(batch.sum(axis=0)) + noise) / 7.0

    return release


def tiny(batch: Array, noise: Array, scale: float) -> Array:
    return 1e-300 * (batch.sum(axis=0) + scale * noise)


def simple(scale: Callable[[float, float], float]) -> Callable[[], Step]:
    return lambda: Round(scale=scale)


BUGS: dict[str, tuple[Callable[[], Step], str]] = {
    "noise in float16": (step(in_half), "few digits"),
    "noise in bfloat16": (step(in_bfloat), "few digits"),
    "noise of two decimals": (step(two_decimals), "few digits"),
    "a release in float16": (step(released_in_half), "the release is rounded"),
    "noise where the sum is not zero": (step(where_nonzero), "only where the batch has a gradient"),
    "noise for every record": (step(per_record), "grows with the root"),
    "noise that grows with the batch": (step(growing_with_the_batch), "grows with the root"),
    "noise for the longest that is there": (lambda: by_the_longest, "follows the gradients"),
    "Student's noise": (lambda: Round(noise=student), "not normal"),
    "triangular noise": (lambda: Round(noise=triangular), "not normal"),
    "three uniform numbers": (lambda: Round(noise=sum_of_three_uniform), "not normal"),
    "one noise for all rounds": (lambda: Round(noise=Once()), "used again"),
    "the last noise, turned": (lambda: Round(noise=Turned()), "used again"),
    "the last noise, shuffled": (lambda: Round(noise=Shuffled()), "used again"),
    "noise from a pool": (lambda: Round(noise=Pool()), "from a small supply"),
    "noise that cancels": (lambda: Round(noise=Opposed()), "used again"),
    "torch with a constant seed": (lambda: Round(noise=torch_seeded), "used again"),
    "the root of sigma": (simple(lambda sigma, bound: math.sqrt(sigma) * bound), "sigma"),
    "sigma squared": (simple(lambda sigma, bound: sigma**2 * bound), "sigma"),
    "the root of sigma C": (simple(lambda sigma, bound: math.sqrt(sigma * bound)), "sigma"),
    "the size at the end": (step(size_beside), "beside"),
    "the size in a pair": (step(size_in_a_pair), "beside"),
    "the size in a dictionary": (step(size_in_a_dictionary), "beside"),
    "the loss beside": (step(loss_beside), "beside"),
    "the noise beside": (step(noise_beside), "the noise of the release"),
    "the share that was clipped beside": (lambda: share_clipped_beside, "beside"),
    "a learning rate by the batch": (step(rate_by_the_batch), "the size of the batch"),
    "a learning rate by the root of the batch": (step(rate_by_the_root), "the size of the batch"),
    "one more than the batch": (step(one_more_in_the_batch), "the size of the batch"),
    "divided by what is short": (step(by_the_nonzero), "who else is in the batch"),
    "momentum before the noise": (lambda: Momentum(before=True), "momentum"),
    "clipping by the square": (lambda: Round(clip=by_square), "moves the clipped sum"),
    "the bias not clipped": (lambda: Round(clip=bias_left_out), "moves the clipped sum"),
    "the bias clipped apart": (lambda: Round(clip=bias_apart), "moves the clipped sum"),
    "three layers, the full bound each": (lambda: Round(clip=by_layer((1.0,) * 3)), "moves the clipped sum"),
    "one factor for all": (lambda: Round(clip=by_the_longest_in_view), "who else is in the batch"),
    "batch norm": (on_the_batch(normalised), "who else is in the batch"),
    "centred by the batch": (on_the_batch(centred), "who else is in the batch"),
    "a bound from the batch": (on_the_batch(by_the_median), "who else is in the batch"),
    "microbatches of four": (on_the_batch(microbatches), "who else is in the batch"),
    "weights from the batch": (on_the_batch(weighted), "who else is in the batch"),
    "classes weighted up": (lambda: Round(clip=by_class(1.0, 4.0)), "moves the clipped sum"),
    "padded batches": (lambda: Round(draw=padded), "how batches are drawn"),
    "shuffled epochs": (lambda: Round(draw=Epochs()), "the same number of records"),
    "fixed batches over |B|": (lambda: Round(draw=fixed_size, divisor=size_of_batch), "the same number of records"),
    "the last release for an empty batch": (Last, "an empty batch"),
    "nothing for an empty batch": (step(nothing_when_empty), "an empty batch"),
    "not a number for an empty batch": (step(not_a_number_when_empty), "an empty batch"),
    "an error for an empty batch": (step(raises_when_empty), "an empty batch"),
}

# Correct, each with the mechanism that it is, or why that cannot be seen from outside.
TWINS: dict[str, tuple[Callable[[], Step], str]] = {
    "a release in single precision": (step(in_single), "sgm"),
    "noise cast to single precision": (step(noise_in_single), "sgm"),
    "noise drawn in single precision": (lambda: Round(noise=drawn_in_single), "sgm"),
    "two noises of half the variance": (lambda: Round(noise=two_halves), "sgm"),
    "four noises of a quarter": (lambda: Round(noise=four_quarters), "sgm"),
    "shuffled coordinates": (step(coordinates_shuffled), "sgm"),
    "torch": (in_torch, "sgm"),
    "torch's own generator": (torch_by_itself, "unknown"),
    "a constant beside": (step(constant_beside), "sgm"),
    "a constant at the end": (step(constant_at_the_end), "sgm"),
    "a release in two layers": (step(layers), "sgm"),
    "a release of one row": (step(one_row), "sgm"),
    "clipping with an epsilon": (lambda: Round(clip=with_epsilon), "sgm"),
    "clipping by division": (lambda: Round(clip=by_division), "sgm"),
    "clipping by the 1-norm": (lambda: Round(clip=by_sum_of_sizes), "sgm"),
    "four layers, a half each": (lambda: Round(clip=by_layer((0.5,) * 4)), "sgm"),
    "around a public gradient": (lambda: Round(clip=around_a_public_one), "unknown"),
    "classes weighted down": (lambda: Round(clip=by_class(1.0, 0.75)), "unknown"),
    "momentum": (Momentum, "sgm"),
    "momentum, damped": (lambda: Momentum(0.5, damped=True), "sgm"),
    "the sum of all steps": (lambda: Momentum(1.0), "sgm"),
    "a learning rate that decays": (Decaying, "unknown"),
    "Adam": (Adam, "unknown"),
    "tiny steps": (step(tiny), "sgm"),
}
