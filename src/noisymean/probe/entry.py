"""`probe(thing)`: from what the caller has to a subject, and on to the finding."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from noisymean.errors import InvalidInput
from noisymean.paper.dpsur import Denominator
from noisymean.paper.methods import METHODS
from noisymean.probe.finding import KINDS, Finding
from noisymean.probe.laws import Kind
from noisymean.probe.prober import ROUNDS, probe_subject
from noisymean.probe.subject import Setting, Subject
from noisymean.targets.opacus import release_named

_ALLOWED = f"opacus, opacus==X, {', '.join(METHODS)}, synthetic or FILE.py:NAME"


def probe(
    target: Any,
    *,
    seed: int,
    also: tuple[Setting, ...] = (),
    rounds: int = ROUNDS,
    noise_multiplier: float | None = None,
    max_grad_norm: float | None = None,
) -> Finding:
    """Which denominator `target` really uses, with the evidence.

    `target` is a name (`"opacus==0.15.0"`, `"dpsur"`, `"mine.py:release"`), an Opacus engine or optimizer, a function
    `build(dataset_size, sample_rate)` that gives an optimizer, or a function of gradients (`subjects.callables`).
    `also` are further settings to run it at. `noise_multiplier` is the one that is asked about: the noise is measured there, and
    at a quarter and at four times of it. `max_grad_norm`, and `noise_multiplier` with it, are those that a function has built in.

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
    subject = subject_of(target, BuiltIn(noise_multiplier, max_grad_norm))
    return probe_subject(subject, seed=seed, also=also, rounds=rounds, noise_multiplier=noise_multiplier)


@final
@dataclass(frozen=True)
class BuiltIn:
    """What a function has built in instead of taking it as a keyword."""

    noise_multiplier: float | None = None
    max_grad_norm: float | None = None


_NOTHING = BuiltIn()


def subject_of(target: Any, built_in: BuiltIn = _NOTHING) -> Subject:
    """The subject that a name, an object or a function stands for."""
    if isinstance(target, str):
        return named(target, built_in)
    from noisymean.probe.subjects import callables, optimizers

    if optimizers.is_engine(target):
        return optimizers.Engine(target)
    if optimizers.is_optimizer(target):
        return optimizers.BuiltOptimizer(lambda size, rate: target, alone=True, label=type(target).__name__)
    if all(hasattr(target, name) for name in ("name", "knob", "run", "swift", "elsewhere", "adaptation")):
        subject: Subject = target
        return subject
    if not callable(target):
        raise InvalidInput("target", type(target).__name__, f"{_ALLOWED}, an optimizer, an engine or a function")
    if _takes(target, "dataset_size", "sample_rate"):
        return optimizers.BuiltOptimizer(target, label=getattr(target, "__name__", "build"))
    return callables.FunctionOfGradients(target, "", built_in.noise_multiplier, built_in.max_grad_norm)


def _takes(function: Any, *names: str) -> bool:
    try:
        return list(inspect.signature(function).parameters) == list(names)
    except (TypeError, ValueError):
        return False


def named(text: str, built_in: BuiltIn = _NOTHING) -> Subject:
    """opacus, opacus==X, a method, synthetic (EASGM), synthetic:KIND or FILE.py:NAME."""
    from noisymean.probe.subjects import callables, formulas, releases

    if text.partition("==")[0] == "opacus":
        return releases.OpacusRelease(version=release_named(text))
    if text == "dpsur":
        return formulas.DpsurUpdate(Denominator.OTHER_BATCH)
    if text in METHODS and (pinned := METHODS[text].pinned) is not None:
        return releases.OpacusRelease(version=pinned)
    name, colon, rest = text.rpartition(":")
    if text == "synthetic" or name == "synthetic":
        known = {kind.value: kind for kind in (*KINDS, Kind.LOADER)}
        wanted = rest if colon else Kind.EASGM.value
        if wanted not in known:
            raise InvalidInput("target", text, f"synthetic or synthetic:NAME with NAME one of {', '.join(known)}")
        return formulas.Formula(known[wanted])
    if colon and name.endswith(".py") and rest.isidentifier():
        if not Path(name).is_file():
            raise InvalidInput("target", text, "a function in an existing file", f"there is no file {name}")
        return callables.in_file(
            Path(name), rest, noise_multiplier=built_in.noise_multiplier, max_grad_norm=built_in.max_grad_norm
        )
    raise InvalidInput("target", text, _ALLOWED, "e.g. noisymean probe opacus==0.15.0")
