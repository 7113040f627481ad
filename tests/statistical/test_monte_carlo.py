"""Run the mechanisms, attack them with the exact likelihood-ratio test, and see that every bound holds.

The mechanism is run as it is written: draw a batch, add up its gradients, add noise, divide. The attacker knows both datasets
and enumerates all batches (tests/oracles.py). Errors of every threshold at once are inside bands of Dvoretzky, Kiefer and
Wolfowitz (Massart 1990) but for one case in a million, and seeds are fixed: no luck is involved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import betaincinv

import noisymean as nm
import oracles
from noisymean.laws.size_revealed import size_revealed
from noisymean.leakage import explicit_pairs
from noisymean.pairs import Added, AddedAcross, Datasets

FAILURE = 1e-6
FEW, MANY = 20_000, 1_000_000

Divisor = Callable[[int, int], float]
THRESHOLD_QUANTILES = np.linspace(0.002, 0.998, 250)


def divisor_of(kind: Any, rate: float) -> Divisor:
    """(records, batch size) -> denominator, straight from the definitions."""
    if kind is nm.EASGM:
        return lambda records, batch: records * rate
    if kind is nm.FEASGM:
        return lambda records, batch: max(float(int(records * rate + 1e-9)), 1.0)
    return lambda records, batch: max(float(batch), 1.0)


def run(gradients: np.ndarray, rate: float, sigma: float, divisor: Divisor, trials: int, seed: int) -> np.ndarray:
    """`trials` outputs of one round."""
    generator = np.random.default_rng(seed)
    records, dimension = gradients.shape
    chosen = generator.random((trials, records)) < rate
    noisy_sum = chosen @ gradients + sigma * generator.standard_normal((trials, dimension))
    denominators = np.array([divisor(records, size) for size in range(records + 1)])
    return noisy_sum / denominators[chosen.sum(axis=1), None]


class Attack(NamedTuple):
    """Errors of the optimal tests at many thresholds, and the half-width of their simultaneous bands."""

    alpha: np.ndarray
    beta: np.ndarray
    band: float

    def highest(self) -> tuple[np.ndarray, np.ndarray]:
        """Points that lie above the true curve: both errors too large."""
        return np.minimum(self.alpha + self.band, 1.0), self.beta + self.band

    def lowest(self) -> tuple[np.ndarray, np.ndarray]:
        """Points that lie below the true curve: both errors too small."""
        return np.maximum(self.alpha - self.band, 0.0), self.beta - self.band


def attack(kind: Any, gradients: np.ndarray, rate: float, sigma: float, trials: int, seed: int) -> Attack:
    divisor = divisor_of(kind, rate)
    samples, laws = [], []
    for index, rows in enumerate((gradients[:-1], gradients)):
        samples.append(run(rows, rate, sigma, divisor, trials, 2 * seed + index))
        records = rows.shape[0]
        laws.append(oracles.one_round(rows, rate, sigma, partial(divisor, records)))
    loss_p, loss_q = (
        np.concatenate(
            [
                laws[1].log_density(part) - laws[0].log_density(part)
                for part in np.array_split(x, -(-x.shape[0] // 20_000))
            ]
        )
        for x in samples
    )
    thresholds = np.quantile(np.concatenate([loss_p, loss_q]), THRESHOLD_QUANTILES)
    alpha = 1.0 - np.searchsorted(np.sort(loss_p), thresholds, side="right") / trials
    beta = np.searchsorted(np.sort(loss_q), thresholds, side="right") / trials
    return Attack(alpha, beta, float(np.sqrt(np.log(2.0 / FAILURE) / (2.0 * trials))))


def random_gradients(seed: int, records: int, dimension: int) -> np.ndarray:
    generator = np.random.default_rng(1_000 + seed)
    rows = generator.standard_normal((records, dimension))
    lengths = generator.choice([0.3, 1.0, 1.0], size=(records, 1))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * lengths


# (N, n, q, sigma)
SETTINGS = [
    (1, 1, 0.5, 1.0),
    (1, 5, 1.0, 0.7),
    (2, 3, 0.5, 0.5),
    (3, 2, 0.9, 1.0),
    (4, 5, 0.25, 2.0),
    (4, 5, 0.7, 1.0),
    (4, 2, 0.5, 5.0),
]
KINDS = (nm.EASGM, nm.ASGM, nm.FEASGM)
both_sizes = pytest.mark.parametrize("trials", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])


@pytest.mark.thin(2)
@both_sizes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_guarantees_hold_for_random_gradients(kind: Any, setting: tuple[int, int, float, float], trials: int) -> None:
    size, dimension, rate, sigma = setting
    mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    for seed in range(2):
        gradients = random_gradients(seed, size + 1, dimension)
        alpha, beta = attack(kind, gradients, rate, sigma, trials, seed).highest()
        bounds = {
            "guarantee": nm.guarantee(mechanism),
            "guarantee_tight": nm.guarantee_tight(mechanism),
            "per_pair": nm.per_pair(mechanism, gradients),
        }
        if kind is nm.ASGM:
            bounds["size_revealed"] = size_revealed(size, rate, sigma)
        for name, bound in bounds.items():
            assert (bound.lower(alpha) <= beta).all(), name


@both_sizes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param((1, 2, 0.5, 1.0), marks=pytest.mark.slow),
        pytest.param((3, 3, 0.5, 1.0), marks=pytest.mark.slow),
        (4, 5, 0.7, 2.0),
        (4, 1, 0.8, 0.5),
    ],
    ids=str,
)
def test_explicit_pairs_leak_what_simulation_says(
    kind: Any, setting: tuple[int, int, float, float], trials: int
) -> None:
    """leakage is the curve of an attack that exists: not below the best one simulated, and close to it."""
    size, dimension, rate, sigma = setting
    mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    for seed, pair in enumerate(explicit_pairs(mechanism)):
        simulated = attack(kind, gradients_of(pair.datasets, size, dimension), rate, sigma, trials, seed)
        low_alpha, low_beta = simulated.lowest()
        assert (pair.curve.upper(low_alpha) >= low_beta).all(), pair.datasets
        high_alpha, high_beta = simulated.highest()
        assert (pair.curve(high_alpha) <= high_beta + 1e-3).all(), pair.datasets


def gradients_of(datasets: Datasets, size: int, dimension: int) -> np.ndarray:
    """N + 1 gradients along the first axis, or the last of them along the second."""
    assert isinstance(datasets, Added | AddedAcross)
    rows = np.zeros((size + 1, dimension))
    rows[:-1, 0] = datasets.shared
    if isinstance(datasets, AddedAcross):
        rows[-1, 1] = datasets.across
    else:
        rows[-1, 0] = datasets.new
    return rows


@both_sizes
@pytest.mark.parametrize(("size", "dimension", "sigma"), [(1, 3, 1.0), (3, 5, 0.8), (4, 2, 2.0)])
def test_full_sampling_attains_the_guarantee(size: int, dimension: int, sigma: float, trials: int) -> None:
    """q = 1, all aligned against the new record: the guarantee is the leakage, seen from both sides of the band."""
    rows = np.zeros((size + 1, dimension))
    rows[:, 0], rows[-1, 0] = 1.0, -1.0
    for kind in (nm.EASGM, nm.ASGM):
        mechanism = kind(dataset_size=size, dimension=dimension, sample_rate=1, noise_multiplier=sigma)
        simulated = attack(kind, rows, 1.0, sigma, trials, 7)
        guarantee = nm.guarantee(mechanism)
        for (alpha, beta), sign in ((simulated.highest(), 1.0), (simulated.lowest(), -1.0)):
            assert (sign * (beta - guarantee(alpha)) >= 0.0).all()


@both_sizes
def test_the_check_point(trials: int) -> None:
    """N = 4, n = 20, q = 0.7, sigma = 2, alpha = 1/2: 0.211 for the optimal attack on one explicit pair."""
    mechanism = nm.ASGM(dataset_size=4, dimension=20, sample_rate=0.7, noise_multiplier=2.0)
    trials = 5 * trials if trials == FEW else trials
    rows = np.zeros((5, 20))
    rows[:, 0], rows[-1, 0] = 1.0, -1.0
    simulated = attack(nm.ASGM, rows, 0.7, 2.0, trials, 3)
    middle = int(np.argmin(np.abs(simulated.alpha - 0.5)))
    # Clopper and Pearson for the false negatives at this one threshold, 1 - 1e-6; alpha is off by less than the grid's step
    missed = round(simulated.beta[middle] * trials)
    low, high = betaincinv([missed, missed + 1], [trials - missed + 1, trials - missed], [FAILURE / 2, 1 - FAILURE / 2])
    step = 0.006 + simulated.band
    assert low - step <= 0.211 <= high + step
    assert low - step <= float(nm.leakage(mechanism).upper(0.5)) <= high + step
    assert float(nm.guarantee_tight(mechanism).lower(0.5)) <= high + step
    assert float(nm.claimed(mechanism)(0.5)) > high + 0.1, "the claim is violated, visibly"


def test_the_attacker_sees_nothing_where_there_is_nothing() -> None:
    """The simulation itself: equal laws on both sides give alpha + beta = 1 inside the band."""
    rows = np.zeros((1, 2))
    divisor = divisor_of(nm.ASGM, 0.5)
    first, second = (run(rows, 0.5, 1.0, divisor, FEW, seed) for seed in (1, 2))
    band = np.sqrt(np.log(2.0 / FAILURE) / (2.0 * FEW))
    for threshold in np.linspace(-3.0, 3.0, 31):
        alpha, beta = (first[:, 0] > threshold).mean(), (second[:, 0] <= threshold).mean()
        assert abs(alpha + beta - 1.0) <= 2.0 * band
