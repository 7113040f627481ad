"""violated, holds, undetermined: one rule, decided here and nowhere else.

    violated      what is certainly lost is more than the most that the claim can be
    holds         what is certainly not exceeded is no more than the least that the claim can be,
                  or the run is what the claim is about, the noisy sum at the rate that was told: one number under two names
    undetermined  neither

Every number comes rounded to its own side, so nothing is tolerated. Numbers are losses, larger is worse: an epsilon, a delta, or
the negative of a trade-off curve.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from noisymean.errors import Contradiction

Word: TypeAlias = Literal["violated", "holds", "undetermined"]


class Claim(NamedTuple):
    """The two ends between which the claimed loss lies, and whether the run is what the claim is about."""

    low: ArrayLike
    high: ArrayLike
    is_the_run: bool = False


def decide(claim: Claim, leaked: ArrayLike | None, sound: ArrayLike | None) -> Word:
    """The verdict on a claim; None where nothing is known. Numbers in arrays are judged together."""
    if leaked is not None and bool(np.any(np.asarray(leaked) > claim.high)):
        return "violated"
    if claim.is_the_run or (sound is not None and bool(np.all(np.asarray(sound) <= claim.low))):
        return "holds"
    return "undetermined"


def check_order(leaked: ArrayLike | None, sound: ArrayLike | None, what: object) -> None:
    """More lost than can be lost: one of the two numbers is wrong, and neither may be shown."""
    if leaked is None or sound is None:
        return
    excess = np.asarray(leaked, dtype=np.float64) - np.asarray(sound, dtype=np.float64)
    if bool(np.any(excess > 0.0)):
        worst = int(np.argmax(excess))
        at = (float(np.ravel(np.asarray(side, dtype=np.float64))[worst]) for side in (leaked, sound))
        raise Contradiction("leakage {:.12g} exceeds guarantee {:.12g}".format(*at), what)
