"""leakage <= truth <= guarantee on random runs: the package against an oracle that shares nothing with it (tests/truth.py).

A setting is drawn from its number, so every number is the same run everywhere: 120 in `make test`, those whose numbers are not
dear, with each direction by itself for some of them; all 20,000 in `make test-all`, with each direction by itself and deltas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import chi2, ncx2, norm

import noisymean as nm
from noisymean.accountant import Question, guaranteed_one_way
from noisymean.errors import Undefined
from noisymean.runs import Run
from truth import (
    MECHANISMS,
    SHORT_EPOCHS,
    Configuration,
    Setting,
    Truth,
    configurations,
    loader,
    package_family,
    random_setting,
    round_of,
    sgm_epsilon,
    truth,
)

ROUNDING = 1.0 + 1e-9
DIRECTIONS = (False, True)


# --- the package's answers --------------------------------------------------------------------------------------------


class Answers(NamedTuple):
    """Of the pair N, N+1; `directions`: guarantees forward and backward. None: not known."""

    leakage: float
    guarantee: float | None
    directions: tuple[float | None, float | None]
    claimed_lower: float
    claimed: float


def mechanism_of(setting: Setting) -> Any:
    size, dimension, sigma = setting.dataset_size, setting.dimension, setting.noise_multiplier
    if setting.mechanism == "opacus-loader":
        assert setting.batch_size is not None
        return nm.OpacusLoader(
            dataset_size=size, batch_size=setting.batch_size, dimension=dimension, noise_multiplier=sigma
        )
    assert setting.sample_rate is not None
    if setting.mechanism == "sgm":
        return nm.SGM(sample_rate=setting.sample_rate, noise_multiplier=sigma)
    kind: Any = {"easgm": nm.EASGM, "feasgm": nm.FEASGM, "asgm": nm.ASGM}[setting.mechanism]
    return kind(dataset_size=size, dimension=dimension, sample_rate=setting.sample_rate, noise_multiplier=sigma)


def accounted(mechanism: Any, setting: Setting, **question: float) -> Any:
    return nm.account(mechanism, steps=setting.steps, pair="larger", **question)  # type: ignore[arg-type]


def guaranteed(mechanism: Any, setting: Setting, *, reverse: bool) -> float | None:
    try:
        return guaranteed_one_way(Run.of(mechanism, setting.steps), Question(setting.delta), reverse=reverse).value
    except Undefined:
        return None


def answers(setting: Setting, *, each_direction: bool = True) -> Answers:
    mechanism = mechanism_of(setting)
    account = accounted(mechanism, setting, delta=setting.delta)
    forward, backward = (
        guaranteed(mechanism, setting, reverse=reverse) if each_direction else None for reverse in DIRECTIONS
    )
    return Answers(
        account.leakage.epsilon,
        account.guarantee.epsilon,
        (forward, backward),
        account.claimed_lower.epsilon,
        account.claimed.epsilon,
    )


# --- what is wrong with them ------------------------------------------------------------------------------------------


def told_rate(setting: Setting) -> float:
    if setting.mechanism == "opacus-loader":
        assert setting.batch_size is not None
        return loader(setting.dataset_size, setting.batch_size).told_rate
    return float(setting.sample_rate or 0)


def is_dear(setting: Setting) -> bool:
    """Some rounds of little noise, whose losses reach from next to nothing to thousands: up to half a minute."""
    return setting.mechanism in ("easgm", "feasgm") and setting.steps > 1 and setting.noise_multiplier < 0.1


def faults(number: int, *, thorough: bool = True) -> Iterator[str]:
    """Everything that one setting refutes; one evaluation of each end unless there is something to report."""
    setting = random_setting(number)
    truths = {configuration: truth(setting, configuration) for configuration in configurations(setting)}
    family = [truths[configuration] for configuration in package_family(setting)]
    told = answers(setting, each_direction=thorough or number % 10 == 0)
    numbers = (told.leakage, told.claimed, told.claimed_lower, told.guarantee, *told.directions)
    if any(value is not None and math.isnan(value) for value in numbers):
        yield f"{number} {setting}: not a number in {told}"
    yield from (f"{number} {setting}: {fault}" for fault in _leakage_faults(setting, told, family))
    for configuration, backward in product(truths, DIRECTIONS):
        it = truths[configuration]
        for name, guarantee in (("guarantee", told.guarantee), ("its direction's", told.directions[backward])):
            if guarantee is not None and it.delta(guarantee, backward=backward)[0] > setting.delta:
                true = it.epsilon(setting.delta, backward=backward)
                yield f"{number} {setting}: {name} {guarantee} < {true} of {configuration}, backward={backward}"
    low, high = sgm_epsilon(told_rate(setting), setting.noise_multiplier, setting.steps, setting.delta)
    if told.claimed_lower > high * ROUNDING or told.claimed * ROUNDING < low:
        yield f"{number} {setting}: claimed {told.claimed_lower} to {told.claimed}, true {low} to {high}"
    if thorough and number % 10 == 0 and 0.0 < told.leakage < 1e5:
        # where something is lost, or where hardly anything is
        epsilon = told.leakage if number % 20 else 3.0 * told.leakage
        yield from (f"{number} {setting}: {fault}" for fault in _delta_faults(setting, epsilon, truths))


def _leakage_faults(setting: Setting, told: Answers, family: list[Truth]) -> Iterator[str]:
    leakage = told.leakage / ROUNDING
    ends = (it.delta(leakage, backward=backward)[1] for it, backward in product(family, DIRECTIONS))
    if leakage > 0.0 and not any(end >= setting.delta for end in ends):
        true = [it.epsilon(setting.delta, backward=backward)[1] for it, backward in product(family, DIRECTIONS)]
        yield f"leakage {told.leakage} > {max(true)}"
    if told.guarantee is not None and leakage > told.guarantee:
        yield f"leakage {told.leakage} > guarantee {told.guarantee}"


def _delta_faults(setting: Setting, epsilon: float, truths: dict[Configuration, Truth]) -> Iterator[str]:
    """The same in deltas."""
    account = accounted(mechanism_of(setting), setting, epsilon=epsilon)
    family = package_family(setting)
    ends = {
        (configuration, backward): truths[configuration].delta(epsilon, backward=backward)
        for configuration, backward in product(truths, DIRECTIONS)
    }
    if account.leakage.delta > ROUNDING * max(end[1] for (it, _), end in ends.items() if it in family):
        yield f"leakage {account.leakage.delta} at epsilon {epsilon}, true {ends}"
    if account.guarantee.delta is not None and account.guarantee.delta * ROUNDING < max(
        end[0] for end in ends.values()
    ):
        yield f"guarantee {account.guarantee.delta} at epsilon {epsilon}, true {ends}"


FEW = [number for number in range(300) if not is_dear(random_setting(number))][:120]
MANY = 20_000


def assert_sound(numbers: Sequence[int], *, thorough: bool) -> None:
    found = [fault for number in numbers for fault in faults(number, thorough=thorough)]
    assert not found, "\n".join([f"{len(found)} faults", *found])


@pytest.mark.parametrize("block", range(12))
def test_leakage_truth_guarantee(block: int) -> None:
    assert_sound(FEW[10 * block : 10 * block + 10], thorough=False)


@pytest.mark.parametrize("number", [1550, 3340, 6858])
def test_what_once_failed(number: int) -> None:
    """A measure that has a fifth of P's mass, a law whose loss is only known to be at most infinite, and two bumps."""
    assert_sound([number], thorough=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(MANY // 100))
def test_leakage_truth_guarantee_on_many_more(block: int) -> None:
    assert_sound(range(100 * block, 100 * block + 100), thorough=True)


# --- the oracle against closed forms ----------------------------------------------------------------------------------


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)))


