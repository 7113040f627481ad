"""DP-SGD written out in numpy, for what probe-run says of a finished run: clipped, summed, noised, divided by a number that is known.

Imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# the gradients of some records at some weights, a row for each
Gradients = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A run, with the denominator that nobody is told."""

    records: int = 1000
    rate: float = 0.05
    denominator: float = 50.0
    noise_multiplier: float = 1.0
    max_grad_norm: float = 1.0
    learning_rate: float = 0.1
    steps: int = 40
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    every: int = 1

    @property
    def told(self) -> dict[str, Any]:
        """What probe_run is told."""
        names = (
            "learning_rate",
            "noise_multiplier",
            "max_grad_norm",
            "momentum",
            "dampening",
            "nesterov",
            "weight_decay",
        )
        return {**{name: getattr(self, name) for name in names}, "every": self.every}


def weights_of(
    settings: Settings, start: np.ndarray, gradients: Gradients, rng: np.random.Generator, kind: type = np.float64
) -> np.ndarray:
    """The weights of all checkpoints, a row for each, as torch.optim.SGD would make them."""
    s = settings
    w: np.ndarray = start.astype(kind)
    buffer: np.ndarray | None = None
    rows = [w.copy()]
    for step in range(1, s.steps * s.every + 1):
        batch = np.flatnonzero(rng.random(s.records) < s.rate)
        each = gradients(w.astype(np.float64), batch)
        lengths = np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-300)
        total = (each * np.minimum(1.0, s.max_grad_norm / lengths)).sum(axis=0)
        noise = s.noise_multiplier * s.max_grad_norm * rng.standard_normal(len(w))
        handed = (total + noise) / s.denominator + s.weight_decay * w
        if s.momentum:
            buffer = handed if buffer is None else s.momentum * buffer + (1.0 - s.dampening) * handed
            handed = handed + s.momentum * buffer if s.nesterov else buffer
        w = (w - s.learning_rate * handed).astype(kind)
        if step % s.every == 0:
            rows.append(w.copy())
    return np.array(rows)


def silent(_: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """No gradients at all."""
    return np.zeros((len(batch), len(_)))


def aligned(parameters: int) -> Gradients:
    """All gradients are the same, and longer than the clipping bound."""
    same = np.ones((1, parameters))
    return lambda _, batch: np.repeat(same, len(batch), axis=0)


def least_squares(parameters: int, still: int, settings: Settings, rng: np.random.Generator) -> Gradients:
    """A linear model whose gradients differ from record to record; the last `still` weights have none."""
    features = rng.standard_normal((settings.records, parameters))
    values = features @ rng.standard_normal(parameters) * 3.0 / np.sqrt(parameters)

    def gradients(weights: np.ndarray, batch: np.ndarray) -> np.ndarray:
        x = features[batch]
        errors = x @ weights[:parameters] - values[batch]
        return np.concatenate([errors[:, None] * x, np.zeros((len(batch), still))], axis=1)

    return gradients


def network(
    inputs: int, hidden: int, classes: int, settings: Settings, rng: np.random.Generator
) -> tuple[np.ndarray, Gradients]:
    """One hidden layer on clusters, cross-entropy: where its weights start, and its gradients."""
    labels = rng.integers(0, classes, settings.records)
    pixels = rng.standard_normal((classes, inputs))[labels] + rng.standard_normal((settings.records, inputs))
    first, second = inputs * hidden, hidden * classes
    scale = np.repeat([np.sqrt(2.0 / inputs), 0.0, np.sqrt(2.0 / hidden), 0.0], [first, hidden, second, classes])

    def gradients(weights: np.ndarray, batch: np.ndarray) -> np.ndarray:
        a, b, c, d = np.split(weights, np.cumsum([first, hidden, second]))
        x = pixels[batch]
        z = x @ a.reshape(inputs, hidden) + b
        on = np.maximum(z, 0.0)
        scores = on @ c.reshape(hidden, classes) + d
        back = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
        back /= back.sum(axis=1, keepdims=True)
        back[np.arange(len(batch)), labels[batch]] -= 1.0
        below = (back @ c.reshape(hidden, classes).T) * (z > 0.0)
        outer = [np.einsum("ij,ik->ijk", *pair).reshape(len(batch), -1) for pair in ((x, below), (on, back))]
        return np.concatenate([outer[0], below, outer[1], back], axis=1)

    return scale * rng.standard_normal(len(scale)), gradients


def bent(strength: float) -> Gradients:
    """Gradients that are `strength` times the weights, the same for all records: a bowl, or a hill if it is negative."""
    return lambda weights, batch: np.repeat(strength * weights[None, :], len(batch), axis=0)


def towards(weights: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Gradients of any length you like towards the weights 0: a cone, whose curvature at its tip is without bound."""
    return np.repeat(1e6 * weights[None, :], len(batch), axis=0)
