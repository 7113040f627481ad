"""account: the three numbers, the verdict, the notes, the refusals, and the ends of its range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import many_rounds_oracles as reference
import noisymean as nm
from noisymean.accountant import SMALLEST_DELTA
from noisymean.accounts import Account
from noisymean.errors import InvalidInput, Undefined
from noisymean.laws.closed import Gaussian
from noisymean.laws.gaussian import gaussian_pair
from noisymean.mechanisms import Mechanism
from noisymean.pairs import AddedAcross
from noisymean.runs import MOST_STEPS
from noisymean.tradeoff import TradeOff
from noisymean.words import FloorStays, OnlyAdded, TooLarge


def of(kind: Any, count: int, dimension: int, rate: object, sigma: float) -> Any:
    return kind(dataset_size=count, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)


def epsilons(account: Account) -> tuple[float, float, float]:
    """(claimed, leakage, guarantee), all of them known."""
    values = (account.claimed.epsilon, account.leakage.epsilon, account.guarantee.epsilon)
    assert all(value is not None and math.isfinite(value) for value in values)
    return values


def deltas(account: Account) -> tuple[float, float, float]:
    values = (account.claimed.delta, account.leakage.delta, account.guarantee.delta)
    assert all(value is not None and 0.0 <= value <= 1.0 for value in values)
    return values


def worse_direction(curve: TradeOff, delta: float) -> float:
    """The larger of the two epsilons, by bisection on log delta: no search of the package's."""

    def one(direction: TradeOff) -> float:
        goal, low, high = math.log(delta), 0.0, 1.0
        if float(direction.log_delta(0.0)) <= goal:
            return 0.0
        while float(direction.log_delta(high)) > goal:
            low, high = high, 2.0 * high
        for _ in range(45):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if float(direction.log_delta(middle)) > goal else (low, middle)
        return high

    return max(one(curve), one(curve.inverse()))


# --- q = 1: one batch, one component, closed form


FULL_BATCH = [
    (1, 1, 1.0, 1, 1e-3),
    (1, 50, 2.0, 10, 1e-5),
    (3, 10**4, 5.0, 100, 1e-12),
    (60, 3_000_000, 0.4, 13, 1e-5),
    (700, 26_010, 10.0, 200, 1e-5),
    (1_462, 1_224_313, 0.76, 234, 1e-12),
    (42_220, 33_273_315, 16.88140674310999, 2_055, 1.7654402245462624e-07),
    (60_000, 26_010, 1.0, 3_516, 1e-5),
    (60_000, 10**8, 30.0, 10**4, 1e-3),
    (504_408, 14, 1.26, 49, 1e-5),
    (10**6, 1, 0.3, 10**4, 1e-12),
    (10**6, 10**8, 30.0, 1, 1e-5),
    (10**6, 10**8, 1.0, 10**4, 1e-3),
]


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", [nm.EASGM, nm.ASGM, nm.FEASGM])
@pytest.mark.parametrize(("count", "dimension", "sigma", "steps", "delta"), FULL_BATCH)
def test_full_batches_are_closed_form(
    kind: Any, count: int, dimension: int, sigma: float, steps: int, delta: float
) -> None:
    """nT degrees of freedom, shift sqrt(T) 2N/((N+1) sigma), scale N/(N+1): what leaks is what is guaranteed."""
    mu = 2.0 * count / ((count + 1.0) * sigma)
    curve = gaussian_pair(dimension * steps, math.sqrt(steps) * mu, log_scale=-math.log1p(1.0 / count))
    exact = worse_direction(curve, delta)
    _, leaked, sound = epsilons(
        nm.account(of(kind, count, dimension, 1, sigma), steps=steps, delta=delta, pair="larger")
    )
    assert leaked == pytest.approx(exact, rel=1e-6)
    assert sound == pytest.approx(exact, rel=1e-6)
    assert leaked <= sound


