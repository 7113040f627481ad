r"""The sum of scores of t numbers, one of which may be shifted: what an attacker on many epochs looks at.

The numbers are those of `largest`: independent and normal, one of them, which the attacker does not know, shifted by a under P
and by b under Q. Their likelihood ratio is a quotient of two sums; where no single number stands out it is nearly the product
over all of them of

    e^g(y),    g(y) = log((t - 1 + e^(b y - b^2/2)) / (t - 1 + e^(a y - a^2/2))).

The attacker rounds every g(y) to a multiple of a step, adds them up and is told the sum modulo M steps, in groups of neighbours:
all of it is post-processing. The law of such a sum is a convolution, (t-1)-fold of the law without a shift and once of the one
with it, by one transform. What that is off by is charged to every group (docs/numerics.md, "Sums of scores").
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from noisymean.laws.allocation import normal_cells
from noisymean.laws.cells import Cells, Ends
from noisymean.laws.largest import Shifted
from noisymean.numerics.logs import Array, ComplexArray

# Cells of the line on which the score is one number, steps that sums are counted modulo, and groups that are told.
_CELLS, _REACH, _FAR = 4000, 9.0, 37.0
_SIZE = 1 << 17
_GROUPS = 1500
# Deviations of the sum that fit into the window beside the largest single score.
_DEVIATIONS = 18.0
# Of the largest scores so much may be cut off the window, where they wrap around.
_RARE = 1e-12
# Relative error of masses that are sums over cells; of a transform of a mass of 1, for each of its log2 M stages; of a power, for
# its exponent.
_OF_CELLS, _OF_A_STAGE, _OF_A_POWER = 5e-13, 6e-16, 5e-16
_LARGEST_EXPONENT = 600.0


@lru_cache(maxsize=16)
def scores(count: int, p: Shifted, q: Shifted) -> Cells:
    """The sum of the scores of `count` numbers under P and under Q: never more than the truth. Neither has a mean or a scale."""
    most = max(p.shift, q.shift, 0.0)
    z = np.concatenate([[-_FAR], np.linspace(-_REACH, _REACH + most, _CELLS + 1), [_FAR + most]])
    without = normal_cells(z, 0.0)
    one = [_mixed(without, normal_cells(z, side.shift), side.present) for side in (p, q)]
    score = _score(0.5 * (np.maximum(z[:-1], -_REACH) + np.minimum(z[1:], _REACH + most)), count, p.shift, q.shift)
    mean = float(without @ score)
    deviation = math.sqrt(float(without @ np.square(score - mean)))
    seen = score[np.minimum(one[1], one[1][::-1].cumsum()[::-1]) > _RARE]
    window = float(np.ptp(seen)) + _DEVIATIONS * math.sqrt(count) * deviation
    # a sum of no scores that differ says nothing, and any step will do
    step = max(window, 1e-300) / _SIZE
    # about their mean, so that the phases of the power stay small
    places = np.round((score - mean) / step).astype(np.int64) % _SIZE
    transforms = [np.fft.rfft(np.bincount(places, mass, _SIZE)) for mass in (without, *one)]
    power, error = _power(transforms[0], count - 1)
    sums = [np.fft.irfft(power * transform, _SIZE) for transform in transforms[1:]]
    # the mean of all is put in the middle of the window, and groups are of one width
    starts = np.linspace(0, _SIZE, _GROUPS, endpoint=False).astype(np.intp)
    groups = [np.add.reduceat(np.roll(one_sum, _SIZE // 3), starts) for one_sum in sums]
    widest = float(np.max(np.diff(np.append(starts, _SIZE))))
    missed = widest / _SIZE * error
    relative = _OF_CELLS * count
    with_p, with_q = (
        Ends(np.maximum(one, 0.0) * (1.0 - relative), np.maximum(one, 0.0) * (1.0 + relative)) for one in groups
    )
    return Cells(with_p, with_q, missed)


def _mixed(without: Array, shifted: Array, present: float) -> Array:
    return present * shifted + (1.0 - present) * without


def _score(y: Array, count: int, a: float, b: float) -> Array:
    with_a, with_b = (np.exp(np.minimum(shift * y - 0.5 * shift**2, _LARGEST_EXPONENT)) for shift in (a, b))
    return np.asarray(np.log1p((with_b - with_a) / (count - 1.0 + with_a)))


def _power(transform: ComplexArray, exponent: int) -> tuple[ComplexArray, float]:
    """The transform of a sum of `exponent` terms; and the most that its values, times that of one more, are off by together."""
    stages = math.log2(_SIZE)
    each = _OF_A_STAGE * stages
    size = np.minimum(np.abs(transform) + each, 1.0)
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(transform)
        power = np.exp(exponent * logs)
        largest = np.exp(exponent * np.log(size))
        # each factor may be off; so may the power, by its exponent, and the transform of the last term
        off = exponent * each * np.exp(max(exponent - 1, 0) * np.log(size))
        off += largest * (_OF_A_POWER * (1.0 + exponent * np.abs(logs)) + each)
    # back: every value of the inverse is a mean of these, and is rounded at each stage once more
    total = 2.0 * float(np.sum(np.where(np.isfinite(off), off, 0.0)))
    return np.nan_to_num(power), total + 2.0 * each * float(np.sum(largest))
