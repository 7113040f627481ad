"""One contract for every distinguisher, and the paper's vote against a plain version of its Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.stats import kstest

import noisymean as nm
from noisymean.audit.distinguishers import (
    NAMES,
    Labelled,
    Learned,
    LikelihoodRatio,
    NormalityTest,
    PaperVote,
    distinguisher,
    rebuilt,
)
from noisymean.audit.distinguishers.base import Distinguisher
from noisymean.audit.distinguishers.paper import passes
from noisymean.errors import InvalidInput, Undefined
from noisymean.numerics.logs import Array
from noisymean.targets.protocol import Neighbour, Target
from noisymean.targets.records import Gradients
from noisymean.targets.synthetic import Synthetic
from onlooked import Scales


def easgm(n: int = 40, count: int = 3, kind: Gradients = Gradients.RANDOM, steps: int = 1, q: str = "0.3") -> Synthetic:
    mechanism = nm.EASGM(dataset_size=count, dimension=n, sample_rate=q, noise_multiplier=2.0)
    return Synthetic(mechanism=mechanism, gradients=kind, steps=steps, max_grad_norm=0.3)


def audited(name: str, kind: Gradients, steps: int, n: int = 40, count: int = 3) -> Synthetic | Scales:
    """A mechanism on known gradients; a target whose adversary sees the weights for who needs to see them."""
    return Scales(numbers=n, ratio=1.3, steps=steps) if name == "residual" else easgm(n, count, kind, steps)


def labelled(target: Target, rule: Distinguisher, trials: int, seed: int = 1) -> Labelled:
    generator = np.random.default_rng(seed)
    return Labelled(*(rule.features(target.release(side, generator, trials), generator) for side in Neighbour))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [Gradients.RANDOM, Gradients.OPPOSED])
@pytest.mark.parametrize("steps", [1, 3])
class TestContract:
    def test_finite_rows_one_for_each_release(self, name: str, kind: Gradients, steps: int) -> None:
        target = audited(name, kind, steps)
        rule = distinguisher(name, target)
        found = labelled(target, rule, 7)
        assert found.smaller.shape[0] == found.larger.shape[0] == 7
        assert np.isfinite(found.smaller).all()

    def test_the_configuration_says_it_all(self, name: str, kind: Gradients, steps: int) -> None:
        target = audited(name, kind, steps)
        rule = distinguisher(name, target)
        again = rebuilt(rule.configuration(), type(target).from_configuration(target.configuration()))
        assert np.array_equal(labelled(target, rule, 5).larger, labelled(target, again, 5).larger)

    def test_scores_grow_towards_the_larger_dataset(self, name: str, kind: Gradients, steps: int) -> None:
        target = audited(name, kind, steps, n=60, count=2)
        rule = distinguisher(name, target)
        judge = rule.judge(labelled(target, rule, 300), None)
        fresh = labelled(target, rule, 300, seed=2)
        assert (
            np.mean(judge.score(fresh.larger) > judge.threshold)
            > np.mean(judge.score(fresh.smaller) > judge.threshold) + 0.3
        )
        assert judge.threshold not in judge.others

    def test_a_release_is_judged_by_itself(self, name: str, kind: Gradients, steps: int) -> None:
        """Features of a batch of releases are those of each alone; the vote's coins aside."""
        if name == "paper":
            pytest.skip("its coins come one batch at a time")
        target = audited(name, kind, steps)
        rule = distinguisher(name, target)
        outputs = target.release(Neighbour.SMALLER, np.random.default_rng(1), 4)
        alone = np.vstack([rule.features(outputs[[i]], np.random.default_rng(0)) for i in range(4)])
        assert rule.features(outputs, np.random.default_rng(0)) == pytest.approx(alone, rel=1e-9, abs=1e-12)


def plain_vote(target: Synthetic, x: Array, generator: np.random.Generator, test: Callable[[Array], bool]) -> float:
    """Algorithm 1 for one output, one component at a time."""
    mechanism, bound = target.mechanism, target.max_grad_norm
    rows, q, count = target.known().gradients, target.mechanism.q, target.mechanism.dataset_size
    share = 0.0
    # the order of the coins is that of the code under test: the first record varies fastest
    for batch in (b[::-1] for b in product((0, 1), repeat=count)):
        weight = q ** sum(batch) * (1 - q) ** (count - sum(batch))
        total = sum((b * row for b, row in zip(batch, rows, strict=False)), start=np.zeros(x.size))
        for new, chance in ((0, 1 - q), (1, q)):
            before, after = count * q, (count + 1) * q
            p = (x - total / before) / (mechanism.noise_multiplier * bound / before)
            q_side = (x - (total + new * rows[-1]) / after) / (mechanism.noise_multiplier * bound / after)
            coin = generator.random() < 0.5
            under_p, under_q = test(p), test(q_side)
            share += weight * chance * (coin if under_p == under_q else under_q)
    return share


def test_the_vote_is_algorithm_1() -> None:
    target = easgm(n=30, count=2)
    rule = PaperVote(target.known())
    for number, x in enumerate(target.release(Neighbour.LARGER, np.random.default_rng(4), 12)[:, 0]):
        found = rule.features(x[None, None, :], np.random.default_rng(number))[0, 0]
        expected = plain_vote(target, x, np.random.default_rng(number), lambda z: kstest(z, "norm").pvalue >= 0.05)
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("test", list(NormalityTest))
@pytest.mark.parametrize("n", [20, 300])
def test_normal_vectors_pass_at_the_level_and_scaled_ones_do_not(test: NormalityTest, n: int) -> None:
    rows = np.random.default_rng(3).standard_normal((600, n))
    # 5 % are refused, five deviations of 600 either way
    assert 0.05 - 5 * 0.0089 < 1.0 - passes(test, rows).mean() < 0.05 + 5 * 0.0089
    if test is not NormalityTest.SHAPIRO:
        assert passes(test, rows * 2.0).mean() < passes(test, rows).mean() - 0.3


def test_asgm_components_without_the_new_record_are_left_out() -> None:
    mechanism = nm.ASGM(dataset_size=3, dimension=10, sample_rate="0.5", noise_multiplier=1.0)
    rule = PaperVote(Synthetic(mechanism=mechanism).known())
    assert len(rule._pairs) == 2**3


def test_the_best_that_is_possible_is_the_default() -> None:
    assert isinstance(distinguisher(None, easgm()), LikelihoodRatio)
    assert isinstance(distinguisher(None, easgm(count=10**6, kind=Gradients.ZERO)), LikelihoodRatio)
    # too many batches to sum over
    assert isinstance(distinguisher(None, easgm(count=40)), Learned)
    with pytest.raises(Undefined, match="dataset_size=40"):
        distinguisher("likelihood-ratio", easgm(count=40))


def test_refusals_name_the_remedy() -> None:
    with pytest.raises(InvalidInput, match="distinguisher='best': must be one of likelihood-ratio, paper, learned"):
        distinguisher("best", easgm())
    with pytest.raises(Undefined, match="dataset_size=11: must be <= 10"):
        distinguisher("paper", easgm(count=11))
    with pytest.raises(Undefined, match="dimension=6000"):
        distinguisher("paper", easgm(n=6000), NormalityTest.SHAPIRO)