@pytest.mark.parametrize("kind", [nm.EASGM, nm.ASGM])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_full_batches_by_epsilon(kind: Any, epsilon: float) -> None:
    curve = gaussian_pair(40 * 30, math.sqrt(30.0) * 0.04 * 50 / 51, log_scale=-math.log1p(1.0 / 50))
    exact = max(float(curve.delta(epsilon)), float(curve.inverse().delta(epsilon)))
    _, leaked, sound = deltas(nm.account(of(kind, 50, 40, 1, 50.0), steps=30, epsilon=epsilon, pair="larger"))
    assert leaked == pytest.approx(exact, rel=1e-6)
    assert sound == pytest.approx(exact, rel=1e-6)
    assert leaked <= sound


def test_full_batch_of_the_noisy_sum_is_gaussian() -> None:
    for steps in (1, 100, 10**6):
        claimed, leaked, sound = epsilons(
            nm.account(nm.SGM(sample_rate=1, noise_multiplier=50.0), steps=steps, delta=1e-6)
        )
        exact = worse_direction(Gaussian(math.sqrt(steps) / 50.0), 1e-6)
        assert (claimed, leaked, sound) == pytest.approx((exact,) * 3, rel=1e-9)


# --- the noisy sum against Fourier inversion


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta"),
    [
        (0.01, 1.0, 1_000, 1e-5),
        (0.005, 10.0, 200, 1e-5),
        (0.01, 0.8, 10_000, 1e-5),
        (0.2, 4.0, 150, 1e-9),
        (0.7, 6.0, 80, 1e-3),
    ],
)
def test_claimed_interval_contains_the_truth(rate: float, sigma: float, steps: int, delta: float) -> None:
    """delta at the ends of the interval, by an integral that shares no code with the package; the worse direction is forward."""
    account = nm.account(nm.SGM(sample_rate=rate, noise_multiplier=sigma), steps=steps, delta=delta)
    low, high = account.claimed_lower.epsilon, account.claimed.epsilon
    assert low is not None
    assert high is not None
    line = reference.subsampled_gaussian(rate, sigma)
    assert reference.delta([(steps, line)], high) <= delta * (1.0 + 1e-10)
    assert reference.delta([(steps, line)], high, reverse=True) <= delta * (1.0 + 1e-10)
    assert reference.delta([(steps, line)], low) >= delta * (1.0 - 1e-10)
    assert 0.0 <= high - low <= 1e-3 * max(high, 0.1)


# --- verdicts


def test_violated() -> None:
    account = nm.account(of(nm.FEASGM, 140_199, 26_010, 0.005, 10.0), steps=200, delta=1e-5)
    claimed, leaked, sound = epsilons(account)
    assert account.verdict == "violated"
    assert claimed < leaked < sound
    assert account.leakage.pair == AddedAcross(1.0, 1.0)
    assert any("700 to 701" in note for note in account.notes)


def test_holds_where_the_floor_stays() -> None:
    account = nm.account(of(nm.FEASGM, 140_250, 26_010, 0.005, 10.0), steps=200, delta=1e-5)
    assert account.verdict == "holds"
    claimed, leaked, sound = epsilons(account)
    assert leaked <= sound
    assert sound == pytest.approx(claimed, rel=1e-6)
    assert FloorStays(701) in account.remarks


def test_a_record_removed_counts_as_well() -> None:
    """140,200 records are divided by 701, and so are 140,201; but 140,199 are divided by 700."""
    mechanism = of(nm.FEASGM, 140_200, 26_010, 0.005, 10.0)
    account = nm.account(mechanism, steps=200, delta=1e-5)
    assert account.verdict == "violated"
    assert account.pair is nm.Pair.SMALLER
    assert account.on_pair == of(nm.FEASGM, 140_199, 26_010, 0.005, 10.0)
    assert [one.pair for one in account.neighbours] == [nm.Pair.LARGER, nm.Pair.SMALLER]
    assert any("701 to 700" in note for note in account.notes)
    larger, smaller = (nm.account(mechanism, steps=200, delta=1e-5, pair=pair) for pair in ("larger", "smaller"))
    assert larger.verdict == "holds"
    assert smaller.leakage == account.leakage
    with pytest.raises(nm.InvalidInput, match=r"pair=.*smaller, larger"):
        nm.account(mechanism, steps=200, delta=1e-5, pair="both")


