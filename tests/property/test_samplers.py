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
    pair_of,
    released,
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
        of = f"{self.mechanism.in_a_line()}, b = {self.mechanism.batch_size}, drop_last = {self.mechanism.drop_last}"
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
    each = 100 if THOROUGH else 12
    settings = [small(number, sampling) for number in range(block * each, (block + 1) * each)]
    assert_none([fault for it in settings if it is not None for fault in faults(it)])


def test_a_batch_that_may_not_have_the_record_leaks_no_more_than_it_does() -> None:
    """Tails of the largest sum were lost to rounding where the record is in no batch with some probability."""
    mechanism, draw, divisor = made(nm.SGM, "shuffle", 4, 3, 0.41)
    # the second epoch breaks off after a batch that has the record with probability 3/4
    p, q = np.array([[-1.0]] * 4), np.array([[1.0]] + [[-1.0]] * 3)
    it = Small(mechanism, draw, divisor, 3, nm.Adjacency.REPLACE_ONE, 2e-4, p, q)
    assert it.account(delta=2e-4).leakage.epsilon <= it.truth().epsilon(2e-4).high
