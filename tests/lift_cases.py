"""Small runs drawn from their numbers, and what is wrong with the package's answers to them (`lift_oracle` knows the truth)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import noisymean as nm
from lift_oracle import Gradients, Moved, adaptive_truth, families, gradients_of, tradeoff, truth
from noisymean.accountant import Question, guaranteed_one_way
from noisymean.lifted import LiftedRounds
from noisymean.mechanisms import DatasetDenominator
from noisymean.planned import Moving
from noisymean.runs import Run
from noisymean.tradeoff import Side

DELTAS = (1e-2, 1e-5, 1e-8)
DIRECTIONS = (False, True)
# The truth is right to rounding.
ROUNDING = 1.0 + 1e-9
ALPHAS = np.array([1e-4, 0.01, 0.1, 0.3, 0.5, 0.8, 0.99])


@dataclass(frozen=True, kw_only=True)
class Anything(DatasetDenominator):
    """Rate, denominator and noise on D and on D' as they are told: whatever a function of N may do."""

    dataset_size: int
    dimension: int
    noise_multiplier: float
    rates: tuple[Fraction, Fraction]
    denominators: tuple[Fraction, Fraction]
    noises_told: tuple[float, float]
    name = "anything"
    denominator = "what is told"

    def rate_at(self, size: int) -> Fraction:
        return self.rates[size - self.dataset_size]

    def denominator_at(self, size: int) -> Fraction:
        return self.denominators[size - self.dataset_size]

    def noise_at(self, size: int) -> float:
        return self.noises_told[size - self.dataset_size]


class Case(NamedTuple):
    """A run and the sets of gradients that it is judged on."""

    number: int
    mechanism: Any
    moved: Moved
    steps: int
    sets: tuple[tuple[str, Gradients], ...]


KINDS = ("easgm", "feasgm", "loader", "anything")


class _Draw:
    def __init__(self, number: int) -> None:
        self.generator = np.random.default_rng([14, number])

    def spread(self, low: float, high: float) -> float:
        return float(np.exp(self.generator.uniform(math.log(low), math.log(high))))

    def typed(self, value: float, digits: int = 2) -> Fraction:
        return Fraction(f"{value:.{digits}g}")

    def rate(self) -> Fraction:
        spread = self.spread(0.01, 0.97) if self.generator.random() < 0.5 else self.generator.uniform(0.05, 0.97)
        return min(max(self.typed(spread), Fraction(1, 100)), Fraction(97, 100))

    def whole(self, low: int, high: int) -> int:
        return int(self.generator.integers(low, high + 1))


def drawn(number: int) -> Case:
    """The same run for the same number everywhere."""
    draw = _Draw(number)
    kind = KINDS[draw.whole(0, 3)]
    dimension, steps = draw.whole(1, 2), draw.whole(1, 5)
    sigma = float(draw.typed(draw.spread(0.3, 10.0)))
    size = draw.whole(1, 30) if draw.generator.random() < 0.6 else draw.whole(1, 7)
    rate = draw.rate()
    mechanism, moved = _made(draw, kind, size, dimension, rate, sigma)
    size = mechanism.dataset_size
    others = [one for one in families(size, dimension) if one not in ("zero", "opposed")]
    few = draw.generator.permutation(len(others))[:3]
    names = ("zero", "opposed", *(others[i] for i in few))
    sets = tuple((name, gradients_of(name, size, dimension, draw.generator)) for name in names)
    return Case(number, mechanism, moved, steps, sets)


