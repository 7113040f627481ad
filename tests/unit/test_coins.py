"""Blocks of coins against exact binomials and against the best strategies: no bound is below the truth, either way round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np
import pytest

from coin_oracle import best, by_paths, constant, delta_of_paths
from noisymean.laws.coins import Block, Coins, Costs, normal, renyi_hull, thinned
from noisymean.tradeoff import Side

Array = np.ndarray
WAYS = (False, True)
RATES = (0.01, 0.2, 0.5, 0.85)
REST = 1e-9


def bounded(block: Block, epsilon: Array, *, flipped: bool) -> Array:
    """What the block says of the second arm told from the first."""
    curve = block.law.one_round()
    found = (curve.inverse() if flipped else curve).delta(epsilon, Side.ABOVE)
    return np.asarray(found + block.delta)


def looked_at(loss: float) -> Array:
    """Epsilons of both signs up to a largest loss."""
    return loss * np.concatenate([-np.geomspace(1.0, 1e-3, 9), [0.0], np.geomspace(1e-3, 1.0, 17)])


def assert_never_below(block: Block | None, exact: Array, epsilon: Array, *, flipped: bool) -> None:
    assert block is not None
    found = bounded(block, epsilon, flipped=flipped)
    assert np.all(found * (1.0 + 1e-10) + 1e-15 >= exact), np.max(exact - found)


def largest_loss(coins: Coins, x: float, count: int) -> float:
    heads, tails = math.log1p(x), math.log1p(-coins.odds * x)
    deviation = math.sqrt(count * coins.variance) * abs(x)
    return min(count * max(heads, tails), 7.0 * deviation + deviation**2 + 2.0 * max(heads, tails))


# --- constant biases: binomials ----------------------------------------------------------------------------------------

CONSTANT = [
    (rate, x, count)
    for rate, x, count in product(RATES, (-0.6, -0.1, -1e-3, 1e-3, 0.1, 0.6), (1, 7, 300, 20_000))
    if rate / (1.0 - rate) * x < 0.95
]


@pytest.mark.thin(3)
@pytest.mark.parametrize(("rate", "x", "count"), CONSTANT)
@pytest.mark.parametrize("flipped", WAYS)
def test_binomials(rate: float, x: float, count: int, flipped: bool) -> None:
    coins = Coins(rate, min(x, -0.3 * x), max(x, -0.3 * x))
    if not coins.possible:
        coins = Coins(rate, min(x, 0.0), max(x, 0.0))
    epsilon = looked_at(largest_loss(coins, x, count))
    exact = constant(rate, x, count, epsilon)
    block = renyi_hull(coins, count * x * x, REST, flipped=flipped)
    if block is None:
        assert count * x * x * coins.variance > 5.0, "a block is given up only where it says nearly everything"
        return
    assert_never_below(block, exact, epsilon, flipped=flipped)


@pytest.mark.thin(3)
@pytest.mark.parametrize(("rate", "x", "count"), CONSTANT)
@pytest.mark.parametrize("flipped", WAYS)
def test_thinned_coins_are_binomial(rate: float, x: float, count: int, flipped: bool) -> None:
    coins = Coins(rate, min(x, 0.2 * x), max(x, 0.2 * x))
    epsilon = looked_at(largest_loss(coins, x, count))
    block = thinned(coins, count, REST, flipped=flipped)
    exact = constant(rate, x, count, epsilon)
    assert_never_below(block, exact, epsilon, flipped=flipped)
    # and hardly above, but where masses of the first arm underflow: what it leaves out, and rounding
    assert epsilon[-1] > 300.0 or np.all(bounded(block, epsilon, flipped=flipped) <= exact * (1.0 + 1e-9) + 2.0 * REST)


def test_coins_of_both_signs_are_not_thinned() -> None:
    assert thinned(Coins(0.3, -0.1, 0.2), 5, REST, flipped=False) is None


@pytest.mark.parametrize("flipped", WAYS)
@pytest.mark.parametrize(
    ("rate", "x", "count"), [(0.1, 1e-3, 20_000), (0.5, -3e-4, 60_000), (0.02, 3e-3, 30_000), (0.8, 2e-4, 50_000)]
)
@pytest.mark.parametrize("share", [0.1, 0.5, 2.0])
def test_the_gaussian_of_tiny_coins(rate: float, x: float, count: int, share: float, flipped: bool) -> None:
    coins = Coins(rate, -abs(x), abs(x))
    variance = count * coins.variance * x * x
    costs = Costs(coins, share * variance, math.sqrt(2.0 * (1.3 + share) * variance * math.log(1.0 / REST)))
    cost = float(costs.of(np.array([x]))[0])
    assert math.isfinite(cost)
    block = normal(costs, count * cost)
    epsilon = looked_at(largest_loss(coins, x, count))
    exact = constant(rate, x, count, epsilon)
    assert_never_below(block, exact, epsilon, flipped=flipped)
    # the cost is a variance and a little more; a Gaussian without the coins' own would be below somewhere
    assert count * cost >= variance
    assert np.any(bounded(normal(costs, 0.0), epsilon, flipped=flipped) < exact) or share >= 1.0


@pytest.mark.parametrize("rate", RATES)
def test_costs_are_what_the_lemma_asks_for(rate: float) -> None:
    """C >= k e^(A l/V0 + (1 + A + C) C/(2 V0)), k at least twice the divergence, C convex and rising with |x|."""
    odds = rate / (1.0 - rate)
    end = 0.3 / max(1.0, odds)
    least, reach = 0.5, 1.5
    costs = Costs(Coins(rate, -end, end), least, reach)
    x = np.linspace(-end, end, 801)
    cost = costs.of(x)
    seen = np.isfinite(cost)
    ratio = -np.log1p(-max(1.0, odds) * np.abs(x))
    divergence = rate * (1.0 + x) * np.log1p(x) + (1.0 - rate) * (1.0 - odds * x) * np.log1p(-odds * x)
    k = np.square(x) * rate * (np.maximum(1.0, 1.0 / (1.0 + x)) + odds * np.maximum(1.0, 1.0 / (1.0 - odds * x)))
    assert np.all(k >= 2.0 * divergence - 1e-16)
    needed = k * np.exp(reach * ratio / least + (1.0 + reach + cost) * cost / (2.0 * least))
    assert np.all(cost[seen] >= needed[seen])
    assert seen[400]
    assert np.all(np.diff(seen[400:].astype(int)) <= 0)
    inner = cost[seen]
    assert np.all(inner[2:] - 2.0 * inner[1:-1] + inner[:-2] >= -1e-12)
    right = cost[400:][seen[400:]]
    assert np.all(np.diff(right) >= 0.0)


# --- biases that follow the past ---------------------------------------------------------------------------------------


def square(x: float) -> float:
    return x * x


@pytest.mark.parametrize("flipped", WAYS)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.5), (-0.1, 0.9), (-0.8, 0.15)])
def test_the_best_strategy(rate: float, low: float, high: float, flipped: bool) -> None:
    high = min(high, 0.9 * (1.0 - rate) / rate)
    coins = Coins(rate, low, high)
    budget = 2.0 * coins.largest**2
    choices = (low, 0.5 * low, 0.4 * high, 0.75 * high, high)
    epsilon = looked_at(3.0 * max(math.log1p(high), math.log1p(-coins.odds * low)))
    exact = best(rate, choices, square, 4, budget, epsilon)
    assert_never_below(renyi_hull(coins, budget, REST, flipped=flipped), exact, epsilon, flipped=flipped)


@pytest.mark.parametrize("flipped", WAYS)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("end", [-0.7, 0.8])
def test_the_best_strategy_of_one_sign(rate: float, end: float, flipped: bool) -> None:
    end = min(end, 0.9 * (1.0 - rate) / rate)
    choices = tuple(share * end for share in (0.0, 0.3, 0.6, 0.8, 1.0))
    coins = Coins(rate, min(end, 0.0), max(end, 0.0))
    epsilon = looked_at(4.0 * max(math.log1p(end), math.log1p(-coins.odds * end)))
    exact = best(rate, choices, square, 4, math.inf, epsilon)
    assert_never_below(thinned(coins, 4, REST, flipped=flipped), exact, epsilon, flipped=flipped)


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("begin", [16.0, 100.0])
def test_the_best_strategy_against_a_gaussian(rate: float, begin: float) -> None:
    """Few coins, so that the Gaussian must begin with much more than theirs."""
    end = 1e-3
    coins = Coins(rate, -end, end)
    least = begin * 4 * coins.variance * end * end
    costs = Costs(coins, least, 4.0 * math.sqrt(least))
    price = {x: float(costs.of(np.array([x]))[0]) for x in (-end, -0.6 * end, 0.3 * end, 0.7 * end, end)}
    assert all(map(math.isfinite, price.values()))
    budget = 2.5 * max(price.values())
    epsilon = looked_at(4.0 * -math.log1p(-max(1.0, coins.odds) * end))
    exact = best(rate, tuple(price), price.__getitem__, 4, budget, epsilon)
    assert_never_below(normal(costs, budget), exact, epsilon, flipped=False)


@pytest.mark.parametrize("number", range(24))
def test_random_strategies(number: int) -> None:
    """Ten coins; x at every node from a generator of its own, of what the budget leaves."""
    draw = np.random.default_rng([7, number])
    rate = float(draw.uniform(0.02, 0.9))
    high = min(0.9 * (1.0 - rate) / rate, float(draw.uniform(0.02, 0.6)))
    low = -float(draw.uniform(0.02, 0.6))
    coins = Coins(rate, low, high)
    count, budget = 10, float(draw.uniform(0.5, 5.0)) * coins.largest**2
    bold = bool(number % 2)

    def strategy(past: Sequence[int], purse: float) -> float:
        most = math.sqrt(max(purse, 0.0))
        if bold:
            # stakes all where the loss is low, little where it is high
            return max(low, -most) if sum(past) * 2 > len(past) else min(high, most)
        x = float(np.random.default_rng([number, len(past), *past]).uniform(low, high))
        return max(min(x, most), -most)

    weight, loss = by_paths(rate, strategy, square, count, budget)
    assert weight.sum() == pytest.approx(1.0, rel=1e-12)
    epsilon = looked_at(float(loss.max()))
    exact = delta_of_paths(weight, loss, epsilon)
    for flipped in WAYS:
        assert_never_below(renyi_hull(coins, budget, REST, flipped=flipped), exact, epsilon, flipped=flipped)


def always(x: float, past: Sequence[int], purse: float) -> float:
    return x


def test_two_oracles_of_coins_agree() -> None:
    epsilon = looked_at(1.0)
    for rate, x in ((0.3, 0.2), (0.6, -0.4)):
        weight, loss = by_paths(rate, partial(always, x), lambda _: 0.0, 6, 1.0)
        exact = constant(rate, x, 6, epsilon)
        assert delta_of_paths(weight, loss, epsilon) == pytest.approx(exact, rel=1e-10, abs=1e-16)
        assert best(rate, (x,), lambda _: 0.0, 6, 1.0, epsilon) == pytest.approx(exact, rel=1e-10, abs=1e-16)


def test_nothing_is_said_where_coins_are_not_coins() -> None:
    assert not Coins(0.5, -0.1, 1.0).possible
    assert not Coins(0.5, -1.0, 0.1).possible
    assert Coins(0.5, -0.99, 0.99).possible


@pytest.mark.parametrize("budget", [1e3, 1e5, 1e9])
def test_a_large_budget_gives_up_quietly(budget: float) -> None:
    """Warnings are errors here: a block that cannot be bounded is None, or a bound."""
    renyi_hull(Coins(0.4, -0.5, 0.5), budget, REST, flipped=False)