def sgm(rate: str, sigma: float, steps: int, delta: float) -> Setting:
    return Setting("sgm", 1, 1, Fraction(rate), None, sigma, steps, delta)


@pytest.mark.parametrize("backward", DIRECTIONS)
@pytest.mark.parametrize("steps", [1, 2, 9, 100])
@pytest.mark.parametrize("sigma", [0.3, 2.0, 40.0])
def test_the_gaussian_mechanism(sigma: float, steps: int, backward: bool) -> None:
    mu, delta = math.sqrt(steps) / sigma, 1e-6
    low, high = truth(sgm("1", sigma, steps, delta), Configuration(0, 1.0)).epsilon(delta, backward=backward)
    assert gaussian_delta(mu, low) >= delta >= gaussian_delta(mu, high)
    assert low == pytest.approx(high, rel=5e-3)


@pytest.mark.parametrize("rate", ["1e-9", "0.001", "0.5", "0.999"])
@pytest.mark.parametrize("sigma", [0.1, 1.0, 30.0])
def test_one_round_of_the_noisy_sum(rate: str, sigma: float) -> None:
    q, delta = float(rate), 1e-9
    it = truth(sgm(rate, sigma, 1, delta), Configuration(0, 1.0))
    for epsilon in (0.0, q / 3, 0.2, 3.0):
        # above the point where 1 - q + q e^z = e^epsilon, Q - e^epsilon P is q times that of the Gaussian mechanism
        inner = math.log1p(math.expm1(epsilon) / q)
        low, high = it.delta(epsilon, backward=False)
        exact = q * gaussian_delta(1.0 / sigma, inner)
        assert low <= exact * ROUNDING + 1e-20
        assert exact <= high * ROUNDING
        assert high - low <= 1e-3 * exact + 1e-15