def _made(draw: _Draw, kind: str, size: int, dimension: int, rate: Fraction, sigma: float) -> tuple[Any, Moved]:
    """The mechanism, and what moves by its definition."""
    common: dict[str, Any] = {"dimension": dimension, "noise_multiplier": sigma}
    q = float(rate)
    match kind:
        case "easgm":
            shrink = size / (size + 1)
            return nm.EASGM(dataset_size=size, sample_rate=rate, **common), Moved(q, q, shrink, shrink, sigma)
        case "feasgm":
            # at N where the floor steps, if there is one up to 30
            steps = [n for n in range(1, 31) if math.floor((n + 1) * rate) > max(math.floor(n * rate), 1)]
            size = steps[draw.whole(0, len(steps) - 1)] if steps else size
            floors = [max(math.floor(n * rate), 1) for n in (size, size + 1)]
            shrink = floors[0] / floors[1]
            return nm.FEASGM(dataset_size=size, sample_rate=rate, **common), Moved(q, q, shrink, shrink, sigma)
        case "loader":
            length = draw.whole(2, 10)
            batch = draw.whole(1, 30 // length)
            size = length * batch
            before, after = 1 / length, 1 / (length + 1)
            shrink = int(size * before) / int((size + 1) * after)
            made = nm.OpacusLoader(dataset_size=size, batch_size=batch, **common)
            return made, Moved(before, after, shrink, shrink, sigma)
    rate_with = min(max(draw.typed(q * draw.spread(0.6, 1.6)), Fraction(1, 100)), Fraction(97, 100))
    over, over_with = (Fraction(draw.whole(5, 12)) for _ in range(2))
    louder = float(draw.typed(sigma * draw.spread(0.75, 1.33), 3)) if draw.generator.random() < 0.6 else sigma
    told = Anything(
        dataset_size=size,
        rates=(rate, rate_with),
        denominators=(over, over_with),
        noises_told=(sigma, louder),
        **common,
    )
    shrink = float(over / over_with)
    return told, Moved(q, float(rate_with), shrink, shrink * louder / sigma, sigma)


def random_setting(number: int) -> str:
    return _described(drawn(number))


def lifted(case: Case, *, backward: bool) -> LiftedRounds:
    rounds = LiftedRounds((Moving(case.mechanism, case.steps),))
    return rounds.inverse() if backward else rounds


def whole_guarantee(case: Case, delta: float, *, backward: bool) -> float:
    return guaranteed_one_way(Run.of(case.mechanism, case.steps), Question(delta), reverse=backward).value


def faults(number: int, *, thorough: bool | None = None) -> Iterator[str]:
    """Whatever a set of gradients refutes: one direction and one delta, or (one number in a hundred) everything that can be asked."""
    thorough = number % 100 == 0 if thorough is None else thorough
    case = drawn(number)
    questions = (
        [(backward, delta) for backward in DIRECTIONS for delta in DELTAS]
        if thorough
        else [(bool(number % 2), DELTAS[number // 2 % 3])]
    )
    for backward, delta in questions:
        told = {"lift": lifted(case, backward=backward).epsilon(delta, Side.ABOVE)}
        if thorough and delta == DELTAS[1]:
            told["guarantee"] = whole_guarantee(case, delta, backward=backward)
        yield from refuted(case, told, delta, backward=backward)
    if thorough:
        for backward in DIRECTIONS:
            yield from _deltas(case, backward=backward)
        if case.steps == 1 and case.mechanism.dimension == 1:
            yield from _tests(case)


def refuted(case: Case, told: dict[str, float], delta: float, *, backward: bool) -> Iterator[str]:
    """Epsilons at which one of the sets still has more than delta."""
    if all(math.isinf(epsilon) and epsilon > 0.0 for epsilon in told.values()):
        return
    for name, gradients in case.sets:
        it = truth(case.moved, gradients, case.steps, backward=backward)
        for proof, epsilon in told.items():
            if not epsilon >= 0.0 or it.delta(epsilon) > delta * ROUNDING:
                yield f"{_described(case)}: {proof} {epsilon} < {it.epsilon(delta)} at {delta}, {name}, backward={backward}"


def _deltas(case: Case, *, backward: bool) -> Iterator[str]:
    """The same asked the other way: an upper bound on delta at the epsilon of a set."""
    name, gradients = case.sets[case.number % len(case.sets)]
    it = truth(case.moved, gradients, case.steps, backward=backward)
    epsilon = it.epsilon(1e-4)
    found = math.exp(lifted(case, backward=backward).log_delta(epsilon, Side.ABOVE))
    if not found * ROUNDING >= it.delta(epsilon):
        yield f"{_described(case)}: delta {found} < {it.delta(epsilon)} at {epsilon}, {name}, backward={backward}"


def _tests(case: Case) -> Iterator[str]:
    """f(alpha) of one round."""
    lower = lifted(case, backward=False).lower(ALPHAS)
    for name, gradients in case.sets:
        exact = tradeoff(case.moved, gradients, ALPHAS)
        if not np.all(lower <= exact + 1e-12):
            yield f"{_described(case)}: f {lower} > {exact} at {ALPHAS}, {name}"


def adaptive_faults(number: int) -> Iterator[str]:
    """Two rounds in one dimension; the sign of the first output chooses the gradients of the second."""
    case = drawn(number)
    size = case.mechanism.dataset_size
    generator = np.random.default_rng([41, number])
    two = case._replace(mechanism=replace(case.mechanism, dimension=1), steps=2)
    backward, delta = bool(number % 2), DELTAS[number // 2 % 2]
    told = lifted(two, backward=backward).epsilon(delta, Side.ABOVE)
    if math.isinf(told):
        return
    names = families(size, 1)
    for _ in range(4):
        chosen = [names[i] for i in generator.integers(0, len(names), 3)]
        first, below, above = (gradients_of(name, size, 1, generator) for name in chosen)
        it = adaptive_truth(case.moved, first, (below, above), backward=backward)
        if it.delta(told) > delta * ROUNDING:
            yield f"{_described(two)}: lift {told} < {it.epsilon(delta)} at {delta}, {chosen}, backward={backward}"


def _described(case: Case) -> str:
    return f"{case.number} {case.mechanism} T={case.steps} {case.moved}"
