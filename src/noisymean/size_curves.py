r"""The answer of a run against the number of records N: where one record more changes what is divided by, it leaks.

A floor, or the length of a data loader, stays as it is over many N and then steps. On both sides of a step the run leaks, between
two steps it may not; so the curve has teeth, one record or two wide, and a picture that is drawn at evenly spaced N misses them.
Here N is looked at where the steps are: the user's own, the nearest steps on either side, and the middle between two of them.
A denominator that moves with every record, such as N q, has no teeth; it is looked at from half of N to twice N.

Nothing is said of any N but those that are listed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from noisymean.accountant import account
from noisymean.accounts import Account, Pair
from noisymean.errors import Undefined
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.mechanisms.base import LARGEST_DATASET, DatasetDenominator

# Steps that are looked for on either side of the user's N.
_STEPS = 3
# So many numbers of records at most: those steps, between each two of them one more, and the user's own.
MOST = 4 * _STEPS
# N times these where every record moves the denominator.
_SHARES = tuple(Fraction(share) for share in ("1/2", "3/5", "7/10", "17/20", "1", "6/5", "7/5", "17/10", "2"))
# Of one record, the numbers of which a step is made: far more than there are neighbours to look at.
_FARTHEST = 10**9


@final
@dataclass(frozen=True)
class SizeCurve:
    """The accounts at some numbers of records, in their order; `stepped` says whether what runs is the same between two steps."""

    size: int
    stepped: bool
    answers: tuple[tuple[int, Account], ...]


def sizes_of(mechanism: Mechanism) -> tuple[tuple[int, ...], bool] | None:
    """The numbers of records to look at, and whether there are steps; None where N does not come into it."""
    size = mechanism.dataset_size
    if size is None or not mechanism.is_poisson or not mechanism.size_matters:
        return None
    steps = _steps(mechanism, size) if isinstance(mechanism, DatasetDenominator) else ()
    looked_at: set[int] = {size}
    if _is_stepped(steps, size):
        looked_at.update(steps)
        looked_at.update((one + other) // 2 for one, other in itertools.pairwise(steps))
    else:
        looked_at.update(round(size * share) for share in _SHARES)
    return tuple(sorted(one for one in looked_at if 1 <= one <= LARGEST_DATASET)), _is_stepped(steps, size)


def size_curve(
    mechanism: Mechanism,
    *,
    steps: int,
    delta: float | None = None,
    epsilon: float | None = None,
    pair: Pair | None = None,
    progress: Callable[[Account], None] = lambda _: None,
) -> SizeCurve | None:
    """The run's account at each of `sizes_of`, with as many steps everywhere; None where N does not come into it."""
    found = sizes_of(mechanism)
    if found is None or mechanism.dataset_size is None:
        return None
    answers = []
    for size in found[0]:
        try:
            answer = account(
                mechanism.resized(size),
                steps=steps,
                delta=delta,
                epsilon=epsilon,
                adjacency=Adjacency.ADD_REMOVE,
                pair=pair,
            )
        except (Undefined, ArithmeticError, ValueError):
            # too few records for this mechanism, or numbers beyond double precision: left out of the picture
            continue
        answers.append((size, answer))
        progress(answer)
    return SizeCurve(mechanism.dataset_size, found[1], tuple(answers))


def _is_stepped(steps: tuple[int, ...], size: int) -> bool:
    """Not where every record is a step, as for N q."""
    return bool(steps) and set(steps) != set(range(max(size - _STEPS, 1), size + _STEPS))


def _steps(mechanism: DatasetDenominator, size: int) -> tuple[int, ...]:
    """The nearest numbers M, some on either side, at which rate or denominator are not what they are at M + 1."""

    def runs(at: int) -> Hashable:
        return mechanism.rate_at(at), mechanism.denominator_at(at)

    found, least = [], max(mechanism.least_size, 1)
    at = size
    for _ in range(_STEPS):
        step = _last_alike(runs, at, min(at + _FARTHEST, LARGEST_DATASET))
        if step is None:
            break
        found.append(step)
        at = step + 1
    at = size
    for _ in range(_STEPS):
        first = _last_alike(lambda mirrored: runs(-mirrored), -at, -least)
        if first is None:
            break
        # -first is the smallest N at which the same runs: the step is from the one below it
        at = -first - 1
        found.append(at)
    return tuple(sorted(found))


def _last_alike(runs: Callable[[int], Hashable], start: int, end: int) -> int | None:
    """The last number from `start` on at which the same runs as at `start`; None if it does up to `end`.

    What runs does not come back once it has changed: rates fall with N, and at one rate denominators grow. So steps are doubled
    until it has changed, and halved.
    """
    here, reach = runs(start), 1
    while runs(min(start + reach, end)) == here:
        if start + reach >= end:
            return None
        reach *= 2
    alike, other = start + reach // 2, min(start + reach, end)
    while other - alike > 1:
        middle = (alike + other) // 2
        alike, other = (middle, other) if runs(middle) == here else (alike, middle)
    return alike
