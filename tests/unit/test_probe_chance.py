"""The levels of the prober's decisions, against laws that are summed up here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from noisymean.probe.chance import (
    DEVIATIONS,
    LEVEL,
    binomial_is_improbable,
    binomial_tails,
    chi_square_range,
    is_normal,
    least_correlation,
    rate_interval,
    sum_is_improbable,
)


def masses(trials: int, rate: float) -> list[float]:
    return [math.comb(trials, k) * rate**k * (1.0 - rate) ** (trials - k) for k in range(trials + 1)]


@pytest.mark.parametrize(("trials", "rate"), [(1, 0.5), (7, 0.1), (40, 0.3), (60, 0.97)])
def test_binomial_tails(trials: int, rate: float) -> None:
    mass = masses(trials, rate)
    few, many = binomial_tails(np.arange(trials + 1.0), trials, rate)
    assert few == pytest.approx([math.fsum(mass[: k + 1]) for k in range(trials + 1)], rel=1e-9)
    assert many == pytest.approx([math.fsum(mass[k:]) for k in range(trials + 1)], rel=1e-9)
    # all that is called improbable together has less than the level
    wrong = math.fsum(mass[k] for k in range(trials + 1) if binomial_is_improbable(k, trials, rate))
    assert wrong <= LEVEL


def test_a_rate_of_one_leaves_nothing_to_chance() -> None:
    assert not binomial_is_improbable(12, 12, 1.0)
    assert binomial_is_improbable(11, 12, 1.0)
    assert binomial_is_improbable(1, 12, 0.0)


def test_the_interval_of_a_rate_is_where_the_count_is_not_improbable() -> None:
    for count, trials in ((0, 50), (3, 50), (300, 1000), (50, 50)):
        low, high = rate_interval(count, trials)
        inside = np.linspace(low, high, 7)[1:-1]
        assert not any(binomial_is_improbable(count, trials, rate) for rate in inside)
        for outside in (low - 1e-6, high + 1e-6):
            if 0.0 < outside < 1.0:
                assert binomial_is_improbable(count, trials, outside)


def test_the_bound_on_a_sum_is_one() -> None:
    """The exact law of the sum of 30 squares of a small binomial count, by convolution."""
    records, rate, rounds = 4, 0.1, 30
    values = (np.arange(records + 1.0) - records * rate) ** 2
    chances = np.array(masses(records, rate))
    law = {0.0: 1.0}
    for _ in range(rounds):
        after: dict[float, float] = {}
        for total, mass in law.items():
            for value, chance in zip(values.tolist(), chances.tolist(), strict=True):
                key = round(total + value, 6)
                after[key] = after.get(key, 0.0) + mass * chance
        law = {total: mass for total, mass in after.items() if mass > 1e-40}
    wrong = math.fsum(mass for total, mass in law.items() if sum_is_improbable(total, rounds, values, chances))
    assert 0.0 < wrong <= LEVEL
    # and not a lame one: a count that is always the mean, or one that varies twice as much over many rounds, is seen
    assert sum_is_improbable(400 * 0.16, 400, values, chances)
    assert sum_is_improbable(400 * 2.0 * 0.36, 400, values, chances)
    assert not sum_is_improbable(400 * 0.36, 400, values, chances)
    # thousands of records, whose masses underflow
    many = 3000
    logs = [math.lgamma(many + 1) - math.lgamma(k + 1) - math.lgamma(many - k + 1) for k in range(many + 1)]
    mass = np.exp(np.array(logs) + np.arange(many + 1) * math.log(0.01) + (many - np.arange(many + 1)) * math.log(0.99))
    squares = (np.arange(many + 1.0) - 30.0) ** 2
    assert not sum_is_improbable(200 * 29.7, 200, squares, mass)
    assert sum_is_improbable(200 * 2.5 * 29.7, 200, squares, mass)


def test_mean_squares_of_normal_numbers() -> None:
    """Two numbers: the mean square is exponential."""
    low, high = chi_square_range(2.0)
    assert -math.expm1(-low) == pytest.approx(LEVEL / 2.0)
    assert math.exp(-high) == pytest.approx(LEVEL / 2.0)
    low, high = chi_square_range(1e6)
    assert high - 1.0 == pytest.approx(DEVIATIONS * math.sqrt(2e-6), rel=0.01)
    assert math.erfc(DEVIATIONS / math.sqrt(2.0)) == pytest.approx(LEVEL)


def test_correlations_of_independent_vectors() -> None:
    """In three dimensions the correlation is uniform."""
    assert least_correlation(3, 10) == pytest.approx(1.0 - LEVEL / 10, abs=1e-12)
    assert least_correlation(256, 1) == pytest.approx(DEVIATIONS / 16.0, rel=0.1)


def test_normal_numbers_are_told_from_others() -> None:
    generator = np.random.default_rng(0)
    count = 60_000
    assert is_normal(generator.standard_normal(count))
    assert not is_normal(math.sqrt(3.0) * generator.uniform(-1.0, 1.0, count))
    assert not is_normal(generator.laplace(scale=math.sqrt(0.5), size=count))
    for far in (2.0, 3.0):
        cut = np.clip(generator.standard_normal(2 * count), -far, far)
        assert not is_normal(cut / np.sqrt(np.mean(cut**2)))