def test_without_its_only_record_nothing_is_said_of_removing_it() -> None:
    account = nm.account(of(nm.EASGM, 1, 10, 0.5, 1.0), steps=2, delta=1e-5)
    assert [one.pair for one in account.neighbours] == [nm.Pair.LARGER]
    assert OnlyAdded(1) in account.remarks
    with pytest.raises(nm.Undefined, match="no record can be taken away"):
        nm.account(of(nm.EASGM, 1, 10, 0.5, 1.0), steps=2, delta=1e-5, pair="smaller")


def test_holds_for_the_noisy_sum() -> None:
    for delta in (1e-2, 1e-9):
        assert nm.account(nm.SGM(sample_rate=0.01, noise_multiplier=1.0), steps=100, delta=delta).verdict == "holds"
    assert nm.account(nm.SGM(sample_rate=0.01, noise_multiplier=1.0), steps=100, epsilon=1.0).verdict == "holds"


def test_undetermined_where_the_proof_and_the_attack_do_not_meet() -> None:
    account = nm.account(of(nm.EASGM, 20, 2, "0.3", 1.0), steps=3, delta=1e-5)
    claimed, leaked, sound = epsilons(account)
    assert account.verdict == "undetermined"
    assert leaked <= claimed < sound


@pytest.mark.parametrize("kind", [nm.EASGM, nm.FEASGM, nm.ASGM])
def test_one_record_and_many_dimensions_leak_everything(kind: Any) -> None:
    account = nm.account(of(kind, 3, 10_000, 1, 5.0), steps=2, epsilon=1.0)
    _, leaked, sound = deltas(account)
    assert leaked > 0.999
    assert sound >= leaked
    assert account.verdict == "violated"


# --- delta for a given epsilon


@pytest.mark.parametrize(
    ("mechanism", "steps"),
    [
        (nm.SGM(sample_rate=0.01, noise_multiplier=1.0), 500),
        (of(nm.EASGM, 2_000, 500, 0.05, 2.0), 60),
        pytest.param(of(nm.FEASGM, 1_999, 500, 0.05, 4.0), 60, marks=pytest.mark.slow),
        (of(nm.ASGM, 5_000, 500, 0.1, 3.0), 60),
    ],
    ids=["sgm", "easgm", "feasgm", "asgm"],
)
def test_delta_and_epsilon_are_inverse(mechanism: Any, steps: int) -> None:
    """delta(epsilon(delta)) is delta again, on each side, and never NaN."""
    forward = nm.account(mechanism, steps=steps, delta=1e-5)
    for name, slack in (("claimed", 1e-3), ("leakage", 1e-3), ("guarantee", 0.7)):
        epsilon = getattr(forward, name).epsilon
        back = getattr(nm.account(mechanism, steps=steps, epsilon=epsilon), name).delta
        # the chain splits epsilon on one side and delta on the other: the guarantee is not exactly its own inverse
        assert math.log(back) == pytest.approx(math.log(1e-5), abs=slack * abs(math.log(1e-5)))
    for epsilon in (0.0, 0.3, 30.0, 1e3):
        _, leaked, sound = deltas(nm.account(mechanism, steps=steps, epsilon=epsilon))
        assert leaked <= sound


