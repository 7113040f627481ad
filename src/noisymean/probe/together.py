"""Whether records are clipped one by one: what one of them adds to the sum must not depend on what the others are.

All records are in every batch, and one seed gives one noise, so that releases differ by their gradients alone. With A or B, or
both, next to nothing,

    r(A, B) - r(A, -) - r(-, B) + r(-, -) = 0

where each adds its own, whatever a release is divided by. A mean that is clipped, statistics of the batch, one factor for all
records and averages of a few do not get it right.

And whether what a record adds is its own gradient, made shorter: turned round it adds the opposite, however long it is, so with
e next to nothing

    r(G) + r(-G) - r(e G) - r(-e G) = 0.

A shift before clipping and weights by what a gradient looks like do not get that right. Either may be private; what is read off
single records is not the divisor then.
"""

from __future__ import annotations

import numpy as np

from noisymean.numerics.logs import Array
from noisymean.probe.full import everyone
from noisymean.probe.records import gradients_together
from noisymean.probe.runs import designed
from noisymean.targets.protocol import Raised, Runnable

# so little of a record is next to nothing
_EPSILON = 1e-12
# of eight: neighbours and others, of two lengths and of one
_PAIRS = ((0, 2), (1, 2), (2, 7), (4, 5), (6, 7), (0, 5))
# single and half precision, and noise of a millionth on some hundred axes
_TOLERANCE = 1e-2
_LEAST = 1e-3


def one_by_one(subject: Runnable, seed: int) -> bool | None:
    """Whether the records that were run are clipped each by itself; None where that cannot be seen."""

    def released(*left_out: int) -> Array:
        found: Array = designed(subject, everyone(subject), gradients_together(seed, left_out), seed, 1)[0]
        return found

    try:
        every = released()
        alone = {one: released(one) for one in {one for pair in _PAIRS for one in pair}}
        both = {pair: released(*pair) for pair in _PAIRS}
    except Raised:
        return None
    if not all(np.isfinite(one).all() for one in (every, *alone.values(), *both.values())):
        return None
    moved = max(float(np.linalg.norm(every - one)) for one in alone.values())
    off = max(float(np.linalg.norm(every - alone[one] - alone[other] + both[one, other])) for one, other in both)
    if not moved > _LEAST * float(np.linalg.norm(every)):
        return None
    return off <= _TOLERANCE * moved


def opposites(subject: Runnable, seed: int) -> bool | None:
    """Whether records that are turned round add the opposite; None where that cannot be seen."""
    rows = gradients_together(seed, ())

    def released(factor: float) -> Array:
        found: Array = designed(subject, everyone(subject), factor * rows, seed, 1)[0]
        return found

    try:
        along, against, ahead, behind = (released(one) for one in (1.0, -1.0, _EPSILON, -_EPSILON))
    except Raised:
        return None
    if not all(np.isfinite(one).all() for one in (along, against, ahead, behind)):
        return None
    moved = float(np.linalg.norm(along - against))
    if not moved > _LEAST * float(np.linalg.norm(along)):
        return None
    return float(np.linalg.norm(along + against - ahead - behind)) <= _TOLERANCE * moved
