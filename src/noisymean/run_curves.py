r"""Pictures of a whole run: epsilon against the number of steps, and the trade-off curves after all of them.

The curves are traced by their tests (`compose.traced`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from noisymean.accountant import account
from noisymean.accounts import Account
from noisymean.compose.chained import ChainedRounds
from noisymean.compose.engine import DeltaCurve, Rounds
from noisymean.compose.traced import traced
from noisymean.errors import Undefined
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.numerics.logs import Array
from noisymean.planned import PlannedRounds
from noisymean.proofs import NO_GAIN
from noisymean.runs import Run

_POINTS = 257


@final
@dataclass(frozen=True, eq=False)
class Growth:
    """Epsilon at each number of steps."""

    steps: Array
    claimed: Array
    leakage: Array
    guarantee: Array


@final
@dataclass(frozen=True, eq=False)
class RunCurves:
    """T(M(D), M(D')) after all rounds at the same alpha; no guarantee where only epsilon is known."""

    alpha: Array
    claimed: Array
    leakage: Array
    guarantee: Array | None


# False positive rates down to 10^-300, in powers whose exponents grow evenly, and near 1 evenly in their logarithm.
_RARE: Array = 10.0 ** -np.union1d(np.linspace(20.0, 300.0, 113), np.geomspace(0.02, 20.0, 56))[::-1]
# A test that errs less than this on either side puts the whole curve into a corner.
_CORNER = 0.02


def growth(
    mechanism: Mechanism,
    *,
    steps: int,
    delta: float,
    points: int = 12,
    progress: Callable[[Account], None] = lambda _: None,
    adjacency: Adjacency | None = None,
) -> Growth:
    """Epsilon at about `points` numbers of steps up to `steps`, evenly spaced in their logarithm."""
    counts = sorted({round(count) for count in np.geomspace(1, steps, min(points, steps))})
    answers = []
    for count in counts:
        answers.append(account(mechanism, steps=count, delta=delta, adjacency=adjacency))
        progress(answers[-1])
    missing = float("nan")
    return Growth(
        np.asarray(counts, dtype=np.float64),
        np.array([a.claimed.epsilon for a in answers], dtype=np.float64),
        np.array([a.leakage.epsilon for a in answers], dtype=np.float64),
        np.array([missing if a.guarantee.epsilon is None else a.guarantee.epsilon for a in answers], dtype=np.float64),
    )


def run_curves(
    mechanism: Mechanism,
    alpha: Array,
    *,
    steps: int,
    points: int = _POINTS,
    progress: Callable[[RunCurves], None] = lambda _: None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> RunCurves:
    """The curves after `steps` rounds, from `points` tests; `progress` is told before the guarantee, which takes longest."""
    run = Run.of(mechanism, steps)
    claim = traced(run.claimed(), alpha, points, chord=True)
    if mechanism.is_sum:
        # the tests that make the truth are its supporting lines as well
        truth = run.truth()
        leaked, sound = (traced(truth, alpha, points, chord=chord) for chord in (True, False))
        return RunCurves(alpha, claim, leaked, sound)
    leaked = np.min([traced(rounds, alpha, points, chord=True) for _, rounds in run.leakages(adjacency)], axis=0)
    progress(RunCurves(alpha, claim, leaked, None))
    return RunCurves(alpha, claim, leaked, _guaranteed(run, alpha, points, leaked, adjacency))


def rare_curves(
    mechanism: Mechanism, *, steps: int, points: int = _POINTS, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> RunCurves:
    """Claim and leakage at false positive rates far below those that a picture from 0 to 1 shows.

    Without a guarantee: what its tests are charged with is more than the rates that are looked at here.
    """
    run = Run.of(mechanism, steps)
    claim = traced(run.claimed(), _RARE, points, chord=True)
    leaked = np.min([traced(rounds, _RARE, points, chord=True) for _, rounds in run.leakages(adjacency)], axis=0)
    return RunCurves(_RARE, claim, leaked, None)


def in_the_corner(curves: RunCurves) -> bool:
    """Whether a picture from 0 to 1 shows nothing of the leakage: it tells the two datasets apart almost perfectly."""
    return bool(np.min(np.maximum(curves.alpha, curves.leakage)) < _CORNER)


def _guaranteed(run: Run, alpha: Array, points: int, leaked: Array, adjacency: Adjacency) -> Array | None:
    """The best of all proofs, those by plans first: they are the quickest, and often nothing is left to gain."""
    try:
        proofs = sorted(
            (proof.curve for proof in run.guarantees(adjacency)), key=lambda one: not isinstance(one, PlannedRounds)
        )
    except Undefined:
        return None
    best: Array | None = None
    for proof in proofs:
        if best is not None and np.max(leaked - best) < NO_GAIN:
            break
        if (found := _bound(proof, alpha, points)) is not None:
            best = found if best is None else np.maximum(best, found)
    return best


def _bound(proof: DeltaCurve, alpha: Array, points: int) -> Array | None:
    if isinstance(proof, Rounds):
        return traced(proof, alpha, points, chord=False)
    if isinstance(proof, PlannedRounds):
        return proof.lower(alpha, points)
    if isinstance(proof, ChainedRounds) and isinstance(proof.first, Rounds) and isinstance(proof.second, Rounds):
        first = traced(proof.first, alpha, points, chord=False)
        return traced(proof.second, np.clip(np.nextafter(1.0 - first, 2.0), 0.0, 1.0), points, chord=False)
    return None