def test_bounds_hold_what_was_asked() -> None:
    by_delta = nm.account(nm.SGM(sample_rate=0.5, noise_multiplier=2.0), steps=10, delta=1e-4)
    by_epsilon = nm.account(nm.SGM(sample_rate=0.5, noise_multiplier=2.0), steps=10, epsilon=2.0)
    assert {by_delta.claimed.delta, by_delta.leakage.delta, by_delta.guarantee.delta} == {1e-4}
    assert {by_epsilon.claimed.epsilon, by_epsilon.leakage.epsilon, by_epsilon.guarantee.epsilon} == {2.0}
    assert by_delta.steps == 10
    assert by_delta.mechanism == nm.SGM(sample_rate=0.5, noise_multiplier=2.0)


# --- adjacency


@pytest.mark.parametrize("kind", [nm.EASGM, nm.FEASGM])
def test_zero_out_is_the_noisy_sum(kind: Any) -> None:
    mechanism = of(kind, 140_199, 26_010, 0.005, 10.0)
    account = nm.account(mechanism, steps=200, delta=1e-5, adjacency=nm.Adjacency.ZERO_OUT)
    plain = nm.account(nm.SGM(sample_rate=0.005, noise_multiplier=10.0), steps=200, delta=1e-5)
    assert account.verdict == "holds"
    assert epsilons(account) == pytest.approx(epsilons(plain), rel=1e-9)
    assert any("N is public" in note for note in account.notes)


def test_replace_one_full_batch_is_a_shift_of_two() -> None:
    """q = 1: -C u replaced by C u moves the sum by 2C, so the truth is G_{2 sqrt(T)/sigma}."""
    account = nm.account(of(nm.EASGM, 1_000, 30, 1, 20.0), steps=25, delta=1e-5, adjacency=nm.Adjacency.REPLACE_ONE)
    claimed, leaked, sound = epsilons(account)
    assert leaked == pytest.approx(worse_direction(Gaussian(2.0 * 5.0 / 20.0), 1e-5), rel=1e-9)
    assert claimed == pytest.approx(worse_direction(Gaussian(5.0 / 20.0), 1e-5), rel=1e-9)
    assert leaked <= sound
    assert account.verdict == "violated"
    assert any("replace-one" in note for note in account.notes)


def test_replace_one_subsampled() -> None:
    """(1-q) N(0,1) + q N(-1/sigma,1) against (1-q) N(0,1) + q N(1/sigma,1): delta by Fourier inversion."""
    account = nm.account(of(nm.EASGM, 1_000, 30, 0.1, 2.0), steps=50, delta=1e-5, adjacency=nm.Adjacency.REPLACE_ONE)
    _, leaked, sound = epsilons(account)
    x, step = np.linspace(-31.0, 31.0, 6_001, retstep=True)
    log_p, log_q = (
        np.logaddexp(np.log(0.9) + reference.normal(x), np.log(0.1) + reference.normal(x, mean)) for mean in (-0.5, 0.5)
    )
    line = reference.Line(x, float(step), log_p, log_q)
    assert reference.delta([(50, line)], leaked) == pytest.approx(1e-5, rel=1e-4)
    assert reference.delta([(50, line)], leaked) >= 1e-5 * (1.0 - 1e-9)
    assert leaked <= sound


@pytest.mark.parametrize("adjacency", [nm.Adjacency.ZERO_OUT, nm.Adjacency.REPLACE_ONE])
def test_the_size_of_the_batch_is_never_public(adjacency: nm.Adjacency) -> None:
    with pytest.raises(Undefined, match=r"adjacency="):
        nm.account(of(nm.ASGM, 100, 10, 0.5, 1.0), steps=5, delta=1e-5, adjacency=adjacency)


# --- refusals: one line, naming the value


