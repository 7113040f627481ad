"""Audits of mechanisms whose truth is known, many of them: how often is an audit wrong, and how much does it show?

Seeds are fixed. Bands: the number of wrong audits may exceed its mean by what a binomial does once in a million.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import binom

import noisymean as nm
from noisymean.audit import Audit, audit, distinguisher
from noisymean.audit.distinguishers.base import Judge, Labelled, first_column, spread
from noisymean.audit.estimate import estimate
from noisymean.audit.laws import KnownPair
from noisymean.audit.reference import simulated
from noisymean.audit.verdict import judge
from noisymean.laws.closed import Gaussian
from noisymean.mechanisms import PublicRate
from noisymean.targets.protocol import Structure
from noisymean.targets.records import Gradients
from noisymean.targets.synthetic import Synthetic

CONFIDENCE = 0.9


def allowed(audits: int, confidence: float = CONFIDENCE) -> int:
    """Wrong audits that chance explains."""
    return int(binom.isf(1e-6, audits, 1.0 - confidence))


def noisy_sums() -> Iterator[Synthetic]:
    """Mechanisms that satisfy their claim, and attain it: the worst case for a false alarm."""
    for sigma, q in ((1.0, 1), (1.0, "0.5"), (3.0, "0.2"), (0.6, "0.7")):
        mechanism = nm.SGM(dataset_size=4, dimension=8, sample_rate=q, noise_multiplier=sigma)
        yield Synthetic(mechanism=mechanism, gradients=Gradients.ZERO)


@pytest.mark.parametrize("audits", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_true_claims_are_not_called_violated(audits: int) -> None:
    """Whole audits, from the mechanism to the verdict."""
    targets, wrong = list(noisy_sums()), 0
    rules = [distinguisher(None, target) for target in targets]
    claims = [target.claim() for target in targets]
    for number in range(audits):
        which = number % len(targets)
        result = audit(
            targets[which], rules[which], seed=number, trials=1000, confidence=CONFIDENCE, claim=claims[which]
        )
        wrong += result.verdict.word == "violated"
    assert wrong <= allowed(audits)


@pytest.mark.slow
def test_a_learned_score_does_not_raise_false_alarms_either() -> None:
    target = next(noisy_sums())
    rule, wrong = distinguisher("learned", target), 0
    for number in range(200):
        wrong += audit(target, rule, seed=number, trials=800, confidence=CONFIDENCE).verdict.word == "violated"
    assert wrong <= allowed(200)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("audits", [400, pytest.param(4000, marks=pytest.mark.slow)])
def test_all_limits_hold_together(mu: float, audits: int) -> None:
    """Scores of a Gaussian pair, whose every number is known: how often is any limit of an estimate wrong?"""
    generator = np.random.default_rng(int(10 * mu))
    truth = Gaussian(mu)
    main = 0.5 * mu
    sample = generator.standard_normal((2, 4000))
    rule = Judge(first_column, main, spread(sample[0], sample[1] + mu, main))
    delta = truth.advantage()
    wrong = by_corner = 0
    for _ in range(audits):
        scores = generator.standard_normal((2, 500, 1))
        found = estimate(Labelled(scores[0], scores[1] + mu), rule, confidence=CONFIDENCE, delta=1e-5)
        corner = bool((found.corner_beta < truth(found.corner_alpha) - 1e-12).any())
        guesses = found.delta_lower > delta + 1e-12
        epsilon = found.epsilon_lower > (truth.epsilon(1e-5) if mu else 0.0) + 1e-9
        wrong += corner or guesses or epsilon or judge(found, truth).word == "violated"
        by_corner += corner
    assert wrong <= allowed(audits)
    # the share of the curve and the point is kept by itself
    assert by_corner <= binom.isf(1e-6, audits, 0.4 * (1.0 - CONFIDENCE))


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_intervals_cover_at_their_level(rate: float) -> None:
    generator = np.random.default_rng(5)
    audits, outside = 1000, 0
    for _ in range(audits):
        scores = (generator.random((2, 300, 1)) < rate).astype(float)
        rule = Judge(first_column, 0.5, np.empty(0))
        found = estimate(Labelled(scores[0], 1.0 - scores[1]), rule, confidence=CONFIDENCE, delta=1e-5)
        inside = all(side.lower <= rate <= side.upper for side in (found.alpha, found.beta))
        outside += not inside
    assert outside <= binom.isf(1e-6, audits, 0.2 * (1.0 - CONFIDENCE))


EASGM_RATES = ("0.005", "0.1", "0.5", "0.6", "0.9", "1")
ASGM_RATES = ("0.5", "0.6", "0.7", "0.8", "0.9")


def paper_setting(kind: type[PublicRate], q: str, count: int, n: int = 100) -> Synthetic:
    mechanism = kind(dataset_size=count, dimension=n, sample_rate=q, noise_multiplier=10.0)
    return Synthetic(mechanism=mechanism, gradient_seed=0)


def powerful(kind: type[PublicRate], q: str, count: int) -> Audit:
    target = paper_setting(kind, q, count)
    result = audit(target, distinguisher("likelihood-ratio", target), seed=0)
    truth, shown = result.reference.curve.advantage(), result.found.delta_lower
    assert shown <= truth + 4.0 * result.reference.standard_error
    if truth >= 0.6:
        assert shown >= 0.95 * truth
    else:
        assert shown >= truth - 0.04
    return result


@pytest.mark.parametrize(
    ("kind", "q", "count"), [(nm.EASGM, "0.005", 2), (nm.EASGM, "0.5", 5), (nm.ASGM, "0.5", 5), (nm.ASGM, "0.9", 2)]
)
def test_power_on_the_papers_grid(kind: type[PublicRate], q: str, count: int) -> None:
    powerful(kind, q, count)


@pytest.mark.slow
def test_power_on_all_of_the_papers_grid() -> None:
    for kind, rates in ((nm.EASGM, EASGM_RATES), (nm.ASGM, ASGM_RATES)):
        for q in rates:
            shown = [powerful(kind, q, count) for count in (2, 3, 4, 5)]
            # leakage falls with N; every claim is violated
            truths = [result.reference.curve.advantage() for result in shown]
            assert all(later < earlier + 0.003 for earlier, later in zip(truths, truths[1:], strict=False))
            assert all(result.verdict.word == "violated" for result in shown)


def truth_of(kind: type[PublicRate], q: str, count: int, n: int) -> float:
    pair = KnownPair(paper_setting(kind, q, count, n).known())
    losses = simulated(pair, 1, np.random.default_rng(3), 20_000)
    return float(np.mean(np.abs(np.tanh(0.5 * np.concatenate(losses)))))


def test_the_papers_trends() -> None:
    by_size = [truth_of(nm.EASGM, "0.1", count, 100) for count in (2, 3, 4, 5)]
    assert by_size == sorted(by_size, reverse=True)
    for kind, q in ((nm.EASGM, "0.05"), (nm.ASGM, "0.7")):
        by_dimension = [truth_of(kind, q, 4, n) for n in (3, 10, 30, 100, 300)]
        assert by_dimension == sorted(by_dimension)
    by_rate = [truth_of(nm.ASGM, q, 4, 100) for q in ASGM_RATES]
    assert by_rate == sorted(by_rate)


@pytest.mark.parametrize("q", EASGM_RATES)
def test_every_easgm_of_four_records_in_100_dimensions_is_a_violation(q: str) -> None:
    target = paper_setting(nm.EASGM, q, 4)
    assert audit(target, distinguisher(None, target), seed=1, trials=1000).verdict.word == "violated"


def test_several_rounds_show_more_than_one() -> None:
    mechanism = nm.ASGM(dataset_size=5, dimension=50, sample_rate="0.7", noise_multiplier=5.0)
    one, five = (Synthetic(mechanism=mechanism, gradients=Gradients(Structure.OPPOSED.value), steps=t) for t in (1, 5))
    shown = [
        audit(target, distinguisher(None, target), seed=1, trials=4000, claim=Gaussian(0.1)).found.delta_lower
        for target in (one, five)
    ]
    assert shown[1] > shown[0] + 0.1
