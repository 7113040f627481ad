"""cells: masses lie between their ends, and what an attacker is told leaks no more than the laws do, in either direction."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from noisymean.laws.cells import Cells, Ends, banded_masses, line_masses, ring_masses
from noisymean.tradeoff import Side

EDGES = np.array([-np.inf, -40.0, -3.0, -1e-9, 0.0, 0.4, 2.0, 8.0, 38.0, np.inf])


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (3.0, 0.5), (-1e-3, 1e-2), (0.7, 20.0)])
def test_line_masses(mean: float, scale: float) -> None:
    """Against 40 digits."""
    mp.mp.dps = 40
    found = line_masses(EDGES, np.array([mean]), np.array([scale]))
    for low, high, left, right in zip(found.low[0], found.high[0], EDGES[:-1], EDGES[1:], strict=True):
        a, b = ((mp.mpf(end) - mp.mpf(mean)) / mp.mpf(scale) for end in (left, right))
        exact = mp.ncdf(b) - mp.ncdf(a) if b < 0 else mp.ncdf(-a) - mp.ncdf(-b)
        assert low <= exact <= high + 1e-300
        # of a narrow cell only as much is known as of the tails beside it
        assert high - low <= 1e-12 * exact + 1e-14


@pytest.mark.parametrize(("spacing", "scale", "offset"), [(0.25, 1.0, 0.0), (2.0, 0.9, 30.0), (0.01, 1.1, -3.0)])
def test_banded_masses(spacing: float, scale: float, offset: float) -> None:
    """Of many components of one scale, against the sum over all of them; far cells hold what all of them have there."""
    means = offset + spacing * np.arange(-200.0, 201.0)
    weights = np.exp(-0.5 * (np.arange(-200.0, 201.0) / 40.0) ** 2)
    weights /= weights.sum()
    edges = np.concatenate([[-np.inf], offset + np.linspace(-90.0, 90.0, 301), [np.inf]])
    found, every = banded_masses(edges, weights, means, scale), line_masses(edges, means, np.full(401, scale))
    least, most = weights @ every.low, weights @ every.high
    assert np.all(found.low <= most * (1 + 1e-13))
    assert np.all(found.high >= least * (1 - 1e-13))
    assert np.all(found.high - found.low <= 1e-8 * most + 1e-32)


@pytest.mark.parametrize("missed", [0.0, 1e-30])
@pytest.mark.parametrize("dimension", [1, 3, 200])
def test_ring_masses(dimension: int, missed: float) -> None:
    mp.mp.dps = 30
    squares = dimension * np.array([0.2, 0.8, 1.0, 1.2, 4.0])
    found = ring_masses(squares, dimension, np.array([1.0, 0.8]), missed)
    squares = np.concatenate([[0.0], squares, [np.inf]])
    for row, scale in enumerate((1.0, 0.8)):
        for low, high, left, right in zip(found.low[row], found.high[row], squares[:-1], squares[1:], strict=True):
            ends = [mp.mpf(end) / (2 * mp.mpf(scale) ** 2) if np.isfinite(end) else mp.inf for end in (left, right)]
            exact = mp.gammainc(mp.mpf(dimension) / 2, ends[0], ends[1], regularized=True)
            assert low * (1 - 4e-12) <= exact <= high * (1 + 4e-12) + 1e-300


def test_what_is_told_is_on_its_side() -> None:
    """Random ends around known masses: delta of every measure is below the true one, forward and backward."""
    generator = np.random.default_rng(3)
    p, q = (generator.dirichlet(np.full(40, 0.3)) for _ in range(2))
    doubt = 1.0 + generator.uniform(0.0, 1e-3, 40)
    cells = Cells(Ends(p / doubt, p * doubt), Ends(q / doubt, q * doubt), missed=1e-9)
    for epsilon in (0.0, 0.5, 3.0, 12.0):
        forward = float(np.sum(np.maximum(q - np.exp(epsilon) * p, 0.0)))
        backward = float(np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0)))
        assert float(cells.one_round().delta(epsilon, Side.BELOW)) <= forward
        assert float(cells.backward().one_round().inverse().delta(epsilon, Side.BELOW)) <= backward


def test_a_mass_too_small_for_a_double_is_not_zero() -> None:
    cells = Cells(
        Ends(np.array([1.0, 0.0]), np.array([1.0, 0.0])), Ends(np.array([0.5, 0.5]), np.array([0.5, 0.5])), 0.0
    )
    assert cells.one_round().epsilon(0.1, Side.BELOW) < 800.0