SOME = nm.SGM(sample_rate=0.01, noise_multiplier=1.0)


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        ({"steps": 10, "delta": 0.0}, "delta=0"),
        ({"steps": 10, "delta": -1e-5}, "delta=-1e-05"),
        ({"steps": 10, "delta": 1.5}, "delta=1.5"),
        ({"steps": 10, "delta": math.nan}, "delta=nan"),
        ({"steps": 10, "delta": math.inf}, "delta=inf"),
        ({"steps": 10, "delta": SMALLEST_DELTA / 2.0}, "delta=5e-201"),
        ({"steps": 0, "delta": 1e-5}, "steps=0"),
        ({"steps": -3, "delta": 1e-5}, "steps=-3"),
        ({"steps": 1.5, "delta": 1e-5}, "steps=1.5"),
        ({"steps": math.nan, "delta": 1e-5}, "steps=nan"),
        ({"steps": MOST_STEPS + 1, "delta": 1e-5}, "steps=1000000001"),
        ({"steps": 10, "epsilon": -0.1}, "epsilon=-0.1"),
        ({"steps": 10, "epsilon": math.nan}, "epsilon=nan"),
        ({"steps": 10, "epsilon": math.inf}, "epsilon=inf"),
        ({"steps": 10}, "delta=None: must be given, or epsilon"),
        ({"steps": 10, "delta": 1e-5, "epsilon": 1.0}, "epsilon=1.0: must be left out where delta is given"),
        ({"steps": "many", "delta": 1e-5}, "steps='many'"),
        ({"steps": 10, "delta": "small"}, "delta='small'"),
    ],
)
def test_refusals(words: dict[str, Any], begins: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        nm.account(SOME, **words)
    assert str(refusal.value).startswith(begins)
    assert "must be" in str(refusal.value)
    assert "\n" not in str(refusal.value)


# --- the ends of the range


EXTREME: dict[str, tuple[Mechanism, int, dict[str, Any]]] = {
    "tiny delta": (of(nm.EASGM, 60_000, 26_010, 0.004, 1.0), 1_000, {"delta": 1e-150}),
    "tiny delta, sum": (SOME, 1_000, {"delta": 1e-150}),
    "tiny delta, asgm": (of(nm.ASGM, 60_000, 26_010, 0.004, 1.0), 1_000, {"delta": 1e-150}),
    "most steps, sum": (SOME, 10**9, {"delta": 1e-5}),
    "most steps": (of(nm.EASGM, 10**9, 1_000, 1e-6, 2.0), 10**9, {"delta": 1e-5}),
    "n = 1e12": (of(nm.EASGM, 60_000, 10**12, 0.004, 1.0), 100, {"delta": 1e-5}),
    "N = 1e9": (of(nm.EASGM, 10**9, 10**6, 0.001, 1.0), 1_000, {"delta": 1e-5}),
    "N = 1e9, floor": (of(nm.FEASGM, 10**9 - 1, 10**6, 0.001, 1.0), 1_000, {"delta": 1e-5}),
    "N = 1e9, asgm": (of(nm.ASGM, 10**9, 10**6, 0.001, 1.0), 1_000, {"delta": 1e-5}),
    "all at once": (of(nm.EASGM, 10**9, 10**12, 0.5, 1.0), 10**9, {"delta": 1e-150}),
    "one record": (of(nm.EASGM, 1, 10**12, 0.5, 1.0), 10**6, {"delta": 1e-5}),
    "little noise": (nm.SGM(sample_rate=0.01, noise_multiplier=0.02), 100, {"delta": 1e-5}),
    "much noise": (nm.SGM(sample_rate=0.01, noise_multiplier=1e6), 100, {"delta": 1e-5}),
    "tiny rate": (nm.SGM(sample_rate=1e-9, noise_multiplier=1.0), 10**6, {"delta": 1e-5}),
    "delta = 1": (of(nm.EASGM, 60_000, 26_010, 0.004, 1.0), 100, {"delta": 1.0}),
    "large epsilon": (of(nm.EASGM, 60_000, 26_010, 0.004, 1.0), 100, {"epsilon": 1e6}),
    "epsilon = 0": (of(nm.EASGM, 60_000, 26_010, 0.004, 1.0), 100, {"epsilon": 0.0}),
}


# Seconds each, and seldom news.
LONG = ("one record", "large epsilon", "N = 1e9", "N = 1e9, floor", "most steps", "tiny delta, asgm")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in EXTREME]
)
def test_extremes_are_finite_or_said_to_be_unknown(name: str) -> None:
    mechanism, steps, question = EXTREME[name]
    account = nm.account(mechanism, steps=steps, **question)
    asked = "epsilon" if "delta" in question else "delta"
    claimed, leaked, sound = (getattr(b, asked) for b in (account.claimed, account.leakage, account.guarantee))
    assert math.isfinite(claimed)
    # a lower bound that is infinite would be no lower bound
    assert math.isfinite(leaked)
    if sound is None:
        assert account.unproved == (TooLarge(),)
    else:
        assert math.isfinite(sound)
        assert 0.0 <= leaked <= sound


