"""What is returned beside the release: numbers that whoever sees the release sees as well, and for which nobody adds noise.

    the same batches, other gradients, other noise   the same seed draws them: what changes is of the gradients, or of the noise
    the size of the batch                            a number that is a function of it, or goes along with it
    nothing of these                                 a setting, a count of rounds, or not known

A number that is the same in every round of every run, or goes up by the same from round to round, tells nothing of the records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.chance import least_correlation
from noisymean.probe.finding import Remark, Severity
from noisymean.probe.records import BOUND, NOISE, Mixed
from noisymean.probe.sensitivity import MIXED
from noisymean.targets.functions import FunctionOfGradients
from noisymean.targets.parts import Parts
from noisymean.targets.protocol import Raised, Request, Runnable

_ROUNDS = 100
_LOUD = 1.0
# a correlation that is no accident among thousands of numbers
_ALONG = 0.2
# of so many names the rest is not said
_NAMED = 3


@final
@dataclass(frozen=True, eq=False)
class _Runs:
    """The numbers beside the release, a row for each round, and |B|: as designed, with other gradients, with other noise."""

    first: Array
    gradients: Array
    noise: Array
    sizes: Array


def remarks_of_beside(subject: Runnable, seed: int) -> list[Remark]:
    """A sentence for each kind of number that comes beside the release."""
    if not isinstance(subject, FunctionOfGradients):
        return []
    mixed, setting = Mixed(seed), MIXED[subject.knob]

    def parts(gradients: Array, noise: float) -> list[Parts]:
        return subject.parts(Request(setting, gradients, noise, BOUND, _ROUNDS, seed, alone=True))[0]

    try:
        first, other, loud = (
            parts(mixed.gradients() * scale, noise) for scale, noise in ((1.0, NOISE), (0.3, NOISE), (1.0, _LOUD))
        )
    except Raised as fault:
        return [Remark(Severity.UNKNOWN, f"what is returned beside the release: it {fault}")]
    counts = {len(one.beside) for one in (*first, *other, *loud)}
    if counts == {0}:
        return []
    if len(counts) > 1:
        words = f"beside its release it returns {min(counts)} to {max(counts)} numbers, now more and now fewer"
        return [Remark(Severity.LEAK, f"{words}: how many there are tells of the batch or of its records")]
    releases = np.array([one.release for one in first])
    # squares of them are to be numbers
    largest = float(np.abs(releases).max(initial=0.0))
    sizes = mixed.members(releases / largest if 0.0 < largest < math.inf else releases).sum(axis=1)
    numbers = [np.array([one.beside for one in each]) for each in (first, other, loud)]
    runs = _Runs(numbers[0], numbers[1], numbers[2], sizes)
    if _is_the_noise(np.array([one.release for one in loud]), numbers[2]):
        words = f"beside its release it returns {len(first[0].beside)} numbers: the noise of the release, or what goes with it"
        return [Remark(Severity.LEAK, f"{words}, so that it can be taken out again")]
    kinds: dict[tuple[Severity, str], list[str]] = {}
    for column, name in enumerate(first[0].names):
        kinds.setdefault(_kind(runs, column), []).append(name)
    return [_said(severity, what, names) for (severity, what), names in kinds.items()]


def _is_the_noise(releases: Array, beside: Array) -> bool:
    """Whether a row of as many numbers as the release has goes along with it where it is mostly noise."""
    wide = releases.shape[1]
    if beside.shape[1] < wide:
        return False
    # from round to round: what is the same in all is no noise
    rows = [np.diff(one, axis=0).ravel() for one in (releases, beside[:, :wide])]
    lengths = float(np.linalg.norm(rows[0]) * np.linalg.norm(rows[1]))
    return 0.0 < lengths < math.inf and abs(float(rows[0] @ rows[1])) > _ALONG * lengths


def _said(severity: Severity, what: str, names: Sequence[str]) -> Remark:
    named = [name for name in dict.fromkeys(names) if name]
    which = f" ({', '.join(named[:_NAMED])}{', ...' if len(named) > _NAMED else ''})" if named else ""
    numbers = "a number" if len(names) == 1 else f"{len(names)} numbers"
    return Remark(severity, f"beside its release it returns {numbers}{which}: {what}")


def _kind(runs: _Runs, column: int) -> tuple[Severity, str]:
    """What one of the numbers tells."""
    first, gradients, noise = runs.first[:, column], runs.gradients[:, column], runs.noise[:, column]
    sizes = runs.sizes
    if not (np.isfinite(first).all() and np.isfinite(gradients).all() and np.isfinite(noise).all()):
        return Severity.FAULT, "it is not always finite"
    if (first == first[0]).all() and (gradients == first[0]).all() and (noise == first[0]).all():
        return Severity.NOTE, "the same in every round, whatever is in the batch"
    noisy = not np.allclose(first, noise, rtol=1e-9, atol=0.0)
    if not noisy:
        if (first == sizes).all():
            return Severity.LEAK, "the exact size of the batch"
        if _is_function_of(first, sizes):
            return Severity.LEAK, "it follows the size of the batch, without noise"
        if not np.allclose(first, gradients, rtol=1e-9, atol=0.0):
            return Severity.LEAK, "it follows the gradients of the batch, without noise"
    elif _goes_up(first) and _goes_up(gradients) and _goes_up(noise):
        return Severity.NOTE, "a count of rounds"
    if _goes_with(noise if noisy else first, sizes):
        return Severity.LEAK, "it goes along with the size of the batch"
    return Severity.UNKNOWN, "what this tells, alone and with the release, is not known"


def _is_function_of(values: Array, sizes: Array) -> bool:
    """Whether batches of one size have one value, and those of different sizes do not all have the same."""
    alike = [np.ptp(values[sizes == size]) == 0.0 for size in np.unique(sizes)]
    return all(alike) and bool(np.ptp(values) > 0.0)


def _goes_up(values: Array) -> bool:
    """Whether it goes up, or down, by the same in every round."""
    steps = np.diff(values)
    return bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0.0) and steps[0] != 0.0)


def _goes_with(values: Array, sizes: Array) -> bool:
    """Whether they are correlated beyond chance; by their ranks, so that nothing rests on how they are distributed."""
    if np.ptp(values) == 0.0 or np.ptp(sizes) == 0.0:
        return False
    ranks = [np.argsort(np.argsort(one, kind="stable"), kind="stable").astype(np.float64) for one in (values, sizes)]
    centred = [one - one.mean() for one in ranks]
    found = abs(float(centred[0] @ centred[1])) / float(np.linalg.norm(centred[0]) * np.linalg.norm(centred[1]))
    return found > least_correlation(len(values) - 1, 1)
