"""account on random runs: leakage <= guarantee, no NaN, monotone; counts, orders and directions on random losses.

A setting is drawn by numpy from its number, so every number is the same run everywhere. `make test` takes sixty of them, without
two to thirty rounds of the averaged mechanisms and without ASGM on a dozen records, where the slower engine, the grid, answers;
`make test-all` takes a thousand, without exception.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noisymean as nm
import strategies
from effort import THOROUGH, examples
from noisymean.compose.engine import Rounds
from noisymean.laws.closed import Gaussian
from noisymean.laws.gaussian import GaussianPairCumulants, gaussian_pair
from noisymean.laws.subsampled import Subsampled
from noisymean.mechanisms import exact_rate
from noisymean.tradeoff import Side
from noisymean.words import TooLarge
from rounds_of import ByHand, sgm_cumulants

KINDS = (nm.SGM, nm.EASGM, nm.ASGM, nm.FEASGM)


class Setting(NamedTuple):
    mechanism: Any
    steps: int
    delta: float
    epsilon: float


def setting(number: int, *, quick: bool) -> Setting:
    generator = np.random.default_rng(number)

    def spread(low: float, high: float) -> float:
        return float(np.exp(generator.uniform(np.log(low), np.log(high))))

    kind = KINDS[generator.integers(len(KINDS))]
    count, dimension = round(spread(1, 1e6)), round(spread(1, 1e8))
    rate = (1.0, round(spread(1e-4, 1.0), 6), round(float(generator.uniform(0.01, 0.99)), 4))[generator.integers(3)]
    if kind is nm.FEASGM and generator.random() < 0.8:
        count = stepping_size(count, exact_rate(rate))
    sigma, steps = spread(0.3, 30.0), round(spread(1, 1e4))
    delta, epsilon = spread(1e-12, 1e-2), spread(0.01, 10.0)
    if quick and kind is not nm.SGM and 1 < steps < 300:
        steps *= 100
    if quick and kind is nm.ASGM:
        count = max(count, 100)
    return Setting(
        kind(dataset_size=count, dimension=dimension, sample_rate=rate, noise_multiplier=sigma), steps, delta, epsilon
    )


def stepping_size(count: int, rate: Fraction) -> int:
    """A size near `count` at which floor(N q) steps when a record is added."""
    level = max(2, math.floor(count * rate))
    return max(1, math.ceil(level / rate) - 1)


def check(drawn: Setting) -> None:
    mechanism, steps, delta, epsilon = drawn
    by_delta = nm.account(mechanism, steps=steps, delta=delta)
    claimed, low = by_delta.claimed.epsilon, by_delta.claimed_lower.epsilon
    leaked, sound = by_delta.leakage.epsilon, by_delta.guarantee.epsilon
    assert claimed is not None
    assert low is not None
    assert leaked is not None
    assert 0.0 <= low <= claimed < math.inf, drawn
    assert 0.0 <= leaked < math.inf, drawn
    if sound is None:
        # only where the truth itself is beyond what is reported, and said so
        assert TooLarge() in by_delta.unproved, drawn
        assert leaked > 1e6, drawn
    else:
        assert leaked <= sound, drawn
    by_epsilon = nm.account(mechanism, steps=steps, epsilon=epsilon)
    shares = (
        by_epsilon.claimed_lower.delta,
        by_epsilon.claimed.delta,
        by_epsilon.leakage.delta,
        by_epsilon.guarantee.delta,
    )
    assert all(share is not None and 0.0 <= share <= 1.0 for share in shares), drawn
    assert shares[0] <= shares[1], drawn
    assert shares[2] <= shares[3], drawn


@pytest.mark.parametrize("number", range(60 if THOROUGH else 12))
def test_leakage_is_at_most_the_guarantee(number: int) -> None:
    check(setting(number, quick=True))


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(10))
def test_leakage_is_at_most_the_guarantee_a_thousand_times(hundred: int) -> None:
    for number in range(100 * hundred, 100 * hundred + 100):
        check(setting(1_000 + number, quick=False))


def answers(mechanism: Any, steps: int, delta: float) -> tuple[float, float, float]:
    account = nm.account(mechanism, steps=steps, delta=delta)
    sound = account.guarantee.epsilon
    assert account.claimed.epsilon is not None
    assert account.leakage.epsilon is not None
    return account.claimed.epsilon, account.leakage.epsilon, math.inf if sound is None else sound


def assert_no_less(more: tuple[float, ...], less: tuple[float, ...], slacks: tuple[float, ...] = (1e-9,) * 3) -> None:
    for large, small, slack in zip(more, less, slacks, strict=True):
        assert large >= small * (1.0 - slack)


MONOTONE = [
    (nm.SGM(sample_rate=0.02, noise_multiplier=1.2), 300, 1e-5),
    (nm.EASGM(dataset_size=60_000, dimension=26_010, sample_rate="256/60000", noise_multiplier=1.0), 500, 1e-5),
    (nm.EASGM(dataset_size=40, dimension=300, sample_rate=0.2, noise_multiplier=4.0), 100, 1e-7),
    (nm.FEASGM(dataset_size=1_999, dimension=5_000, sample_rate=0.05, noise_multiplier=3.0), 80, 1e-4),
    (nm.ASGM(dataset_size=3_000, dimension=200, sample_rate=0.1, noise_multiplier=2.0), 120, 1e-6),
    (nm.ASGM(dataset_size=500, dimension=200, sample_rate=1, noise_multiplier=9.0), 70, 1e-6),
]


@pytest.mark.parametrize(
    ("mechanism", "steps", "delta"),
    # the second is the one that takes longest
    [pytest.param(*one, marks=pytest.mark.slow if number == 1 else ()) for number, one in enumerate(MONOTONE)],
    ids=[type(m).__name__ for m, _, _ in MONOTONE],
)
def test_monotone(mechanism: Any, steps: int, delta: float) -> None:
    """More rounds, a smaller delta and less noise never cost less.

    The best attack of all datasets falls with sigma: gradients may be scaled down. The best of a finite family of pairs need
    not, and does not where scaling the new record down helps; the family then loses a few parts in 10^4.
    """
    here = answers(mechanism, steps, delta)
    assert_no_less(answers(mechanism, steps + 1, delta), here)
    assert_no_less(answers(mechanism, steps, delta * 0.9), here)
    fields = {name: getattr(mechanism, name) for name in ("dataset_size", "dimension", "sample_rate")}
    noisier = type(mechanism)(noise_multiplier=1.3 * mechanism.noise_multiplier, **fields)
    assert_no_less(here, answers(noisier, steps, delta), (1e-9, 1e-3, 1e-9))


def sgm(rate: float, sigma: float) -> ByHand:
    return ByHand(lambda: Subsampled(Gaussian(1.0 / sigma), rate), sgm_cumulants(rate, sigma))


def pair(dimension: int, shift: float, step: int) -> ByHand:
    log_scale = -float(np.log1p(1.0 / step))
    return ByHand(
        lambda: gaussian_pair(dimension, shift, log_scale=log_scale),
        GaussianPairCumulants(float(dimension), np.ones(1), np.array([shift]), log_scale),
    )


def losses() -> st.SearchStrategy[ByHand]:
    return st.one_of(
        st.builds(sgm, st.floats(0.01, 0.5), st.floats(0.8, 5.0)),
        st.builds(pair, st.integers(5, 500), st.floats(0.0, 0.2), st.integers(20, 2_000)),
    )


parts = st.lists(st.tuples(st.integers(40, 400), losses()), min_size=2, max_size=4)
deltas = strategies.log_floats(1e-10, 1e-2)


def interval(rounds: Rounds, delta: float) -> list[float]:
    return [rounds.epsilon(delta, side) for side in (Side.BELOW, Side.ABOVE)]


@examples(8)
@given(parts, deltas, st.randoms(use_true_random=False))
def test_any_order_and_any_split(rounds: list[tuple[int, ByHand]], delta: float, random: Any) -> None:
    expected = interval(Rounds(tuple(rounds)), delta)
    shuffled = list(rounds)
    random.shuffle(shuffled)
    split = [half for count, loss in shuffled for half in ((count // 3, loss), (count - count // 3, loss))]
    assert interval(Rounds(tuple(shuffled)), delta) == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert interval(Rounds(tuple(split)), delta) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@examples(8)
@given(parts, deltas)
def test_directions_swap(rounds: list[tuple[int, ByHand]], delta: float) -> None:
    """The inverse of the inverse is the run; the inverse of a run is the run of swapped curves."""
    run = Rounds(tuple(rounds))
    assert interval(run.inverse().inverse(), delta) == interval(run, delta)
    low, high = interval(run, delta)
    assert low <= high
    # delta of the reversed pair by its definition, from the tails of the forward one
    epsilon = max(run.inverse().epsilon(delta, Side.NEAREST), 1e-3)
    tails = run.tradeoff().tails(np.array([-epsilon]))
    reverse = float(np.exp(tails.p_below[0]) - np.exp(epsilon + tails.q_below[0]))
    assert math.exp(run.inverse().log_delta(epsilon, Side.NEAREST)) == pytest.approx(reverse, rel=1e-4, abs=1e-14)


@examples(8)
@given(parts, deltas, st.integers(0, 3))
def test_one_more_round_leaks_more(rounds: list[tuple[int, ByHand]], delta: float, which: int) -> None:
    index = which % len(rounds)
    longer = [(count + (i == index), loss) for i, (count, loss) in enumerate(rounds)]
    here, there = interval(Rounds(tuple(rounds)), delta), interval(Rounds(tuple(longer)), delta)
    assert_no_less(tuple(there), tuple(here), (1e-9, 1e-9))