@pytest.mark.parametrize(
    ("size", "batch", "steps", "sigma"), [(51_737_904, 4_311_492, 8, 13.8), (10**8, 10**7, 100, 5.0)]
)
def test_coins_of_many_records_may_tell_much(size: int, batch: int, steps: int, sigma: float) -> None:
    """Their Gaussian has a variance of thousands, which e^variance in doubles does not hold; the leakage shows how near it is."""
    loader = nm.OpacusLoader(dataset_size=size, batch_size=batch, dimension=15_834_643, noise_multiplier=sigma)
    account = nm.account(loader, steps=steps, delta=1e-7)
    leaked, sound = account.leakage.epsilon, account.guarantee.epsilon
    assert leaked is not None
    assert sound is not None
    assert leaked <= sound <= 1.01 * leaked


def test_no_guarantee_beyond_a_billion_is_worked_out() -> None:
    """One batch an epoch becomes two: only batches drawn together say anything, at least their mean's N^2/(2 sigma^2)."""
    at = [
        nm.OpacusLoader(dataset_size=n, batch_size=n, dimension=1_000, noise_multiplier=1.0) for n in (20_000, 60_000)
    ]
    below, beyond = (nm.account(loader, steps=1, delta=1e-5) for loader in at)
    assert below.guarantee.epsilon is not None
    assert 0.5 * 20_000.0**2 <= below.guarantee.epsilon <= 1e9
    assert 0.5 * 60_000.0**2 > 1e9
    assert beyond.guarantee.epsilon is None
    assert beyond.unproved == (TooLarge(),)


def test_little_noise_is_nearly_everything() -> None:
    """sigma = 0.02, one round, q = 0.01: the loss of a sampled record is about 1/(2 sigma^2) + log q, and log(1-q) otherwise."""
    account = nm.account(nm.SGM(sample_rate=0.01, noise_multiplier=0.02), steps=1, delta=1e-3)
    exact = 1.0 / (2.0 * 0.02**2) + math.log(0.01) + float(reference_quantile(0.1)) / 0.02
    assert account.claimed.epsilon == pytest.approx(exact, rel=1e-3)


def reference_quantile(share: float) -> float:
    """z with P[N(0, 1) > z] = share, by bisection."""
    low, high = -10.0, 10.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if 0.5 * math.erfc(middle / math.sqrt(2.0)) > share else (low, middle)
    return low


@pytest.mark.parametrize("sigma", [0.02, 0.03, 0.05, 0.1])
def test_little_noise_over_several_rounds(sigma: float) -> None:
    """With q = 1/2 and T = 20 at least k of 20 rounds sample the record: epsilon is some k/(2 sigma^2), never less than k's."""
    account = nm.account(nm.SGM(sample_rate=0.5, noise_multiplier=sigma), steps=20, delta=1e-5)
    assert account.claimed.epsilon is not None
    # P[Bin(20, 1/2) >= 18] = 2.0e-4 and P[= 20] = 9.5e-7: delta = 1e-5 is reached between 18 and 20 rounds
    unit = 1.0 / (2.0 * sigma**2)
    spread = 6.0 * math.sqrt(20.0) / sigma + 20.0
    assert 18.0 * unit - spread < account.claimed.epsilon < 20.0 * unit + spread
