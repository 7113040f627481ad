"""From scores to statements: the paper's equations, the audited curve, the verdict."""

from __future__ import annotations

import numpy as np
import pytest

from noisymean.audit.distinguishers.base import Judge, Labelled, best_threshold, first_column, spread
from noisymean.audit.estimate import delta_lower, epsilon_lower, estimate, lower_hull
from noisymean.audit.intervals import Levels, upper_limit
from noisymean.audit.verdict import judge
from noisymean.laws.closed import EpsilonDelta, Gaussian, Identity
from noisymean.tradeoff import TradeOff


def normal_trials(mu: float, count: int, seed: int = 1) -> Labelled:
    generator = np.random.default_rng(seed)
    return Labelled(generator.standard_normal((count, 1)), generator.standard_normal((count, 1)) + mu)


def test_the_papers_equations_by_hand() -> None:
    # alpha_r = 0.1, beta_r = 0.2: log(0.9/0.2), log(0.8/0.1); 1 - 0.1 - e^eps 0.2, 1 - 0.2 - e^eps 0.1
    assert epsilon_lower(0.1, 0.2, 0.0) == pytest.approx(np.log(8.0))
    assert epsilon_lower(0.2, 0.1, 0.0) == pytest.approx(np.log(8.0))
    assert epsilon_lower(0.1, 0.2, 0.05) == pytest.approx(np.log(7.5))
    assert epsilon_lower(0.7, 0.6, 0.0) == 0.0
    assert epsilon_lower(0.0, 0.5, 0.0) == np.inf
    assert delta_lower(0.1, 0.2, np.log(2.0)) == pytest.approx(0.6)
    assert delta_lower(0.5, 0.5, 0.0) == 0.0


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.3), (1.0, 0.1), (3.0, 0.0)])
def test_no_corner_of_an_epsilon_delta_curve_says_more_than_it(epsilon: float, delta: float) -> None:
    curve = EpsilonDelta(epsilon, delta)
    alpha = np.linspace(0.001, 0.999, 99)
    beta = curve(alpha)
    inside = beta > 1e-9
    assert epsilon_lower(alpha, beta, delta)[inside].max() <= epsilon + 1e-9
    assert delta_lower(alpha, beta, epsilon).max() <= delta + 1e-9


def test_every_limit_of_an_estimate() -> None:
    trials = normal_trials(1.5, 4000)
    rule = Judge(first_column, 0.75, np.array([-0.5, 2.0]))
    found = estimate(trials, rule, confidence=0.95, delta=1e-5)
    levels = Levels(0.95)
    positives = int((trials.smaller > 0.75).sum())
    assert found.alpha.estimate == positives / 4000
    assert found.alpha.upper == pytest.approx(float(upper_limit(positives, 4000, levels.side)))
    assert found.corner_alpha.size == 3
    extreme = float(upper_limit(int((trials.smaller > 2.0).sum()), 4000, levels.corner(2)))
    assert extreme in found.corner_alpha
    truth = Gaussian(1.5)
    # at the stated confidence; with this seed it holds
    assert found.delta_lower <= truth.advantage()
    assert found.delta_lower > truth.advantage() - 0.05
    assert found.epsilon_lower <= truth.epsilon(1e-5)
    assert (found.corner_beta >= truth(found.corner_alpha)).all()
    assert 1.3 < found.parametric.mu_lower <= 1.5
    # the threshold out in the tail shows more than the main one
    assert found.epsilon_lower > found.paper.epsilon_lower


def test_audited_curve_is_convex_and_above_the_truth() -> None:
    trials = normal_trials(1.0, 20_000)
    rule = Judge(first_column, 0.5, np.linspace(-2.0, 3.0, 16))
    found = estimate(trials, rule, confidence=0.95, delta=1e-5)
    alpha = np.linspace(0.0, 1.0, 201)
    curve = found.curve(alpha)
    assert (curve >= Gaussian(1.0)(alpha) - 1e-12).all()
    assert (np.diff(curve, 2) >= -1e-12).all()
    assert curve[0] <= 1.0
    assert curve[-1] == 0.0


def test_hull_of_corners() -> None:
    alpha, beta = lower_hull(np.array([0.5, 0.5, 0.2, 0.9]), np.array([0.2, 0.6, 0.75, 0.3]))
    assert alpha.tolist() == [0.0, 0.5, 1.0]
    assert beta.tolist() == [1.0, 0.2, 0.0]


@pytest.mark.parametrize("claim", [Identity(), Gaussian(0.5), EpsilonDelta(0.3, 0.0)])
def test_a_false_claim_is_refuted(claim: TradeOff) -> None:
    found = estimate(normal_trials(1.5, 5000), Judge(first_column, 0.75, np.array([2.0])), confidence=0.95, delta=1e-5)
    verdict = judge(found, claim)
    assert verdict.word == "violated"
    assert "is claimed" in verdict.reason


@pytest.mark.parametrize("claim", [Gaussian(1.5), Gaussian(3.0), EpsilonDelta(0.0, 0.9)])
def test_a_true_claim_stands(claim: TradeOff) -> None:
    found = estimate(normal_trials(1.5, 5000), Judge(first_column, 0.75, np.array([2.0])), confidence=0.95, delta=1e-5)
    assert judge(found, claim).word == "not-violated"


def test_a_corner_refutes_where_delta_at_zero_does_not() -> None:
    """delta(0) is fine, yet far out in the tail the claim is beaten."""
    generator = np.random.default_rng(1)
    larger = np.where(generator.random((20_000, 1)) < 0.1, 9.0, 0.0)
    found = estimate(
        Labelled(np.zeros((20_000, 1)), larger), Judge(first_column, 5.0, np.empty(0)), confidence=0.95, delta=1e-5
    )
    claim = EpsilonDelta(1.0, 0.01)
    assert found.delta_lower < claim.advantage()
    assert judge(found, claim).word == "violated"


def test_thresholds_leave_the_main_one_out() -> None:
    smaller, larger = np.arange(100.0), np.arange(100.0) + 50.0
    main = best_threshold(smaller, larger)
    assert 49.0 < main < 100.0
    assert main not in spread(smaller, larger, main)
    assert (np.diff(spread(smaller, larger, main)) > 0.0).all()


def test_scores_that_are_all_equal() -> None:
    found = estimate(
        Labelled(np.zeros((50, 1)), np.zeros((50, 1))),
        Judge(first_column, 0.0, np.empty(0)),
        confidence=0.95,
        delta=1e-5,
    )
    assert (found.alpha.estimate, found.beta.estimate) == (0.0, 1.0)
    assert found.delta_lower == 0.0
    assert found.epsilon_lower == 0.0
