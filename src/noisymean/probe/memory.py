r"""What is left of a round in those after it: momentum, weights that are released instead of steps, a rate that changes.

Everybody is in every batch. For one round records lie on axes of their own, before and after it on others; h_k is what is left of
them k rounds later, over what they were. The noise is turned down as far as it goes, so that h is exact.

    h_k = 0, k >= 1           no memory
    h_{k+1} = beta h_k        released is r_t = beta r_{t-1} + u_t + theta u_{t-1}: momentum, a sum, Nesterov's; `undone` gives u
    anything else             not understood

What is done to a release after its noise takes nothing away from a guarantee. If u has noise that is new in every round, then r
was made of steps that had theirs; if the noise of u has to do with that of the round before, then old gradients come back under
new noise, and momentum was taken too early.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.chance import DEVIATIONS
from noisymean.probe.finding import Remark, Severity
from noisymean.probe.full import RECORDS, everyone
from noisymean.probe.records import LARGE, QUIET, SPARE, deviation_of
from noisymean.probe.runs import designed
from noisymean.probe.through import Through
from noisymean.targets.protocol import Raised, Runnable

_FAINT = 1e-12
_AFTER = 14
# single precision, and what noise of 10^-12 leaves
_ALIKE = 1e-5
_LARGEST_THETA = 0.9
_ROUNDS = 200
# a record is seen if it is so many deviations of the noise
_SEEN = 1e3
_WIDE = 2 * RECORDS + SPARE
_CHANGES = "what a release is divided by changes from round to round, whoever is in the batch"
_REMEMBERS = (
    "what is released depends on the rounds before, in a way that is not understood: an optimizer such as Adam?"
)
_TOO_EARLY = "gradients of earlier rounds come back under new noise: momentum is taken before the noise is added"


@final
@dataclass(frozen=True)
class Filter:
    """r_t = beta r_{t-1} + u_t + theta u_{t-1}."""

    beta: float
    theta: float

    @property
    def burnt(self) -> int:
        """Rounds after which nothing is left of where it began."""
        return 2 if abs(self.theta) < _ALIKE else 2 + math.ceil(math.log(1e-9) / math.log(abs(self.theta)))

    def undone(self, releases: Array) -> Array:
        """u, a row less."""
        steps: Array = releases[1:] - self.beta * releases[:-1]
        if abs(self.theta) >= _ALIKE:
            for t in range(1, len(steps)):
                steps[t] -= self.theta * steps[t - 1]
        return steps


def undone(subject: Runnable, taken: Filter) -> Runnable:
    """The subject, its momentum taken out of what it releases."""
    return Through(
        subject,
        lambda releases, run: taken.undone(releases)[-run.rounds :],
        lambda run: replace(run, rounds=run.rounds + taken.burnt),
    )


def without_memory(subject: Runnable, seed: int) -> tuple[Runnable | None, list[Remark]]:
    """The subject, with what is remembered taken out of it, or None where that cannot be done; and what there is to say."""
    if not subject.is_fast:
        return subject, []
    try:
        return _without_memory(subject, seed)
    except Raised:
        # the rest of the probe says so
        return subject, []


def _gradients(first: int) -> Array:
    rows = np.zeros((RECORDS, _WIDE))
    rows[np.arange(RECORDS), first + np.arange(RECORDS)] = LARGE
    return rows


def _without_memory(subject: Runnable, seed: int) -> tuple[Runnable | None, list[Remark]]:
    at, others = everyone(subject), _FAINT * _gradients(0)
    before = designed(subject, at, others, seed, 2, noise=QUIET)
    runs = [
        designed(subject, at, rows, seed + part, count, noise=QUIET)
        for part, (rows, count) in enumerate(((_gradients(RECORDS), 1), (others, _AFTER), (_gradients(RECORDS), 1)), 1)
    ]
    if not all(np.isfinite(one).all() for one in (before, *runs)):
        return subject, []
    noise = float(deviation_of(np.diff(before[:, 2 * RECORDS :], axis=0)).max())
    # weights that are released have a place to begin at
    (now,), after, (again,) = (one[:, RECORDS : 2 * RECORDS] - before[-1, RECORDS : 2 * RECORDS] for one in runs)
    if np.abs(now).min() <= _SEEN * noise:
        # not all of them were drawn, or the noise is too loud
        return subject, []
    left = after / now
    if np.ptp(left, axis=1).max() > 10.0 * _ALIKE * max(1.0, float(np.abs(left).max())):
        return subject, []
    responses = left.mean(axis=1)
    if np.abs(responses).max() < _ALIKE:
        return _of_schedule(subject, again / now)
    taken = _filter(responses)
    if taken is None or getattr(subject, "is_loud", False):
        return None, [Remark(Severity.UNKNOWN, _REMEMBERS)]
    steady = undone(subject, taken)
    bare = designed(steady, at, others, seed + 5, _ROUNDS, noise=1.0)[:, 2 * RECORDS :]
    ahead, behind = bare[1:].ravel(), bare[:-1].ravel()
    together = float(ahead @ behind) / math.sqrt(float(ahead @ ahead) * float(behind @ behind) or 1.0)
    if abs(together) > DEVIATIONS / math.sqrt(len(ahead)):
        return None, [Remark(Severity.LEAK, _TOO_EARLY)]
    what = "the sum of all steps" if abs(taken.beta - 1.0) < _ALIKE else f"momentum of {taken.beta:.4g}"
    return steady, [Remark(Severity.NOTE, f"{what} is taken of noisy steps, which takes nothing away from a guarantee")]


def _filter(responses: Array) -> Filter | None:
    """beta and theta, if one of the kind gives these responses."""
    if abs(responses[0]) < _ALIKE:
        return None
    beta = float(responses[1] / responses[0])
    if abs(beta) > 1.0 + _ALIKE or np.abs(responses[1:] - beta * responses[:-1]).max() > _ALIKE:
        return None
    theta = float(responses[0]) - beta
    return Filter(beta, theta) if abs(theta) < _LARGEST_THETA else None


def _of_schedule(subject: Runnable, ratios: Array) -> tuple[Runnable | None, list[Remark]]:
    """Of the same records in two rounds: whether the release has the same of them."""
    ratio = float(np.median(ratios))
    if np.abs(ratios / ratio - 1.0).max() > 10.0 * _ALIKE or abs(ratio - 1.0) < 10.0 * _ALIKE:
        return subject, []
    later = f"{_AFTER + 1} rounds later it was {1.0 / ratio:.4g} times as much"
    words = f"{_CHANGES}: {later}; probe the step without its schedule"
    return None, [Remark(Severity.UNKNOWN, words)]
