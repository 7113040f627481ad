r"""A function of gradients, to be audited and to be probed:

    def release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm) -> array of n numbers

It gets the gradients of N records (a row of n numbers each, not clipped), runs one round of its mechanism on them, and takes
all its randomness from `generator`. Of the keywords it takes those that it has: `batch_size` instead of `sample_rate` if its rate
follows from a batch size.

Noise or a bound that is built in has to be told (`noise_multiplier`, `max_grad_norm`), because there is nothing else to measure
against. Noise that cannot be turned down is taken out instead: the same state of the generator means the same batch and the same
noise, so a release of the designed gradients minus one of the same gradients scaled to almost nothing is the part of the
gradients alone, and the second is the noise alone. Added up again with the noise scaled down they are what a quiet release
would have been. Where a coordinate that no gradient has does not cancel, the function draws from elsewhere, and that is said.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np

from noisymean.errors import InvalidInput
from noisymean.numerics.logs import Array
from noisymean.targets.files import loaded
from noisymean.targets.foreign import Misbehaved, call, message_of
from noisymean.targets.parts import Parts, parts_of
from noisymean.targets.protocol import BuiltIn, Knob, Raised, Request, Runnable
from noisymean.targets.returned import NotNumbers, numbers_of

# Gradients of almost nothing instead of zero: a function may divide by their length.
_FAINT = 1e-12
# What cancels is this small next to the noise.
_CANCELLED = 1e-9
# of a bound that is built in: squares of designed gradients are neither zero nor infinite
_LEAST_BOUND, _LARGEST_BOUND = 1e-100, 1e100
Release = Callable[..., Any]
SIGNATURE = "release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm)"


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """What it can be called with, by name; nothing where that cannot be seen."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def takes_gradients(function: Any) -> bool:
    """Whether it is a function of gradients, by its signature: a rate or a batch size is set for it, whoever calls it.

    One of (extra_record, generator) is called with two arguments and may have others with defaults.

    >>> takes_gradients(lambda gradients, generator, *, sample_rate: None), takes_gradients(lambda extra, generator: None)
    (True, False)
    """
    found = parameters(function)
    if not {"sample_rate", "batch_size"} & found.keys():
        return False
    first, *others = found.values()
    needed = [
        one for one in others if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    return first.name == "gradients" or (first.name != "extra_record" and len(needed) > 1)


def is_builder(function: Any) -> bool:
    """Whether it is `build(dataset_size, sample_rate)`, which gives an optimizer."""
    return list(parameters(function)) == ["dataset_size", "sample_rate"]


@final
@dataclass
class _Now:
    """What is called at present, and the length of the gradients that it was last called with."""

    release: Release
    wide: int | None = None


@final
@dataclass(frozen=True)
class FunctionOfGradients(Runnable):
    """A release callable of the caller's."""

    release: Release
    label: str = ""
    # what is built in; not looked at where it is a keyword
    noise_multiplier: float | None = None
    max_grad_norm: float | None = None
    # the same as at the start of a program, for gradients of another length than those that its state is for
    anew: Callable[[], Release] | None = None
    is_fast = True

    def __post_init__(self) -> None:
        taken, allowed = self._keywords, f"a function like {SIGNATURE}"
        if "sample_rate" not in taken and "batch_size" not in taken:
            raise InvalidInput("target", self.name, allowed, "it lacks sample_rate (or batch_size)")
        for name in ("noise_multiplier", "max_grad_norm"):
            built_in = getattr(self, name)
            if built_in is not None and not _LEAST_BOUND <= built_in <= _LARGEST_BOUND:
                allowed_here = "> 0" if built_in <= 0.0 else f"from {_LEAST_BOUND:g} to {_LARGEST_BOUND:g}"
                raise InvalidInput(name, built_in, allowed_here)
            if name not in taken and built_in is None:
                raise InvalidInput("target", self.name, allowed, f"it lacks {name}: tell the {name} it has built in")

    @property
    def is_loud(self) -> bool:
        """Whether its noise cannot be turned down."""
        return "noise_multiplier" not in self._keywords

    @property
    def name(self) -> str:
        return self.label or getattr(self.release, "__name__", type(self.release).__name__)

    @property
    def knob(self) -> Knob:
        return Knob.RATE if "sample_rate" in self._keywords else Knob.BATCH_SIZE

    @cached_property
    def _keywords(self) -> set[str]:
        named = parameters(self.release).values()
        return {one.name for one in named if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}

    def run(self, run: Request) -> Array:
        found, unit = self.parts(run)
        if not run.alone and len(found[0].beside):
            raise Raised(f"returns {found[0]}: it must return these alone, or be probed")
        return np.array([one.release for one in found]) * unit

    def parts(self, run: Request) -> tuple[list[Parts], float]:
        """What it returns in every round, and by what a release is to be multiplied to be in units of the bound asked for."""
        generator = np.random.default_rng(run.seed)
        taken = self._keywords
        asked = {"noise_multiplier": run.noise_multiplier, "max_grad_norm": run.max_grad_norm}
        options: dict[str, Any] = {name: value for name, value in asked.items() if name in taken}
        unit = run.max_grad_norm if "max_grad_norm" in taken else float(self.max_grad_norm or 1.0)
        # in units of its own bound
        gradients = run.gradients * (unit / run.max_grad_norm)
        if self.knob is Knob.RATE:
            options["sample_rate"] = float(run.setting.rate or 1)
        else:
            options["batch_size"] = run.setting.batch_size
        found = [self._round(gradients, generator, options, run.noise_multiplier) for _ in range(run.rounds)]
        return found, run.max_grad_norm / unit

    def _round(
        self, gradients: Array, generator: np.random.Generator, options: dict[str, Any], noise_multiplier: float
    ) -> Parts:
        if not self.is_loud or self.noise_multiplier in (None, noise_multiplier):
            # its noise can be set, or is what was asked for
            return self._once(gradients, generator, options)
        before = generator.bit_generator.state
        loud = self._once(gradients, generator, options)
        generator.bit_generator.state = before
        noise = self._once(_FAINT * gradients, generator, options).release
        signal = loud.release - noise
        # not finite is a finding too
        bare = signal[~gradients.any(axis=0)]
        if np.isfinite(signal).all() and np.abs(bare).max(initial=0.0) > _CANCELLED * np.abs(noise).max():
            raise Raised(
                "draws noise that does not come from its generator alone, or keeps some of earlier rounds: the same state gave"
                " other noise; let it take noise_multiplier as a keyword"
            )
        assert self.noise_multiplier is not None
        return replace(loud, release=signal + noise * (noise_multiplier / self.noise_multiplier))

    def _once(self, gradients: Array, generator: np.random.Generator, options: dict[str, Any]) -> Parts:
        """What it returns; where it raises at the first gradients of another length, once more from a fresh start."""
        wide = gradients.shape[1]
        if self.anew is None or self._now.wide in (None, wide):
            self._now.wide = wide
            return self._returned(gradients, generator, options)
        self._now.wide = wide
        before = generator.bit_generator.state
        try:
            return self._returned(gradients, generator, options)
        except Raised:
            generator.bit_generator.state = before
            self._now.release = self.anew()
            return self._returned(gradients, generator, options)

    @cached_property
    def _now(self) -> _Now:
        return _Now(self.release)

    def _returned(self, gradients: Array, generator: np.random.Generator, options: dict[str, Any]) -> Parts:
        wide = gradients.shape[1]
        try:
            with np.errstate(all="ignore"):
                found = call(
                    lambda: parts_of(
                        self._now.release(gradients.copy(), generator, **options), wide, lambda: self._leads
                    )
                )
        except Misbehaved as fault:
            # whatever a user's code raises is a finding
            cause, kind = fault.__cause__, type(fault.__cause__).__name__
            if isinstance(cause, NotNumbers):
                raise Raised(f"returns {cause}: it must return {wide} numbers (one per parameter)") from None
            words = f"{kind}: {message_of(cause)}" if isinstance(cause, Exception) else f"{kind} (it {fault})"
            raise Raised(f"raises {words}") from cause
        if found is None:
            raise Raised(f"returns nothing: it must return {wide} numbers (one per parameter)")
        return found

    @cached_property
    def _leads(self) -> bool:
        """Of one row that is longer than it should be: whether what comes beside the release is in front of it.

        The same state of the generator twice: only gradients differ, and the release moves along their sum.
        """
        gradients = 1e3 * np.random.default_rng(0).standard_normal((4, 300))
        taken = {"sample_rate": 1.0, "batch_size": 4, "noise_multiplier": 1.0, "max_grad_norm": 1.0}
        options = {name: value for name, value in taken.items() if name in self._keywords}
        loud, faint = (
            numbers_of(self.release(scale * gradients, np.random.default_rng(0), **options)) for scale in (1.0, _FAINT)
        )
        moved, along = loud - faint, (gradients / np.linalg.norm(gradients, axis=1, keepdims=True)).sum(axis=0)
        return abs(float(moved[-300:] @ along)) > abs(float(moved[:300] @ along))


def of_callable(function: Any, label: str, built_in: BuiltIn) -> Runnable:
    """A function of gradients, or one that builds an optimizer."""
    if is_builder(function):
        from noisymean.targets.optimizers import BuiltOptimizer

        return BuiltOptimizer(function, name=label or getattr(function, "__name__", "build"))
    return FunctionOfGradients(function, label, built_in.noise_multiplier, built_in.max_grad_norm)


def in_file(file: Path, attribute: str, built_in: BuiltIn) -> Runnable:
    """NAME of FILE.py; the file is executed as a module of this process, as it would be by its owner."""
    found = of_callable(loaded(file, attribute), f"{file.name}:{attribute}", built_in)
    if isinstance(found, FunctionOfGradients):
        # what it keeps between rounds is for one number of parameters
        return replace(found, anew=lambda: loaded(file, attribute))
    return found