@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize(("size", "dimension"), [(1, 1), (4, 2), (20, 7), (100, 400)])
def test_two_scales_in_every_dimension(size: int, dimension: int, steps: int) -> None:
    """q = 1 on one ray: the loss is a square of the distance from a point, noncentral chi-square under either law."""
    sigma, delta, freedom = 1.5, 1e-4, steps * dimension
    setting = Setting("easgm", size, dimension, Fraction(1), None, sigma, steps, delta)
    scale = size / (size + 1)
    slope = 0.5 * (1.0 / scale**2 - 1.0)

    def exact(epsilon: float, new: float, backward: bool) -> float:
        # log dQ/dP = level - slope |y - centre|^2 over all rounds
        mean = scale * new / sigma
        centre = mean / scale**2 / (2.0 * slope)
        level = -freedom * math.log(scale) + steps * (slope * centre**2 - mean**2 / (2.0 * scale**2))
        square = max((level + (epsilon if backward else -epsilon)) / slope, 0.0)
        side = ncx2.sf if backward else ncx2.cdf
        q = side(square / scale**2, freedom, steps * ((centre - mean) / scale) ** 2)
        p = side(square, freedom, steps * centre**2)
        return float(p - math.exp(epsilon) * q if backward else q - math.exp(epsilon) * p)

    for new, backward in product((1.0, 0.25), DIRECTIONS):
        low, high = truth(setting, Configuration(0, new)).epsilon(delta, backward=backward)
        assert exact(low, new, backward) >= delta * (1 - 1e-6) or low == 0.0
        assert exact(high, new, backward) <= delta * (1 + 1e-6)
        assert low == pytest.approx(high, rel=1e-2)


def test_a_hundred_thousand_dimensions_across() -> None:
    """Without a shift only the scale is left: chi-square."""
    size, dimension, delta = 300, 100_000, 1e-5
    setting = Setting("easgm", size, dimension, Fraction(1), None, 1e3, 1, delta)
    low, high = truth(setting, Configuration(0, 0.0)).epsilon(delta, backward=True)
    scale = size / (size + 1)

    def exact(epsilon: float) -> float:
        square = 2.0 * (epsilon - dimension * math.log(scale)) / (1.0 / scale**2 - 1.0)
        return float(chi2.sf(square, dimension) - math.exp(epsilon) * chi2.sf(square / scale**2, dimension))

    assert exact(low) >= delta * (1 - 1e-6)
    assert exact(high) <= delta * (1 + 1e-6)
    assert low == pytest.approx(high, rel=1e-2)


@pytest.mark.parametrize("dimension", [2, 9])
def test_the_plane_of_asgm_is_easgm_where_every_record_is_taken(dimension: int) -> None:
    delta = 1e-5
    batch, expected = (
        truth(Setting(name, 3, dimension, Fraction(1), None, 1.0, 2, delta), Configuration(1, -1.0))
        for name in ("asgm", "easgm")
    )
    for backward in DIRECTIONS:
        (low, high), (least, most) = (it.epsilon(delta, backward=backward) for it in (batch, expected))
        assert max(low, least) <= min(high, most)
        assert low == pytest.approx(high, rel=2e-2)


# --- the oracle against sums over a fine square -----------------------------------------------------------------------


def binomial(size: int, rate: float) -> list[tuple[int, float]]:
    return [(k, math.comb(size, k) * rate**k * (1 - rate) ** (size - k)) for k in range(size + 1)]


def released(setting: Setting, shared: float, new: float) -> tuple[list[tuple[float, float, float]], ...]:
    """Weight, mean and deviation of one round's components under P and under Q, from the definitions, C = 1."""
    size, rate, sigma = setting.dataset_size, float(setting.sample_rate or 0), setting.noise_multiplier
    p: list[tuple[float, float, float]] = []
    q: list[tuple[float, float, float]] = []
    for k, weight in binomial(size, rate):
        sums = [(weight, k * shared, k)]
        sums_with = [((1 - rate) * weight, k * shared, k), (rate * weight, k * shared + new, k + 1)]
        for law, some, count in ((p, sums, size), (q, sums_with, size + 1)):
            for part, total, batch in some:
                divisor = max(batch, 1) if setting.mechanism == "asgm" else count * rate
                law.append((part, total / divisor, sigma / divisor))
    return p, q


