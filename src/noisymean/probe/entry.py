"""`probe(thing)`: from what the caller has to the finding, and with the numbers of a run to the verdict on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from noisymean.checks import seed_of, whole
from noisymean.errors import InvalidInput
from noisymean.mechanisms import Mechanism, Rate, exact_rate
from noisymean.probe.finding import Finding, RunNumbers
from noisymean.probe.judgement import judged
from noisymean.probe.prober import ROUNDS, Progress, probe_runnable
from noisymean.targets.entry import numbers_of, runnable_of
from noisymean.targets.protocol import BuiltIn, Knob, Runnable, Setting

# Larger datasets are not run, only computed: 20,000 records are 80 MB of gradients.
MOST_RECORDS = 20_000
# Of releases at one setting.
_MOST_ROUNDS = 10**6


def probe(
    target: Any,
    *,
    seed: int,
    also: Sequence[Setting] = (),
    rounds: int = ROUNDS,
    noise_multiplier: float | None = None,
    max_grad_norm: float | None = None,
    dataset_size: int | None = None,
    dimension: int | None = None,
    sample_rate: Rate | None = None,
    batch_size: int | None = None,
    steps: int | Callable[[Mechanism], int] | None = None,
    delta: float | None = None,
    progress: Progress = lambda done, total: None,
) -> Finding:
    """Which denominator `target` really uses, with the evidence.

    `target` is a name (`"opacus==0.15.0"`, `"dpsur"`, `"mine.py:release"`), an Opacus engine or optimizer, a function
    `build(dataset_size, sample_rate)` that gives an optimizer, or a function of gradients (`noisymean.targets.functions`).
    `also` are further settings to run it at. `noise_multiplier` is the one that is asked about: the noise is measured there, and
    at a quarter and at four times of it. `max_grad_norm`, and `noise_multiplier` with it, are those that a function has built in.

    With `dataset_size` and a rate or a batch size it also runs at these, if they are not too large. With `delta`, and all other
    numbers of a run, `.run` has the verdict on it: what is claimed, leaked and guaranteed for the mechanism that was found.

    >>> import numpy as np
    >>> def batch_mean(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm):
    ...     lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    ...     clipped = gradients * np.minimum(1.0, max_grad_norm / lengths)
    ...     batch = clipped[generator.random(len(clipped)) < sample_rate]
    ...     noise = noise_multiplier * max_grad_norm * generator.standard_normal(clipped.shape[1])
    ...     return (batch.sum(axis=0) + noise) / max(len(batch), 1)
    >>> probe(batch_mean, seed=0).kind.value
    'asgm'
    """
    given = {"dataset_size": dataset_size, "dimension": dimension, "noise_multiplier": noise_multiplier}
    given |= {"max_grad_norm": max_grad_norm, "batch_size": batch_size, "delta": delta}
    given |= {"steps": None if callable(steps) else steps}
    settings = numbers_of(given)
    dataset_size, dimension, noise_multiplier = (
        settings["dataset_size"],
        settings["dimension"],
        settings["noise_multiplier"],
    )
    max_grad_norm, batch_size, delta = settings["max_grad_norm"], settings["batch_size"], settings["delta"]
    steps = steps if callable(steps) else settings["steps"]
    seed, rounds = seed_of("seed", seed), whole("rounds", rounds, 1, _MOST_ROUNDS)
    subject = runnable_of(target, BuiltIn(noise_multiplier, max_grad_norm))
    needed = {
        "dataset_size": dataset_size,
        "dimension": dimension,
        "noise_multiplier": noise_multiplier,
        "steps": steps,
    }
    if delta is not None and (missing := [name for name, value in needed.items() if value is None]):
        raise InvalidInput(missing[0], None, "given, to account for a run", "or leave out delta")
    rate = None if sample_rate is None else exact_rate(sample_rate)
    own = own_settings(subject, dataset_size, rate, batch_size)
    found = probe_runnable(
        subject, seed=seed, also=(*also, *own), rounds=rounds, noise_multiplier=noise_multiplier, progress=progress
    )
    if delta is None or dataset_size is None or dimension is None or noise_multiplier is None or steps is None:
        return found
    numbers = RunNumbers(dataset_size=dataset_size, dimension=dimension, noise_multiplier=noise_multiplier)
    numbers |= {"sample_rate": rate, "batch_size": batch_size}
    return judged(found, numbers, steps=steps, delta=delta)


def own_settings(
    subject: Runnable, dataset_size: int | None, rate: Fraction | None, batch_size: int | None
) -> tuple[Setting, ...]:
    """The user's own N, if it can be run."""
    if dataset_size is None or not 1 <= dataset_size <= MOST_RECORDS:
        return ()
    by_size = subject.knob is Knob.BATCH_SIZE
    if batch_size is not None and not 1 <= batch_size <= dataset_size and (rate is None or by_size):
        raise InvalidInput(
            "batch_size", batch_size, f"a whole number from 1 to the dataset size {dataset_size}",
            f"e.g. --batch-size {max(1, dataset_size // 10)}",
        )  # fmt: skip
    if by_size:
        return () if batch_size is None else (Setting(dataset_size, batch_size=batch_size),)
    if rate is None and batch_size is not None:
        rate = Fraction(batch_size, dataset_size)
    return () if rate is None else (Setting(dataset_size, rate=rate),)
