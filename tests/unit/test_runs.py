"""runs: settings that change on the way, against closed forms, against runs whose settings do not, and the sandwich."""

from __future__ import annotations

import math

import pytest

import noisymean as nm
from noisymean.accountant import Question, claimed_interval, guaranteed, leaked
from noisymean.laws.closed import Gaussian
from noisymean.mechanisms import Mechanism
from noisymean.runs import Run
from noisymean.tradeoff import Side

DELTA = 1e-5
ASKED = Question(DELTA)


def merged(segments: list[tuple[Mechanism, int]]) -> Run:
    return Run.of(segments).merged()


def loader(noise: float, size: int = 1007) -> nm.OpacusLoader:
    return nm.OpacusLoader(dataset_size=size, batch_size=64, dimension=42, noise_multiplier=noise)


def test_without_sampling_the_sum_is_one_gaussian() -> None:
    """a rounds of 1/s and b rounds of 1/t are one shift of sqrt(a/s^2 + b/t^2)."""
    run = merged([(nm.SGM(sample_rate=1, noise_multiplier=5.0), 3), (nm.SGM(sample_rate=1, noise_multiplier=8.0), 7)])
    exact = Gaussian(math.sqrt(3 / 25 + 7 / 64))
    assert claimed_interval(run, ASKED)[1] == pytest.approx(exact.epsilon(DELTA, Side.ABOVE), rel=1e-7)
    assert guaranteed(run, ASKED).value == pytest.approx(exact.epsilon(DELTA, Side.ABOVE), rel=1e-7)
    assert leaked(run, ASKED)[0] == pytest.approx(exact.epsilon(DELTA, Side.BELOW), rel=1e-7)
    assert guaranteed(run, Question(epsilon=1.0)).value == pytest.approx(float(exact.delta(1.0)), rel=1e-7)


def test_one_mechanism_in_two_stretches_is_one_run() -> None:
    whole = nm.account(loader(1.0), steps=100, delta=DELTA)
    run = merged([(loader(1.0), 60), (loader(1.0), 40)])
    assert run.segments == ((loader(1.0), 100),)
    assert claimed_interval(run, ASKED)[1] == pytest.approx(whole.claimed.epsilon)
    assert leaked(run, ASKED)[:2] == (pytest.approx(whole.leakage.epsilon), whole.leakage.pair)
    assert guaranteed(run, ASKED).value == pytest.approx(whole.guarantee.epsilon)


@pytest.mark.slow
def test_a_schedule_lies_between_its_extremes_and_around_the_truth() -> None:
    loud, quiet = (merged([(loader(noise), 100)]) for noise in (1.0, 1.5))
    mixed = merged([(loader(1.0), 60), (loader(1.5), 40)])
    for ask in (lambda run: claimed_interval(run, ASKED)[1], lambda run: leaked(run, ASKED)[0]):
        assert ask(quiet) < ask(mixed) < ask(loud)
    # the coins of the lift are charged to each stretch by itself: a guarantee of two stretches may lie above that of the louder
    # noise throughout, but not above its parts added up at half of delta each
    parts = [
        guaranteed(merged([part]), Question(delta=DELTA / 2)).value for part in ((loader(1.0), 60), (loader(1.5), 40))
    ]
    assert max(leaked(mixed, ASKED)[0], guaranteed(quiet, ASKED).value) < guaranteed(mixed, ASKED).value < sum(parts)


def test_sums_beside_means_cost_more_than_the_means_alone() -> None:
    mean = nm.ASGM(dataset_size=1000, dimension=100, sample_rate=0.01, noise_multiplier=1.0)
    alone, beside = (
        merged([(mean, 50), *extra]) for extra in ((), ((nm.SGM(sample_rate=1, noise_multiplier=5.0), 3),))
    )
    assert guaranteed(alone, ASKED).value < guaranteed(beside, ASKED).value
    assert leaked(beside, ASKED)[0] <= guaranteed(beside, ASKED).value
    # two rounds of the whole batch give the larger dataset away: losses that are infinite add up too
    tiny = nm.ASGM(dataset_size=1, dimension=3, sample_rate=0.1, noise_multiplier=3.0)
    pair = merged([(tiny, 2), (nm.SGM(sample_rate=0.5, noise_multiplier=3.0), 1)])
    assert guaranteed(pair, Question(epsilon=50.0)).value <= 1.0 - (1.0 - 0.1**2) ** 2 + 1e-9


def test_a_rate_that_moves_in_one_segment_is_covered_too() -> None:
    alone = merged([(loader(1.0, size=1024), 10)])
    run = merged([(loader(1.0), 10), (loader(1.0, size=1024), 10)])
    assert claimed_interval(run, ASKED)[1] < leaked(run, ASKED)[0] <= guaranteed(run, ASKED).value
    assert guaranteed(alone, ASKED).value < guaranteed(run, ASKED).value