def on_a_square(setting: Setting, shared: float, new: float, points: int = 1401) -> dict[tuple[float, bool], float]:
    """delta(epsilon) in both directions: two rounds of one dimension, or one round of two."""
    laws = released(setting, shared, new)
    means, deviations = (np.array([part[i] for law in laws for part in law]) for i in (1, 2))
    low, high = (means - 7.5 * deviations).min(), (means + 7.5 * deviations).max()
    x = np.linspace(low, high, points)
    y = x if setting.dimension == 1 else np.linspace(-7.5, 7.5, points) * deviations.max()
    densities: list[Any] = []
    for law in laws:
        if setting.dimension == 1:
            line = sum(weight * norm.pdf(x, mean, deviation) for weight, mean, deviation in law)
            densities.append(np.outer(line, line))
        else:
            densities.append(sum(w * np.outer(norm.pdf(x, m, d), norm.pdf(y, 0.0, d)) for w, m, d in law))
    area = (x[1] - x[0]) * (y[1] - y[0])
    p, q = densities
    return {
        (epsilon, backward): float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum() * area)
        for epsilon in (0.0, 0.3, 1.0, 2.5)
        for backward, one, other in ((False, q, p), (True, p, q))
    }


@pytest.mark.parametrize(("shared", "new"), [(0, 1.0), (1, -1.0), (1, 0.25)])
@pytest.mark.parametrize(
    "setting",
    [
        Setting("easgm", 3, 1, Fraction("0.4"), None, 1.1, 2, 1e-3),
        Setting("easgm", 5, 2, Fraction("0.7"), None, 0.8, 1, 1e-3),
        Setting("asgm", 3, 1, Fraction("0.4"), None, 1.1, 2, 1e-3),
        Setting("asgm", 4, 2, Fraction("0.6"), None, 0.9, 1, 1e-3),
    ],
)
def test_two_rounds_and_two_dimensions(setting: Setting, shared: int, new: float) -> None:
    it = truth(setting, Configuration(shared, new), fine=2.0)
    for (epsilon, backward), exact in on_a_square(setting, shared, new).items():
        low, high = it.delta(epsilon, backward=backward)
        assert low <= exact * (1 + 1e-4) + 1e-9
        assert exact <= high * (1 + 1e-4) + 1e-9
        assert high - low <= 2e-2 * high + 1e-5


# --- the oracle against numbers known otherwise -----------------------------------------------------------------------


def worst(setting: Setting, configuration: Configuration) -> tuple[float, float]:
    it = truth(setting, configuration)
    ends = [it.epsilon(setting.delta, backward=backward) for backward in DIRECTIONS]
    return max(low for low, _ in ends), max(high for _, high in ends)


@pytest.mark.parametrize(
    ("setting", "configuration", "known"),
    [
        (Setting("asgm", 2, 1, Fraction("0.99"), None, 2.0, 10, 1e-4), Configuration(1, -1.0), 24.23),
        (Setting("asgm", 60, 1, Fraction("0.99"), None, 0.05, 1, 1e-5), Configuration(1, -1.0), 226.7822),
        (Setting("opacus-loader", 921, 100, None, 10, 1.0, 100, 1e-5), Configuration(0, 1.0), 0.772889),
    ],
)
def test_known_truths(setting: Setting, configuration: Configuration, known: float) -> None:
    low, high = worst(setting, configuration)
    assert low <= known * (1 + 1e-6)
    assert known <= high * (1 + 1e-6)
    assert low == pytest.approx(high, rel=5e-3)


def test_the_noisy_sum_of_a_rare_record() -> None:
    low, high = sgm_epsilon(1e-4, 0.8, 100, 1e-5)
    assert low <= high
    assert low == pytest.approx(high, rel=2e-2)


def test_ends_are_in_order_and_close() -> None:
    widths = []
    for number in range(60):
        setting = random_setting(number)
        for configuration, backward in product(package_family(setting)[::3], DIRECTIONS):
            low, high = truth(setting, configuration).epsilon(setting.delta, backward=backward)
            assert low <= high
            if 0.0 < high < math.inf:
                widths.append((high - low) / high)
    assert np.median(widths) < 2e-3
    assert np.quantile(widths, 0.8) < 2e-2


def test_settings_are_of_all_kinds() -> None:
    settings = [random_setting(number) for number in range(2000)]
    counts = {name: [it for it in settings if it.mechanism == name] for name in MECHANISMS}
    assert min(len(some) for some in counts.values()) > 300
    loaders = [it for it in counts["opacus-loader"] if it.batch_size]
    assert sum(-(-it.dataset_size // (it.batch_size or 1)) in SHORT_EPOCHS for it in loaders) > 80
    assert sum(round_of(it).rate != round_of(it).rate_with for it in loaders) > 80
    assert sum(round_of(it).log_scale != 0.0 for it in counts["feasgm"]) > 200
    assert sum(it.steps == 1 for it in settings) > 600
    assert all(1 <= it.steps <= 100 and 1e-12 <= it.delta <= 0.1 for it in settings)
