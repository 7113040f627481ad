"""Batches that are not drawn by Poisson sampling: leakage <= truth <= guarantee.

The truth is that of `sampling_oracle`: every permutation, subset or allocation of a few records. Settings are drawn from their
numbers. Where records are many, what is known otherwise stands in: closed forms, quadrature, sampling with its error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import noisymean as nm
from effort import THOROUGH
from noisymean.pairs import Added, Alternating, Replaced, ReplacedAmong
from sampling_oracle import (
    Adaptive,
    Array,
    Divisor,
    Draw,
    Truth,
    adaptive_pair,
    allocated_by_sampling,
    allocated_delta,
    constant,
    expected,
    floored,
    gaussian_delta,
    gaussian_epsilon,
    largest_delta,
    opacus,
    own_size,
)

SAMPLINGS = ("shuffle", "fixed-size", "balls-in-bins", "cyclic")
KINDS: tuple[type[nm.Mechanism], ...] = (nm.SGM, nm.EASGM, nm.FEASGM, nm.ASGM)
DIRECTIONS = (False, True)
# answers are rounded outwards by the package; what the comparison itself may be off by
ROUNDING = 1.0 + 1e-9


def refused(kind: object, sampling: str) -> bool:
    return kind is nm.ASGM and sampling == "balls-in-bins"


# --- explicit pairs of a few records ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Small:
    """A run on a few records, and an explicit pair of neighbours."""

    mechanism: nm.Mechanism
    draw: Draw
    divisor: Divisor
    steps: int
    adjacency: nm.Adjacency
    delta: float
    p: Array
    q: Array

    def truth(self, datasets: tuple[Array, Array] | None = None, cells: int | None = None) -> Truth:
        sigma = self.mechanism.noise_multiplier
        return Truth(datasets or (self.p, self.q), self.draw, sigma, self.divisor, self.steps, cells=cells)

    def account(self, **asked: float) -> nm.Account:
        size = {"pair": "larger"} if self.adjacency is nm.Adjacency.ADD_REMOVE else {}
        return nm.account(self.mechanism, steps=self.steps, adjacency=self.adjacency, **size, **asked)  # type: ignore[arg-type]

    @property
    def epochs_agree(self) -> bool:
        return self.draw.in_epoch(len(self.p)) == self.draw.in_epoch(len(self.q))

    def __str__(self) -> str:
        of = f"{self.mechanism.in_a_line()}, b = {self.mechanism.size_of_batches}, drop_last = {self.mechanism.drops_last}"
        return f"{of}, {self.steps} steps, {self.adjacency.value}, delta = {self.delta}: {self.p.tolist()} {self.q.tolist()}"


def gradients(rng: np.random.Generator, records: int, dimension: int) -> Array:
    """Zero, aligned, opposed in turn, or anything of norm at most 1; rows."""
    unit = np.eye(dimension)[0]
    match rng.integers(5):
        case 0:
            return np.zeros((records, dimension))
        case 1:
            return np.tile(unit, (records, 1))
        case 2:
            return np.tile(-unit, (records, 1))
        case 3:
            return np.outer((-1.0) ** np.arange(records), unit)
        case _:
            rows = rng.uniform(-1.0, 1.0, (records, dimension)).round(2)
            return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


def neighbours(rng: np.random.Generator, records: int, dimension: int, adjacency: nm.Adjacency) -> tuple[Array, Array]:
    unit = np.eye(dimension)[0]
    p = gradients(rng, records, dimension)
    new = [unit, -unit, np.zeros(dimension), gradients(rng, 1, dimension)[0]][rng.choice(4, p=[0.4, 0.3, 0.1, 0.2])]
    place = int(rng.integers(records))
    if adjacency is nm.Adjacency.ADD_REMOVE:
        return p, np.insert(p, int(rng.integers(records + 1)), new, axis=0)
    q = p.copy()
    q[place] = new
    if adjacency is nm.Adjacency.ZERO_OUT:
        p[place] = 0.0
    elif rng.random() < 0.5:
        p[place] = -new
    return p, q


def made(
    kind: Any, sampling: str, records: int, batch: int, sigma: float, *, dimension: int = 1, drop_last: bool = False
) -> tuple[nm.Mechanism, Draw, Divisor]:
    """A mechanism, and the same to the oracle. `batch`: records in a batch, or batches in an epoch of balls-in-bins."""
    if kind is nm.OpacusLoader:
        one = nm.OpacusLoader(
            dataset_size=records, batch_size=batch, dimension=dimension, noise_multiplier=sigma, sampling=sampling,
            drop_last=drop_last,
        )  # fmt: skip
        return one, Draw(sampling, size=batch, drop_last=drop_last), opacus(batch, drop_last=drop_last)
    bins = sampling == "balls-in-bins"
    rate = Fraction(1, batch) if bins else Fraction(batch, records)
    rest = {} if bins else {"batch_size": batch}
    if drop_last:
        rest["drop_last"] = True
    found = kind(
        dataset_size=records, dimension=dimension, sample_rate=rate, noise_multiplier=sigma, sampling=sampling, **rest
    )
    draw = Draw(sampling, batches=batch) if bins else Draw(sampling, size=batch, drop_last=drop_last)
    divisors = {nm.SGM: constant(), nm.EASGM: expected(rate), nm.FEASGM: floored(rate), nm.ASGM: own_size()}
    return found, draw, divisors[kind]


def small(number: int, sampling: str) -> Small | None:
    """The setting of that number; None where there is none with at most four coordinates an epoch."""
    rng = np.random.default_rng([number, SAMPLINGS.index(sampling)])
    kinds = [kind for kind in KINDS if not refused(kind, sampling)]
    if sampling in ("shuffle", "cyclic"):
        kinds.append(nm.OpacusLoader)
    kind: Any = kinds[number % len(kinds)]
    adjacency = list(nm.Adjacency)[(number // len(kinds)) % 3]
    records = int(rng.integers(1, 7))
    dimension = int(rng.choice([1, 2], p=[0.8, 0.2]))
    batch = int(rng.integers(1, 4 if sampling == "balls-in-bins" else records + 1))
    drop_last = sampling in ("shuffle", "cyclic") and rng.random() < 0.35
    sigma = float(np.exp(rng.uniform(np.log(0.35), np.log(5.0))).round(3))
    mechanism, draw, divisor = made(kind, sampling, records, batch, sigma, dimension=dimension, drop_last=drop_last)
    p, q = neighbours(rng, records, dimension, adjacency)
    length = draw.in_epoch(records)
    steps = int(rng.integers(1, 4)) if sampling == "fixed-size" else int(rng.integers(1, 2 * length + 2))
    most = min(length, steps) * dimension
    if most > 3 or (sampling == "balls-in-bins" and batch**records > 400):
        return None
    delta = float(10.0 ** rng.uniform(-7.0, -1.5))
    return Small(mechanism, draw, divisor, steps, adjacency, delta, p, q)


def faults(it: Small) -> Iterator[str]:
    account = it.account(delta=it.delta)
    claimed, leakage, guarantee = (bound.epsilon for bound in (account.claimed, account.leakage, account.guarantee))
    if guarantee is not None and leakage > guarantee * ROUNDING:
        yield f"{it}: leakage {leakage} > guarantee {guarantee}"
    if not it.epochs_agree:
        if guarantee is not None or account.verdict == "holds":
            yield f"{it}: {guarantee} is guaranteed, though epochs differ in length"
        return
    truth = it.truth()
    for backward in DIRECTIONS:
        if guarantee is not None and truth.delta(guarantee, backward=backward).low > it.delta * ROUNDING:
            yield f"{it}: guarantee {guarantee} < {truth.epsilon(it.delta)}, backward={backward}"
    if truth.worst(claimed).low > it.delta * ROUNDING and account.verdict == "holds":
        yield f"{it}: the claim {claimed} is said to hold, true {truth.epsilon(it.delta)}"
    epsilon = max(0.8 * leakage, 0.01)
    asked = it.account(epsilon=epsilon)
    if asked.guarantee.delta is not None and truth.worst(epsilon).low > asked.guarantee.delta * ROUNDING:
        yield f"{it}: guarantee {asked.guarantee.delta} at epsilon {epsilon}, true {truth.worst(epsilon)}"
    pair = named(account.leakage.pair, it)
    if pair is not None and leakage > 0.0:
        exact = it.truth(pair)
        if exact.worst(leakage / ROUNDING).high < it.delta:
            yield f"{it}: leakage {leakage} > {exact.epsilon(it.delta)} of {account.leakage.pair}"
        if asked.leakage.pair == account.leakage.pair and asked.leakage.delta > exact.worst(epsilon).high * ROUNDING:
            yield f"{it}: leakage {asked.leakage.delta} at epsilon {epsilon}, true {exact.worst(epsilon)}"


def named(pair: object, it: Small) -> tuple[Array, Array] | None:
    """The datasets that an answer names."""
    unit = np.eye(it.p.shape[1])[0]
    size = len(it.p)

    def rows(values: list[float]) -> Array:
        return np.outer(values, unit)

    match pair:
        case Added(shared, new):
            return rows([shared] * size), rows([shared] * size + [new])
        case Replaced(before, after):
            # in the first batch, which a broken epoch has too
            return rows([before] + [0.0] * (size - 1)), rows([after] + [0.0] * (size - 1))
        case ReplacedAmong(others, before, after):
            return rows([before] + [others] * (size - 1)), rows([after] + [others] * (size - 1))
        case Alternating():
            b = it.draw.size
            values = [(-1.0) ** (i // b) if i % b == b - 1 else 0.0 for i in range(size)]
            return rows(values), rows([-1.0, *values])
        case _:
            raise TypeError(pair)


def assert_none(found: list[str]) -> None:
    assert not found, "\n".join([f"{len(found)} faults", *found])


@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_leakage_truth_guarantee_of_few_records(sampling: str, block: int) -> None:
    each = 100 if THOROUGH else 6
    settings = [small(number, sampling) for number in range(block * 100, block * 100 + each)]
    assert_none([fault for it in settings if it is not None for fault in faults(it)])


# --- gradients that are chosen by what was released -------------------------------------------------------------------


def chosen(rng: np.random.Generator, records: int, adjacency: nm.Adjacency) -> tuple[Adaptive, Adaptive]:
    """Both datasets choose by the same rule, and differ in one record."""
    threshold = float(rng.uniform(-1.0, 1.0))
    sets = [gradients(rng, records, 1).ravel() for _ in range(3)]
    signs = rng.choice([-1.0, 1.0], 3)
    if adjacency is nm.Adjacency.ADD_REMOVE:
        place = int(rng.integers(records + 1))
        others = [np.insert(one, place, sign) for one, sign in zip(sets, signs, strict=True)]
    else:
        place = int(rng.integers(records))
        others = [one.copy() for one in sets]
        for one, other, sign in zip(sets, others, signs, strict=True):
            other[place] = sign
            one[place] = 0.0 if adjacency is nm.Adjacency.ZERO_OUT else -sign
    (first, below, above), (first_too, below_too, above_too) = sets, others
    return Adaptive(first, below, above, threshold), Adaptive(first_too, below_too, above_too, threshold)


@pytest.mark.parametrize("adjacency", nm.Adjacency)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_gradients_chosen_by_what_was_released(sampling: str, adjacency: nm.Adjacency) -> None:
    found = []
    for number in range(60 if THOROUGH else 6):
        rng = np.random.default_rng([number, 5])
        kinds = [kind for kind in KINDS if not refused(kind, sampling)]
        kind: Any = kinds[number % len(kinds)]
        # two batches an epoch, on either dataset
        records = int(rng.choice([2, 4]) if adjacency is not nm.Adjacency.ADD_REMOVE else rng.choice([3, 5]))
        batch = 2 if sampling == "balls-in-bins" else (records + 1) // 2
        sigma = float(np.exp(rng.uniform(np.log(0.4), np.log(3.0))))
        mechanism, draw, divisor = made(kind, sampling, records, batch, sigma)
        pair = adaptive_pair(chosen(rng, records, adjacency), draw, sigma, divisor)
        delta = float(10.0 ** rng.uniform(-6.0, -2.0))
        size: Any = {"pair": "larger"} if adjacency is nm.Adjacency.ADD_REMOVE else {}
        guarantee = nm.account(mechanism, steps=2, delta=delta, adjacency=adjacency, **size).guarantee.epsilon
        assert guarantee is not None
        if max(pair.delta(guarantee, backward=backward) for backward in DIRECTIONS) > delta * ROUNDING + 1e-13:
            found.append(f"{number} {mechanism}, {adjacency}: {guarantee} at {delta}")
    assert_none(found)


# --- settings of any size ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Large:
    """A run on any number of records."""

    mechanism: nm.Mechanism
    steps: int
    adjacency: nm.Adjacency
    delta: float
    batches: int


def large(number: int, sampling: str) -> Large:
    """sigma .2 to 10, up to 10^5 batches an epoch, up to 1000 epochs, the last one broken off in two of three."""
    rng = np.random.default_rng([number, 11, SAMPLINGS.index(sampling)])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    kinds: list[Any] = [kind for kind in KINDS if not refused(kind, sampling)]
    if sampling in ("shuffle", "cyclic"):
        kinds.append(nm.OpacusLoader)
    kind = kinds[number % len(kinds)]
    adjacency = list(nm.Adjacency)[(number // len(kinds)) % 3]
    batches = int(between(1, 1e5)) if rng.random() < 0.9 else 1
    batch = int(between(1, 500))
    drop_last = sampling in ("shuffle", "cyclic") and rng.random() < 0.4
    if sampling == "balls-in-bins":
        records = int(between(1, 1e6))
    elif drop_last:
        records = batches * batch + int(rng.integers(0, batch))
    else:
        records = (batches - 1) * batch + int(rng.integers(1, batch + 1))
    if sampling != "balls-in-bins":
        batch = min(batch, records)
        batches = records // batch if drop_last else -(-records // batch)
    mechanism, _, _ = made(
        kind,
        sampling,
        records,
        batches if sampling == "balls-in-bins" else batch,
        round(between(0.2, 10.0), 4),
        dimension=int(between(1, 1e6)),
        drop_last=drop_last,
    )
    epochs = int(between(1, 1000))
    steps = max(epochs * batches - (int(rng.integers(batches)) if rng.random() < 0.67 else 0), 1)
    return Large(mechanism, steps, adjacency, between(1e-12, 1e-2), batches)


def large_faults(it: Large, number: int) -> Iterator[str]:
    account = nm.account(it.mechanism, steps=it.steps, adjacency=it.adjacency, delta=it.delta)
    leakage, guarantee = account.leakage.epsilon, account.guarantee.epsilon
    if not leakage >= 0.0 or (guarantee is not None and leakage > guarantee * ROUNDING):
        yield f"{it}: leakage {leakage}, guarantee {guarantee}"
    if account.adjacency is not it.adjacency:
        yield f"{it}: {account.adjacency}"
    if guarantee is not None and account.verdict == "holds" and leakage > account.claimed.epsilon:
        yield f"{it}: holds, though {leakage} leaks"
    sigma, sampling = it.mechanism.noise_multiplier, it.mechanism.drawn.value
    if it.adjacency is not nm.Adjacency.ADD_REMOVE:
        # known otherwise: once an epoch at the most; the sum of all batches of an epoch
        own = (1.0 if it.adjacency is nm.Adjacency.ZERO_OUT else 2.0) / sigma
        whole, begun = it.steps // it.batches, -(-it.steps // it.batches)
        most = gaussian_epsilon(math.sqrt(it.steps if sampling == "fixed-size" else begun) * own, it.delta)
        if leakage > most * ROUNDING + 1e-9:
            yield f"{it}: leakage {leakage} above {most}"
        least = gaussian_epsilon(math.sqrt(whole / it.batches) * own, it.delta) if whole else 0.0
        if guarantee is not None and sampling == "balls-in-bins" and guarantee < least / ROUNDING:
            yield f"{it}: guarantee {guarantee} below {least}"
        if guarantee is not None and sampling in ("shuffle", "cyclic") and not it.mechanism.drops_last:
            # of a shuffled epoch that was broken off the record may have come in what is left
            proved = (
                most if sampling == "cyclic" else gaussian_epsilon(math.sqrt(whole) * own, it.delta) if whole else 0.0
            )
            if guarantee < proved / (1.0 + 1e-6) - 1e-9:
                yield f"{it}: guarantee {guarantee} below {proved}, better than anybody has proved"
    if number % 4 == 0 and leakage < 500.0:
        asked = nm.account(it.mechanism, steps=it.steps, adjacency=it.adjacency, epsilon=max(leakage, 0.01))
        if asked.guarantee.delta is not None and asked.leakage.delta > asked.guarantee.delta * ROUNDING:
            yield f"{it}: deltas {asked.leakage.delta} and {asked.guarantee.delta} at epsilon {leakage}"


@pytest.mark.parametrize(
    ("number", "sampling"), [(40, "shuffle"), (55, "shuffle"), (164, "shuffle"), (175, "shuffle"), (192, "shuffle")]
)
def test_what_once_failed(number: int, sampling: str) -> None:
    """Tails of the largest sum were lost to rounding where the record is in no batch with some probability."""
    it = small(number, sampling)
    assert it is not None
    assert_none(list(faults(it)))


@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_leakage_and_guarantee_of_any_size(sampling: str, block: int) -> None:
    # those of allocation take seconds each
    each = 100 if THOROUGH else {"balls-in-bins": 1}.get(sampling, 3)
    numbers = range(block * 100, block * 100 + each)
    assert_none([fault for number in numbers for fault in large_faults(large(number, sampling), number)])


# --- known otherwise --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize("epochs", [1, 2, 30])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_one_batch_is_the_gaussian_mechanism(sampling: str, sigma: float, epochs: int, delta: float) -> None:
    run = nm.SGM(sample_rate=1, noise_multiplier=sigma, sampling=sampling)
    account = nm.account(run, steps=epochs, delta=delta, adjacency=nm.Adjacency.ZERO_OUT)
    exact = gaussian_epsilon(math.sqrt(epochs) / sigma, delta)
    assert account.leakage.epsilon == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert account.guarantee.epsilon == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert account.leakage.epsilon <= exact * ROUNDING
    assert exact <= account.guarantee.epsilon * ROUNDING


# Claimed: any accountant of Poisson sampling. Random allocation: bounds from both sides of Feldman and Shenfeld's package.
# Shuffled batches: from below Chua et al. 2024 (arXiv 2403.17673), from above the Gaussian mechanism. All recorded before the code.
TABLE = [
    (1.0, 100, 0.718, (0.609, 0.636), (4.063, 4.378)),
    (0.5, 100, 6.476, (5.38, 5.41), (9.997, 9.999)),
    (0.4, 1000, 7.014, (6.29, 6.31), (13.206, 13.208)),
]


@pytest.mark.parametrize(("sigma", "batches", "claimed", "allocated", "shuffled"), TABLE)
def test_the_table(
    sigma: float, batches: int, claimed: float, allocated: tuple[float, float], shuffled: tuple[float, float]
) -> None:
    def account(sampling: str) -> nm.Account:
        run = nm.SGM(sample_rate=Fraction(1, batches), noise_multiplier=sigma, sampling=sampling)
        return nm.account(run, steps=batches, delta=1e-5)

    bins, cut = account("balls-in-bins"), account("shuffle")
    for one in (bins, cut):
        assert one.claimed.epsilon == pytest.approx(claimed, abs=5.5e-4)
    assert allocated[0] <= bins.leakage.epsilon <= bins.guarantee.epsilon <= allocated[1]
    assert bins.verdict == "holds"
    # three digits, of which the last is rounded
    assert shuffled[0] - 5e-4 <= cut.leakage.epsilon <= cut.guarantee.epsilon <= shuffled[1] + 5e-4
    assert cut.guarantee.epsilon - cut.leakage.epsilon <= shuffled[1] - shuffled[0] + 1e-3
    assert cut.verdict == "violated"


@pytest.mark.parametrize("batches", [1, 2, 3, 4])
@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 3.0] if THOROUGH else [0.4, 1.0])
def test_random_allocation_to_a_few_batches(batches: int, sigma: float) -> None:
    run = nm.SGM(sample_rate=Fraction(1, batches), noise_multiplier=sigma, sampling="balls-in-bins")
    for delta in (1e-2, 1e-5, 1e-8):
        account = nm.account(run, steps=batches, delta=delta)
        leakage, guarantee = account.leakage.epsilon, account.guarantee.epsilon
        at = [
            max(allocated_delta(sigma, batches, end, backward=way) for way in DIRECTIONS)
            for end in (leakage, guarantee)
        ]
        assert at[0] >= delta * (1 - 1e-7) or leakage == 0.0
        assert at[1] <= delta * (1 + 1e-7)
        assert guarantee <= 1.01 * leakage + 1e-6


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize(("sigma", "batches"), [(0.4, 2), (1.0, 3), (1.0, 4), (0.4, 4)])
def test_deltas_of_random_allocation(sigma: float, batches: int, epsilon: float) -> None:
    run = nm.SGM(sample_rate=Fraction(1, batches), noise_multiplier=sigma, sampling="balls-in-bins")
    account = nm.account(run, steps=batches, epsilon=epsilon)
    exact = max(allocated_delta(sigma, batches, epsilon, backward=backward) for backward in DIRECTIONS)
    assert account.leakage.delta <= exact * (1 + 1e-7)
    assert exact <= account.guarantee.delta * (1 + 1e-7)
    assert account.guarantee.delta <= 1.01 * account.leakage.delta + 1e-12


# sigma, batches, delta; how far a coordinate is tilted for D' told from D, and all of them for D from D'
SAMPLED = [
    (1.0, 100, 1e-5, 4.5, 4.0),
    (0.5, 100, 1e-5, 5.0, 4.0),
    (2.0, 100, 1e-3, 3.0, 3.2),
    (0.4, 1000, 1e-5, 5.5, 4.0),
]


@pytest.mark.parametrize(("sigma", "batches", "delta", "ahead", "behind"), SAMPLED)
def test_random_allocation_to_many_batches(
    sigma: float, batches: int, delta: float, ahead: float, behind: float
) -> None:
    """Sampled with standard errors of a hundredth or so, five of which are allowed for."""
    run = nm.SGM(sample_rate=Fraction(1, batches), noise_multiplier=sigma, sampling="balls-in-bins")
    account = nm.account(run, steps=batches, delta=delta)
    samples = 400_000 if THOROUGH else 6_000_000 // batches

    def sampled(epsilon: float) -> tuple[float, float]:
        found = [
            allocated_by_sampling(sigma, batches, epsilon, backward=backward, tilt=tilt, samples=samples)
            for backward, tilt in ((False, ahead), (True, behind))
        ]
        largest = max(found)
        return largest.value, largest.error

    value, error = sampled(account.leakage.epsilon)
    assert error < 0.06 * delta
    assert value + 5 * error >= delta
    value, error = sampled(account.guarantee.epsilon)
    assert value - 5 * error <= delta
    assert account.guarantee.epsilon <= 1.01 * account.leakage.epsilon


@pytest.mark.parametrize(("sigma", "batches"), [(0.4, 1000), (0.5, 2), (1.0, 3), (1.0, 100), (3.0, 20)])
def test_the_largest_sum_of_shuffled_batches(sigma: float, batches: int) -> None:
    """All that an attacker who looks at it finds, or at the sum of all; with little noise nothing more, else by scores."""
    run = nm.SGM(sample_rate=Fraction(1, batches), noise_multiplier=sigma, sampling="shuffle")
    for delta in (1e-3, 1e-6):
        leakage = nm.account(run, steps=batches, delta=delta).leakage.epsilon
        found = [largest_delta(sigma, batches, leakage, backward=way) for way in DIRECTIONS]
        best = max(*found, gaussian_delta(1.0 / (sigma * math.sqrt(batches)), leakage))
        assert best <= delta * (1 + 2e-3)
        assert best >= delta * (1 - 1e-5) or sigma > 1.0


@pytest.mark.parametrize(("records", "batches", "sigma"), [(10, 3, 0.3), (5, 2, 0.5), (5, 2, 1.0), (41, 5, 0.7)])
@pytest.mark.parametrize("known", [False, True])
def test_batches_of_unknown_size_are_not_taken_to_be_equal(
    known: bool, records: int, batches: int, sigma: float
) -> None:
    """ceil(N/t) records in the first of t batches are more than N/t: what is guaranteed of 1/t has to cover them."""
    size = {"dataset_size": records} if known else {}
    loose = nm.SGM(sample_rate=Fraction(1, batches), noise_multiplier=sigma, sampling="shuffle", **size)  # type: ignore[arg-type]
    tight, _, _ = made(nm.SGM, "shuffle", records, -(-records // batches), sigma)
    for delta in (1e-3, 1e-6):
        guarantee = nm.account(loose, steps=1, delta=delta).guarantee.epsilon
        assert guarantee >= nm.account(tight, steps=1, delta=delta).leakage.epsilon


def test_dropped_records_of_an_unknown_number_are_not_taken_for_none() -> None:
    """Nine records, two in a batch: one in nine is in no batch of an epoch, and whether it is may even be told.

    Revealing that, delta(eps) is 8/9 of the Gaussian mechanism's at the most; to refuse `drop_last` without N is an answer, too.
    """
    try:
        run = nm.SGM(sample_rate="1/4", noise_multiplier=1.0, sampling="shuffle", drop_last=True)
        leakage = nm.account(run, steps=4, delta=1e-5).leakage.epsilon
    except nm.InvalidInput:
        return
    assert leakage <= gaussian_epsilon(1.0, 1e-5 * 9 / 8) * ROUNDING


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_more_epochs_and_less_noise_leak_more(sampling: str) -> None:
    def account(sigma: float, epochs: int) -> nm.Account:
        run = nm.SGM(sample_rate="1/20", noise_multiplier=sigma, sampling=sampling)
        return nm.account(run, steps=20 * epochs, delta=1e-6)

    runs = [account(sigma, epochs) for sigma, epochs in ((2.0, 1), (1.0, 1), (1.0, 3), (0.6, 3), (0.6, 12))]
    for less, more in zip(runs[:-1], runs[1:], strict=True):
        assert less.leakage.epsilon < more.leakage.epsilon
        assert less.guarantee.epsilon < more.guarantee.epsilon


# --- the oracle itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_the_oracle_of_pairs_against_that_of_allocation(batches: int, others: int) -> None:
    if batches**others > 4:
        others = 1
    p, q = np.zeros(others + 1), np.zeros(others + 1)
    q[-1] = 1.0
    truth = Truth((p, q), Draw("balls-in-bins", batches=batches), 0.8, constant(), batches)
    for epsilon, backward in product((0.0, 0.5, 2.0), DIRECTIONS):
        low, high = truth.delta(epsilon, backward=backward)
        exact = allocated_delta(0.8, batches, epsilon, backward=backward)
        assert low <= exact <= high
        assert exact - low <= 0.02 * exact


@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_the_oracle_of_pairs_on_several_epochs(epochs: int) -> None:
    """A record that is in the one batch of every epoch."""
    truth = Truth((np.zeros(2), np.array([0.0, 1.0])), Draw("shuffle", size=2), 1.3, constant(), epochs)
    for epsilon, backward in product((0.0, 0.7, 2.5), DIRECTIONS):
        low, high = truth.delta(epsilon, backward=backward)
        exact = gaussian_delta(math.sqrt(epochs) / 1.3, epsilon)
        assert low <= exact <= high
        assert high - low <= 2e-3 * exact


def test_the_oracle_where_noise_moves() -> None:
    """N q against (N + 1) q, all records in every batch: two normal laws of different deviations, by quadrature."""
    rate, sigma = Fraction(1), 1.5
    truth = Truth((np.ones(2), np.ones(3)), Draw("balls-in-bins", batches=1), sigma, expected(rate), 1)
    y = np.linspace(-20.0, 20.0, 400_001)
    p, q = (np.exp(-0.5 * ((y - 1.0) * n / sigma) ** 2) * n / sigma / math.sqrt(2 * math.pi) for n in (2, 3))
    for epsilon, (one, other) in product((0.0, 0.2), ((q, p), (p, q))):
        exact = float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum() * (y[1] - y[0]))
        low, high = truth.delta(epsilon, backward=one is p)
        assert low <= exact * (1 + 1e-6)
        assert exact <= high * (1 + 1e-6)
        assert high - low <= 1e-3 * exact


def test_rules_that_choose_nothing_are_no_rules() -> None:
    p, q = np.array([0.3, -1.0, 0.5, 0.0]), np.array([0.3, -1.0, 0.5, 1.0])
    draw, threshold = Draw("shuffle", size=2), 0.4
    chosen_pair = adaptive_pair((Adaptive(p, p, p, threshold), Adaptive(q, q, q, threshold)), draw, 0.9, constant())
    truth = Truth((p, q), draw, 0.9, constant(), 2)
    for epsilon, backward in product((0.0, 0.5, 1.5), DIRECTIONS):
        low, high = truth.delta(epsilon, backward=backward)
        assert low * (1 - 1e-3) <= chosen_pair.delta(epsilon, backward=backward) <= high


@pytest.mark.parametrize(
    ("draw", "records", "ways", "steps"),
    [
        (Draw("shuffle", size=2), 4, 6, 2),
        (Draw("shuffle", size=2), 5, 30, 3),
        (Draw("shuffle", size=2, drop_last=True), 5, 30, 2),
        (Draw("fixed-size", size=2), 5, 10, 1),
        (Draw("balls-in-bins", batches=3), 4, 81, 3),
        (Draw("cyclic", size=3), 7, 1, 3),
    ],
)
def test_all_batches_are_drawn(draw: Draw, records: int, ways: int, steps: int) -> None:
    found = list(draw.epochs(records))
    assert len(found) == len({batches for _, batches in found}) == ways
    assert math.fsum(weight for weight, _ in found) == pytest.approx(1.0)
    assert all(len(batches) == draw.in_epoch(records) == steps for _, batches in found)


def test_settings_are_of_all_kinds() -> None:
    for sampling in SAMPLINGS:
        few = [it for it in (small(number, sampling) for number in range(300)) if it is not None]
        assert len(few) > 200
        assert {it.adjacency for it in few} == set(nm.Adjacency)
        assert len({type(it.mechanism) for it in few}) == {"fixed-size": 4, "balls-in-bins": 3}.get(sampling, 5)
        assert sum(it.steps % it.draw.in_epoch(len(it.p)) > 0 for it in few) > 40 or sampling == "fixed-size"
        assert sum(it.steps > it.draw.in_epoch(len(it.p)) for it in few) > 60
        assert sum(it.mechanism.drops_last for it in few) > 40 or sampling in ("fixed-size", "balls-in-bins")
