"""The start of the lift: cells from above against a fine quadrature that knows nothing of cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

import noisymean as nm
from noisymean.compose.engine import Rounds
from noisymean.laws.all_zero import NewRecord, all_zero, all_zero_from_above
from noisymean.laws.gaussian import gaussian_pair
from noisymean.tradeoff import Side

SETTINGS = [
    (0.01, 1.0, -1e-4),
    (0.3, 2.0, -0.2),
    (0.3, 2.0, 0.2),
    (0.9, 0.5, -0.7),
    (0.5, 3.0, 0.0),
    (0.05, 0.02, 0.01),
]


def true_delta(rate: float, shift: float, log_scale: float, epsilon: float, *, backward: bool) -> float:
    """The integral of (q - e^eps p)+, or of (p - e^eps q)+, by a million midpoints: to about nine digits."""
    scale = math.exp(log_scale)
    x, step = np.linspace(-14.0 * max(scale, 1.0), shift + 14.0 * max(scale, 1.0), 1_000_001, retstep=True)
    p = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    near, far = (np.exp(-0.5 * ((x - mean) / scale) ** 2) for mean in (0.0, shift))
    q = ((1.0 - rate) * near + rate * far) / (scale * math.sqrt(2.0 * math.pi))
    first, second = (p, q) if backward else (q, p)
    return float(step * np.sum(np.maximum(first - math.exp(epsilon) * second, 0.0)))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("rate", "shift", "log_scale"), SETTINGS)
def test_cells_leak_at_least_as_much_and_hardly_more(
    rate: float, shift: float, log_scale: float, backward: bool
) -> None:
    line = NewRecord(rate, shift, log_scale)
    curve = line.backward().one_round().inverse() if backward else line.one_round()
    # a loss that is 0.1 deviations of itself out, and one that is far out
    for epsilon in (-0.1, 0.0, 0.01 * shift, 0.5 * shift, shift):
        true = true_delta(rate, shift, log_scale, epsilon, backward=backward)
        found = float(curve.delta(epsilon, Side.ABOVE))
        # the quadrature's own error: a kink in a cell of 3e-5
        assert found >= true * (1.0 - 1e-6) - 1e-10
        assert found <= true * 1.001 + 1e-6


def test_both_sides_of_one_pair() -> None:
    """From below and from above, in three dimensions, two rounds: on the grid, and by cumulants where they are known."""
    mechanism = nm.EASGM(dataset_size=20, dimension=3, sample_rate=0.3, noise_multiplier=1.0)
    below = Rounds(((2, all_zero(mechanism.neighbours, 3)),))
    above = Rounds(tuple((2, law) for law in all_zero_from_above(mechanism.neighbours, 3)))
    for one, other in ((below, above), (below.inverse(), above.inverse())):
        low, high = one.grid.epsilon(1e-5, Side.BELOW), other.grid.epsilon(1e-5, Side.ABOVE)
        assert low <= high <= 1.02 * low


def test_without_a_change_of_scale_it_is_the_noisy_sum() -> None:
    """The tails of N(0, 1) against (1-q) N(0, 1) + q N(m, 1): P[l > t] = P[x > x_t], l rising in x."""
    rate, shift = 0.2, 1.5
    line = NewRecord(rate, shift, 0.0)
    for epsilon in (0.1, 0.5, 1.0):
        x = (math.log((math.exp(epsilon) - (1.0 - rate)) / rate) + 0.5 * shift**2) / shift
        p, far = math.exp(log_ndtr(-x)), math.exp(log_ndtr(shift - x))
        exact = (1.0 - rate) * p + rate * far - math.exp(epsilon) * p
        found = float(line.one_round().delta(epsilon, Side.ABOVE))
        assert exact <= found <= exact * 1.0001
    assert all_zero_from_above(nm.SGM(sample_rate=0.2, noise_multiplier=1.0).neighbours, 7) == (
        NewRecord(0.2, 1.0, 0.0),
    )


def test_across_it_is_closed() -> None:
    mechanism = nm.EASGM(dataset_size=10, dimension=5, sample_rate=0.3, noise_multiplier=1.0)
    _, across = all_zero_from_above(mechanism.neighbours, 6)
    same = gaussian_pair(5, 0.0, log_scale=math.log(10 / 11))
    assert float(across.one_round().delta(0.3)) == pytest.approx(float(same.delta(0.3)), rel=1e-12)
