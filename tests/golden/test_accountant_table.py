"""Runs whose numbers were computed elsewhere: the project's table of leakages, and the peers' settings.

Provenance. TABLE: an independent first computation of the leakage on the pair (D all-zero, new gradient C u), printed to
three digits with +-0.02 and never refined; every row is computed a third time here, by `many_rounds_oracles.delta` (Fourier
inversion on one vertical line, no code of the package). Its column "claimed" came from an unrefined grid and is an upper bound.
PEERS: dp-accounting 0.6.0 (PLD accountant, grids 1e-4 to 1e-6), prv-accountant 0.2.0 and opacus 1.6.0, run on settings A, B and C.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

import many_rounds_oracles as reference
import noisymean as nm
from noisymean.pairs import ALL_ZERO

DELTA = 1e-5


class Row(NamedTuple):
    mechanism: Any
    steps: int
    # what the noise of D' is scaled by: K/(K+1)
    step: int
    claimed: float
    leakage: float


def run(kind: Any, count: int, dimension: int, rate: object, sigma: float) -> Any:
    return kind(dataset_size=count, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)


TABLE = {
    "MNIST CNN": Row(run(nm.EASGM, 60_000, 26_010, "256/60000", 1.0), 3_516, 60_000, 1.355, 1.618),
    "the paper's Opacus figure": Row(run(nm.FEASGM, 140_199, 26_010, 0.005, 10.0), 200, 700, 0.025, 29.6),
    "WRN-16-4": Row(run(nm.EASGM, 50_000, 2_700_000, "4096/50000", 3.0), 875, 50_000, 3.60, 7.66),
    "ViT-B": Row(run(nm.EASGM, 50_000, 86_000_000, 0.02, 1.0), 1_000, 50_000, 3.90, 69.4),
    "1e9 parameters": Row(run(nm.EASGM, 10**6, 10**9, 1e-3, 0.8), 3_000, 10**6, 0.464, 12.9),
}


@pytest.mark.parametrize("name", TABLE)
def test_table(name: str) -> None:
    mechanism, steps, step, claimed, leakage = TABLE[name]
    account = nm.account(mechanism, steps=steps, delta=DELTA, pair="larger")
    leaked, sound = account.leakage.epsilon, account.guarantee.epsilon
    assert leaked is not None
    assert sound is not None
    # the best attacker of the family is at least as good as the table's, and the table is good to +-0.02
    assert leaked >= leakage - 0.02 - 0.005 * leakage
    assert leaked == pytest.approx(leakage, rel=0.01)
    assert account.claimed.epsilon == pytest.approx(claimed, abs=0.007, rel=0.002)
    assert account.verdict == "violated"
    assert leaked <= sound

    # the table's own pair, a third time, by other means
    line = reference.zero_pair(mechanism.q, mechanism.noise_multiplier, step / (step + 1), mechanism.dimension)
    parts = [(steps, line)]
    best = max(reference.delta(parts, leaked * (1.0 - 1e-6), reverse=reverse) for reverse in (False, True))
    assert best >= DELTA * (1.0 - 1e-3) or account.leakage.pair != ALL_ZERO
    assert all(reference.delta(parts, sound, reverse=reverse) <= DELTA * (1.0 + 1e-9) for reverse in (False, True))


# (rate, sigma, steps, a range that every peer's bracket or bound allows)
PEERS = {
    # dp-accounting: 1.82824 (grid 1e-4, from above); prv: [1.81811, 1.83837]
    "A": (0.01, 1.0, 1_000, 1.81811, 1.82824),
    # dp-accounting at grid 1e-6: 0.018726; prv: [.00889, .02889]
    "B": (0.005, 10.0, 200, 0.0187255, 0.0187265),
    # dp-accounting: 10.05366 (grid 1e-4, from above); prv: [10.043, 10.064]
    "C": (0.01, 0.8, 10_000, 10.043, 10.05366),
}


@pytest.mark.parametrize("name", PEERS)
def test_peers(name: str) -> None:
    rate, sigma, steps, least, most = PEERS[name]
    account = nm.account(nm.SGM(sample_rate=rate, noise_multiplier=sigma), steps=steps, delta=DELTA)
    low, high = account.claimed_lower.epsilon, account.claimed.epsilon
    assert low is not None
    assert high is not None
    assert high >= least
    assert low <= most
    assert 0.0 <= high - low <= 1e-3 * max(high, 0.1)
    line = reference.subsampled_gaussian(rate, sigma)
    assert reference.delta([(steps, line)], low) >= DELTA * (1.0 - 1e-10)
    assert reference.delta([(steps, line)], high) <= DELTA * (1.0 + 1e-10)


# (rate, sigma, steps, epsilon, how well that is known): where peers need 15 s to minutes, or fail
HARD = {
    # dp-accounting 7300.69, from above, in 15-31 s; opacus prv runs out of memory
    "half of the records, little noise": (0.5, 0.5, 10_000, 7_299.7, 1.0),
    # dp-accounting in 32 s
    "hardly any noise": (0.01, 0.1, 100, 354.1, 0.2),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_cases_answer(name: str) -> None:
    rate, sigma, steps, epsilon, known_to = HARD[name]
    account = nm.account(nm.SGM(sample_rate=rate, noise_multiplier=sigma), steps=steps, delta=DELTA)
    low, high = account.claimed_lower.epsilon, account.claimed.epsilon
    assert low is not None
    assert high is not None
    assert low <= epsilon + known_to
    assert high >= epsilon - known_to
    assert 0.0 <= high - low <= 1e-3 * high
    assert account.verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_hard_cases_against_fourier_inversion(name: str) -> None:
    """Minutes, on a line long enough for the bump at theta/sigma."""
    rate, sigma, steps, _, _ = HARD[name]
    account = nm.account(nm.SGM(sample_rate=rate, noise_multiplier=sigma), steps=steps, delta=DELTA)
    low, high = account.claimed_lower.epsilon, account.claimed.epsilon
    line = reference.subsampled_gaussian(rate, sigma, reach=30.0 + 3.0 / sigma, points=24_001)
    assert reference.delta([(steps, line)], low) >= DELTA * (1.0 - 1e-8)
    assert reference.delta([(steps, line)], high) <= DELTA * (1.0 + 1e-8)


def test_the_reference_knows_its_closed_forms() -> None:
    """q = 1: G_{sqrt(T)/sigma}, delta of Balle and Wang 2018; both directions."""
    line = reference.subsampled_gaussian(1.0, 4.0)
    for steps in (4, 100):
        mu = math.sqrt(steps) / 4.0
        for epsilon in (0.2, 1.0, 5.0):
            exact = 0.5 * math.erfc((epsilon / mu - mu / 2.0) / math.sqrt(2.0)) - math.exp(epsilon) * 0.5 * math.erfc(
                (epsilon / mu + mu / 2.0) / math.sqrt(2.0)
            )
            for reverse in (False, True):
                assert reference.delta([(steps, line)], epsilon, reverse=reverse) == pytest.approx(exact, rel=1e-8)
