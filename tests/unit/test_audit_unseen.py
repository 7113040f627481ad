"""What an audit says that it cannot see, against audits of what is just that rare."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import noisymean as nm
from noisymean.audit import audit
from noisymean.audit.distinguishers.base import RATES, Judge, Labelled, first_column
from noisymean.audit.estimate import estimate
from noisymean.audit.sight import PROBABILITY, Check, least_event
from noisymean.audit.unseen import Generators, OtherPairs, Rare, SmallDelta, Taught
from noisymean.audit.verdict import judge
from noisymean.laws.closed import EpsilonDelta, Gaussian
from noisymean.tradeoff import TradeOff

RUNS, CONFIDENCE = 500, 0.95


def share_caught(claim: TradeOff, probability: float) -> float:
    """Of audits of an event that happens on D' alone, this often: all outcomes, each with its binomial probability."""
    # one threshold tells the event, the others nothing
    others = np.concatenate([[0.5], np.linspace(10.0, 11.0, 2 * len(RATES) - 1)])
    caught = 0.0
    for missed in range(RUNS + 1):
        larger = (np.arange(RUNS) >= missed).astype(float)[:, None]
        trials = Labelled(np.zeros((RUNS, 1)), larger)
        found = estimate(trials, Judge(first_column, 20.0, others), confidence=CONFIDENCE, delta=1e-5)
        violated = judge(found, claim).word == "violated"
        caught += binom.pmf(missed, RUNS, 1.0 - probability) * violated
    return caught


@pytest.mark.parametrize("claim", [EpsilonDelta(1.0, 1e-5), Gaussian(0.5)], ids=str)
def test_an_event_of_that_probability_is_caught_and_a_rarer_one_is_not(claim: TradeOff) -> None:
    check = Check(claim, 1e-5, CONFIDENCE, corners=True)
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if check.sees_event(middle, RUNS) else (middle, high)
    # both counts are asked to be at most their quantiles of sqrt(90 %), and one of them is zero for certain
    assert PROBABILITY <= share_caught(claim, high) < 0.99
    assert share_caught(claim, 0.8 * high) < PROBABILITY


def test_it_is_said_where_nothing_was_found() -> None:
    mechanism = nm.SGM(dataset_size=3, dimension=4, sample_rate="0.5", noise_multiplier=2.0)
    found = audit(mechanism, "learned", seed=1, trials=1000, gradients="zero")
    assert found.verdict is not None
    assert found.verdict.word == "not-violated"
    small, taught, rare, pairs, generators = found.unseen
    assert isinstance(small, SmallDelta)
    assert small.delta == least_event(found)
    assert small.epsilon == found.claimed_epsilon
    assert taught == Taught(found.finished - found.found.judged)
    # with probability (1 - 3/m)^m < 5 % none of m runs
    assert rare == Rare(found.found.judged // 2)
    assert (1.0 - 3.0 / rare.runs) ** rare.runs < 0.05
    assert (pairs, generators) == (OtherPairs(0), Generators())
    assert found.to_dict()["unseen"] == [str(one) for one in found.unseen]
    assert "This audit cannot see:" in found.sentences()
    # a test that is fixed by theory was taught nothing
    exact = audit(mechanism, seed=1, trials=400, gradients="zero")
    assert not any(isinstance(one, Taught) for one in exact.unseen)


def test_nothing_is_said_beside_a_violation() -> None:
    mechanism = nm.EASGM(dataset_size=4, dimension=100, sample_rate="0.05", noise_multiplier=10.0)
    found = audit(mechanism, seed=1, trials=400)
    assert found.verdict is not None
    assert found.verdict.word == "violated"
    assert not found.unseen
    assert found.to_dict()["unseen"] == []


def test_too_few_runs_see_no_delta() -> None:
    mechanism = nm.SGM(dataset_size=3, dimension=4, sample_rate="0.5", noise_multiplier=2.0)
    found = audit(mechanism, seed=1, trials=20, gradients="zero", claim=(4.0, 1e-5))
    assert least_event(found) is None
    assert "any delta at the claimed epsilon" in str(found.unseen[0])
