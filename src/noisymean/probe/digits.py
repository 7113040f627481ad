"""The digits of the noise: whether its numbers are as many as normal ones of single precision are, and whether they come again.

On coordinates that no gradient has, a release is its noise to the last bit, and two normal numbers of single precision or better
are hardly ever the same. Of n numbers K pairs are; K over all pairs is what there is to be said about their digits:

    below 2^-21     single precision, and better
    above 2^-16     multiples of a step that is not small, or few bits, as in half precision: a difference between records may
                    show in which multiples can be there at all, and no analysis of normal noise covers that
    in between      neither: a small supply of numbers, from which they are picked, or a step somewhat finer

Where numbers are as often equal on coordinates whose gradients differ, not the noise is on a grid but the release, and of what it
was made cannot be seen. Rounds that have numbers in common, far more than others have, have the same noise in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse, special

from noisymean.numerics.logs import Array
from noisymean.probe.chance import LEVEL
from noisymean.probe.finding import Remark, Severity

_SINGLE, _COARSE = 2.0**-21, 2.0**-16
# of the pairs that are equal on coordinates without gradients
_SHARED = 0.1
# of which every one is compared with every other
_COMPARED = 400
# of fewer numbers one pair that is equal by chance would count for too much
_LEAST = 6_000
_DIGITS = "whether the noise has all its digits"
_AGAIN = "noise is used again: rounds have the same numbers, in another order"
_FEW = "normal numbers of single precision come again far less often: from a small supply, or of few digits"


def remarks_of_digits(runs: Sequence[Array], with_gradients: Callable[[], Array | None]) -> list[Remark]:
    """`runs` have a row for each round, on coordinates that no gradient has; and rounds whose gradients are as loud as noise."""
    runs = [np.abs(one[:_COMPARED]) for one in runs if one.size and np.isfinite(one).all()]
    if any(_comes_again(rows) for rows in runs):
        return [Remark(Severity.LEAK, _AGAIN)]
    shares = [_share(rows) for rows in runs if rows.size >= _LEAST]
    share = max(shares, default=0.0)
    if share > _SINGLE and (rows := with_gradients()) is not None and _share(np.abs(rows)) > _SHARED * share:
        # equal whatever is added to it: the release is rounded, and perhaps nothing but the release
        words = f"the release is rounded, so that one pair of its numbers in {1.0 / share:,.0f} is equal"
        return [Remark(Severity.UNKNOWN, f"{_DIGITS}: {words}; rounding alone, after the noise, takes nothing away")]
    if share > _COARSE:
        words = f"the noise has few digits: one pair of its numbers in {1.0 / share:,.0f} is equal"
        return [Remark(Severity.LEAK, f"{words}, as on the grid of half precision or of rounded numbers")]
    if share > _SINGLE:
        return [
            Remark(Severity.UNKNOWN, f"why one pair of numbers of the noise in {1.0 / share:,.0f} is equal: {_FEW}")
        ]
    return []


def _share(rows: Array) -> float:
    """How many pairs are equal, over all pairs; zeros are for others to remark on."""
    numbers = rows[rows > 0.0]
    _, counts = np.unique(numbers, return_counts=True)
    return float((counts * (counts - 1.0)).sum()) / max(len(numbers) * (len(numbers) - 1.0), 1.0)


def _comes_again(rows: Array) -> bool:
    """Whether two rounds have more numbers in common than the digits of all of them explain."""
    rounds, wide = rows.shape
    if rounds < 2:
        return False
    values, places = np.unique(rows, return_inverse=True)
    # a number that a whole round shares is none of its own
    own = values > 0.0
    table = sparse.csr_matrix(
        (np.ones(rows.size), (np.repeat(np.arange(rounds), wide), places.ravel())), shape=(rounds, len(values))
    )[:, own]
    common = (table @ table.T).toarray()
    np.fill_diagonal(common, 0.0)
    pairs = rounds * (rounds - 1) // 2
    # as many as two rounds have on average, but for those that are accused; at least what single precision gives
    expected = max(float(np.median(common)), wide**2 * _SINGLE) + 1.0
    most = float(common.max())
    improbable = float(special.pdtrc(max(most / 2.0 - 1.0, 0.0), 2.0 * expected)) * pairs
    return most >= 8.0 and improbable < LEVEL
