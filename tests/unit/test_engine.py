"""engine: two engines that must agree, counts, orders, directions, and chains of two links."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import mpmath
import numpy as np
import pytest

import many_rounds_oracles as reference
import noisymean as nm
import oracles
from noisymean.compose.chained import ChainedRounds, improved, improved_delta
from noisymean.compose.engine import Rounds
from noisymean.compose.grid.composition import GridComposition
from noisymean.cumulants import SlowDecay
from noisymean.laws.closed import Gaussian, Identity
from noisymean.laws.gaussian import GaussianPairCumulants, gaussian_pair
from noisymean.laws.subsampled import Subsampled
from noisymean.numerics.logs import Array
from noisymean.tradeoff import Side, Tails, TradeOff
from rounds_of import (
    ByHand,
    ceiling_clt_rounds,
    ceiling_rounds,
    claimed_rounds,
    guarantee_rounds,
    leakage_rounds,
    sgm_cumulants,
    transparent_rounds,
)

SIDES = (Side.BELOW, Side.ABOVE)


def sgm(rate: float, sigma: float) -> ByHand:
    return ByHand(lambda: Subsampled(Gaussian(1.0 / sigma), rate), sgm_cumulants(rate, sigma))


def gaussian(mu: float) -> ByHand:
    return ByHand(lambda: Gaussian(mu), GaussianPairCumulants(1.0, np.ones(1), np.array([mu]), 0.0))


def pair(dimension: int, shift: float, step: int) -> ByHand:
    log_scale = -float(np.log1p(1.0 / step))
    return ByHand(
        lambda: gaussian_pair(dimension, shift, log_scale=log_scale),
        GaussianPairCumulants(float(dimension), np.ones(1), np.array([shift]), log_scale),
    )


def bracket(rounds: Rounds | GridComposition, delta: float) -> tuple[float, float]:
    low, high = (rounds.epsilon(delta, side) for side in SIDES)
    assert low <= high
    return low, high


def first_pair(
    kind: Callable[..., object], count: int, dimension: int, rate: float, sigma: float, steps: int
) -> Rounds:
    mechanism = kind(dataset_size=count, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    return leakage_rounds(mechanism, steps)[0][1]  # type: ignore[arg-type]


def guarantee_of(
    kind: Callable[..., object], count: int, dimension: int, rate: float, sigma: float, steps: int
) -> Rounds:
    mechanism = kind(dataset_size=count, dimension=dimension, sample_rate=rate, noise_multiplier=sigma)
    return transparent_rounds(mechanism, steps)  # type: ignore[arg-type]


ENGINES = {
    "sgm A": (Rounds(((1_000, sgm(0.01, 1.0)),)), 1e-5),
    "sgm B": (Rounds(((200, sgm(0.005, 10.0)),)), 1e-5),
    "sgm C": (Rounds(((10_000, sgm(0.01, 0.8)),)), 1e-5),
    "sgm, large rate": (Rounds(((60, sgm(0.5, 1.0)),)), 1e-7),
    "sgm, rate near 1": (Rounds(((40, sgm(0.95, 3.0)),)), 1e-4),
    "sgm, small delta": (Rounds(((300, sgm(0.05, 2.0)),)), 1e-12),
    "sgm, large delta": (Rounds(((300, sgm(0.05, 2.0)),)), 1e-2),
    "gaussian": (Rounds(((25, gaussian(0.2)),)), 1e-6),
    "pair": (Rounds(((30, pair(50, 0.1, 200)),)), 1e-5),
    "unlike": (Rounds(((100, sgm(0.02, 1.0)), (10, pair(9, 0.1, 80)), (5, gaussian(0.1)))), 1e-5),
    "easgm pair": (first_pair(nm.EASGM, 500, 900, 0.05, 1.5, 100), 1e-5),
    "feasgm pair": (first_pair(nm.FEASGM, 399, 80, 0.05, 2.0, 100), 1e-5),
    # so few records that the coarse groups of the grid and the fine ones of the contour are both single sizes
    "easgm transparent": (guarantee_of(nm.EASGM, 40, 200, 0.1, 2.0, 60), 1e-5),
    "asgm pair, sizes": (first_pair(nm.ASGM, 2_000, 50, 0.2, 4.0, 60), 1e-5),
}


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("name", ENGINES)
def test_the_contour_lies_inside_the_bracket_of_the_grid(name: str, reverse: bool) -> None:
    """Two engines that share nothing but the one-round loss: a contour integral of K, and masses added up by FFT."""
    rounds, delta = ENGINES[name]
    rounds = rounds.inverse() if reverse else rounds
    exact = rounds.tradeoff()
    grid = GridComposition(
        tuple((count, law.several()) for count, law in rounds.parts), 1 << (16 if name == "sgm C" else 14)
    )
    low, high = bracket(grid.inverse() if reverse else grid, delta)
    with np.errstate(all="ignore"):
        value = exact.epsilon(delta)
    assert low <= value * (1.0 + 1e-9)
    # a pair's cells leak a little less than what the contour integrates
    assert value * (1.0 - (1e-4 if "pair" in name else 1e-9)) <= high
    # and the grid is no empty promise
    assert high - low < 0.05 * high


def test_the_engine_that_converges_is_used() -> None:
    """Three rounds of a loss with a floor decay too slowly for the contour: the grid takes over, silently."""
    few, many = Rounds(((3, sgm(0.3, 0.5)),)), Rounds(((300, sgm(0.3, 0.5)),))
    with pytest.raises(SlowDecay):
        few.tradeoff().tails(np.array([1.0]))
    low, high = bracket(few, 1e-5)
    assert 0.0 < high - low < 1e-3 * high
    low, high = bracket(many, 1e-5)
    assert 0.0 < high - low < 1e-9 * high


def test_one_round_is_the_one_round_curve() -> None:
    curve = Subsampled(Gaussian(1.0), 0.2)
    rounds = Rounds(((1, sgm(0.2, 1.0)),))
    assert rounds.epsilon(1e-4, Side.ABOVE) == curve.epsilon(1e-4, Side.ABOVE)
    assert rounds.inverse().epsilon(1e-4, Side.ABOVE) == curve.inverse().epsilon(1e-4, Side.ABOVE)
    # a count of zero is no round
    assert Rounds(((0, gaussian(9.0)), (1, sgm(0.2, 1.0)))).epsilon(1e-4, Side.ABOVE) == rounds.epsilon(
        1e-4, Side.ABOVE
    )


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(0.3, 1.0, 0.7), (0.05, 2.0, 0.05), (0.9, 1.5, 1.0)])
def test_two_rounds_by_quadrature(rate: float, sigma: float, epsilon: float) -> None:
    forward, backward = reference.two_subsampled_rounds(rate, sigma, epsilon)
    rounds = Rounds(((2, sgm(rate, sigma)),))
    for direction, exact in ((rounds, float(forward)), (rounds.inverse(), float(backward))):
        low, high = (math.exp(direction.log_delta(epsilon, side)) for side in SIDES)
        assert low <= exact * (1.0 + 1e-9)
        assert exact * (1.0 - 1e-9) <= high
        assert low > 0.98 * exact - 1e-9
        assert high < 1.02 * exact + 1e-9


LOSSES = {"sgm": sgm(0.05, 1.5), "gaussian": gaussian(0.1), "pair": pair(30, 0.1, 150)}


@pytest.mark.parametrize("name", LOSSES)
def test_counts_compose(name: str) -> None:
    loss = LOSSES[name]
    single = bracket(Rounds(((120, loss),)), 1e-5)
    for parts in (((50, loss), (70, loss)), ((1, loss), (119, loss)), ((40, loss),) * 3):
        assert bracket(Rounds(parts), 1e-5) == pytest.approx(single, rel=1e-9)


def test_any_order() -> None:
    parts = [(100, sgm(0.05, 1.5)), (20, gaussian(0.1)), (10, pair(30, 0.1, 150))]
    answers = [
        [direction.epsilon(1e-5, side) for direction in (rounds, rounds.inverse()) for side in SIDES]
        for rounds in (Rounds(order) for order in reference.in_every_order(parts))  # type: ignore[arg-type]
    ]
    for answer in answers[1:]:
        assert answer == pytest.approx(answers[0], rel=1e-10)


def test_directions() -> None:
    rounds = Rounds(((100, sgm(0.05, 1.5)), (10, pair(30, 0.1, 150))))
    twice = rounds.inverse().inverse()
    for delta in (1e-3, 1e-8):
        for side in SIDES:
            assert twice.epsilon(delta, side) == rounds.epsilon(delta, side)
            assert twice.log_delta(1.0, side) == rounds.log_delta(1.0, side)
    assert rounds.inverse().epsilon(1e-5, Side.ABOVE) != rounds.epsilon(1e-5, Side.ABOVE)


def test_a_swapped_pair_is_the_inverse() -> None:
    """N(0, s^2 I) against N(m, I) is, in units of s, N(0, I) against N(m/s, I/s^2): the pair written the other way round."""
    n, shift, scale, count = 40, 0.2, 0.98, 50
    forward = Rounds(((count, pair_of(n, shift, scale)),))
    swapped = Rounds(((count, pair_of(n, shift / scale, 1.0 / scale)),))
    for delta in (1e-2, 1e-5, 1e-10):
        assert bracket(forward.inverse(), delta) == pytest.approx(bracket(swapped, delta), rel=1e-9)
        assert bracket(forward, delta) == pytest.approx(bracket(swapped.inverse(), delta), rel=1e-9)


def pair_of(dimension: int, shift: float, scale: float) -> ByHand:
    return ByHand(
        lambda: gaussian_pair(dimension, shift, scale),
        GaussianPairCumulants(float(dimension), np.ones(1), np.array([shift]), math.log(scale)),
    )


class TestChain:
    @pytest.mark.parametrize(("first", "second"), [(0.5, 0.7), (0.05, 2.0), (2.0, 0.05), (1e-6, 1.0)])
    def test_is_above_the_truth(self, first: float, second: float) -> None:
        """Shifts on one line add up: the truth is G of the sum."""
        chain = ChainedRounds(Rounds(((1, gaussian(first)),)), Rounds(((1, gaussian(second)),)))
        for delta in (1e-2, 1e-5, 1e-10):
            exact = Gaussian(first + second).epsilon(delta)
            assert exact <= chain.epsilon(delta, Side.ABOVE)
            assert exact <= chain.inverse().epsilon(delta, Side.ABOVE)
        for epsilon in (0.1, 1.0, 4.0):
            exact = float(Gaussian(first + second).log_delta(epsilon))
            assert exact <= chain.log_delta(epsilon, Side.ABOVE)

    def test_is_close_where_one_link_is_nothing(self) -> None:
        nothing = Rounds(((1, ByHand(Identity, None)),))
        link = Rounds(((1, gaussian(1.0)),))
        exact = Gaussian(1.0).epsilon(1e-5)
        for chain in (ChainedRounds(nothing, link), ChainedRounds(nothing, link).inverse()):
            assert exact <= chain.epsilon(1e-5, Side.ABOVE) < exact * 1.01

    @pytest.mark.parametrize("mu", [20.0, 36.0, 38.0, 45.0, 60.0])
    def test_a_second_link_of_any_size(self, mu: float) -> None:
        """e^-epsilon underflows beyond 700; the bound must stay at or above its own definition, or be infinite."""
        allowed = []
        for share in (0.05, 0.3, 0.7, 0.95):
            second = gaussian_epsilon(mu, math.log(share * 1e-5))
            # what is left for the first link, in logarithms
            allowed.append(second + gaussian_epsilon(1.0, math.log1p(-share) + math.log(1e-5) - second))
        chain = ChainedRounds(Bisected(1.0), Bisected(mu))
        assert chain.epsilon(1e-5, Side.ABOVE) >= min(allowed) * (1.0 - 1e-9)

    def test_its_delta_is_worked_out_only_where_it_is_better(self) -> None:
        chain = ChainedRounds(Bisected(0.5), Bisected(0.7))
        own = math.exp(chain.log_delta(3.0, Side.ABOVE))
        # what two links of Gaussians are worth is never less than both at once
        assert own >= float(Gaussian(math.hypot(0.5, 0.7)).delta(3.0))
        for known, least in ((math.inf, own), (1.0, own), (10.0 * own, own), (0.5 * own, 0.5 * own), (0.0, 0.0)):
            assert improved_delta(chain, known, 3.0) == pytest.approx(least, rel=1e-12)
        exact = float(Gaussian(0.1).delta(0.2))
        assert improved_delta(Rounds(((1, gaussian(0.1)),)), 1.0, 0.2) == pytest.approx(exact, rel=1e-8)
        assert improved_delta(Rounds(((1, gaussian(0.1)),)), 0.5 * exact, 0.2) == 0.5 * exact

    def test_is_worked_out_only_where_it_is_better(self) -> None:
        chain = ChainedRounds(Rounds(((1, gaussian(0.5)),)), Rounds(((1, gaussian(0.7)),)))
        own, log_delta = chain.epsilon(1e-5, Side.ABOVE), math.log(1e-5)
        assert chain.improved(0.9 * own, log_delta) == 0.9 * own
        assert chain.improved(1.1 * own, log_delta) == pytest.approx(own, rel=1e-9)
        assert improved(
            chain, improved(Rounds(((1, gaussian(5.0)),)), math.inf, log_delta), log_delta
        ) == pytest.approx(own, rel=1e-9)
        exact = Gaussian(0.1).epsilon(1e-5)
        assert improved(Rounds(((1, gaussian(0.1)),)), chain.improved(math.inf, log_delta), log_delta) == pytest.approx(
            exact, rel=1e-8
        )

    def test_is_worked_out_where_one_evaluation_does_not_tell(self) -> None:
        """Rounds of which only the curve is known go on the grid: slow, and no reason to leave the chain out."""
        on_the_grid = Rounds(((1024, ByHand(lambda: Gaussian(0.01), None)),))
        chain = ChainedRounds(on_the_grid, Rounds(((1, gaussian(0.5)),)))
        alone = Gaussian(0.01 * math.sqrt(1024.0)).epsilon(1e-5)
        assert on_the_grid.at_most(50.0, math.log(1e-5)) is True
        # a rough look does not say no
        assert on_the_grid.at_most(0.99 * alone, math.log(1e-5)) is None
        exact = Gaussian(0.01 * math.sqrt(1024.0) + 0.5).epsilon(1e-5)
        assert (
            exact
            <= improved(chain, improved(Rounds(((1, gaussian(5.0)),)), math.inf, math.log(1e-5)), math.log(1e-5))
            < 1.1 * exact
        )


@dataclass(frozen=True, eq=False)
class Counted(TradeOff):
    """G_mu, and how often it was looked at."""

    mu: float
    looks: list[int] = field(default_factory=lambda: [0])

    def tails(self, t: Array) -> Tails:
        self.looks[0] += 1
        return Gaussian(self.mu).tails(t)


class TestAtMost:
    """epsilon of G_mu is known: what is said to be a bound is one, and a bound with some room is seen."""

    @pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
    @pytest.mark.parametrize("steps", [1, 7, 1000])
    def test_sees_bounds_and_only_bounds(self, mu: float, steps: int) -> None:
        rounds = Rounds(((steps, gaussian(mu / math.sqrt(steps))),))
        exact = Gaussian(mu).epsilon(1e-5)
        assert rounds.at_most(exact * 1.001, math.log(1e-5))
        assert not rounds.at_most(exact * 0.999, math.log(1e-5))
        assert not rounds.at_most(math.inf, math.log(1e-5))

    @pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
    @pytest.mark.parametrize("steps", [500, 1000])
    def test_on_the_grid_a_rough_look_sees_bounds_only(self, mu: float, steps: int) -> None:
        rounds = Rounds(((steps, ByHand(lambda: Gaussian(mu / math.sqrt(steps)), None)),))
        exact = Gaussian(mu).epsilon(1e-5)
        assert rounds.at_most(exact * 1.2, math.log(1e-5)) is True
        assert rounds.at_most(exact * 0.999, math.log(1e-5)) is None

    def test_answers_are_remembered(self) -> None:
        curve = Counted(0.06)
        rounds = Rounds(((500, ByHand(lambda: curve, None)),))
        first = rounds.epsilon(1e-5, Side.ABOVE)
        looks = curve.looks[0]
        assert rounds.epsilon(1e-5, Side.ABOVE) == first
        assert curve.looks[0] == looks
        assert rounds.epsilon(1e-6, Side.ABOVE) > first
        assert curve.looks[0] > looks

    def test_of_a_chain(self) -> None:
        chain = ChainedRounds(Rounds(((1, gaussian(0.5)),)), Rounds(((1, gaussian(0.7)),)))
        assert chain.at_most(1.001 * chain.epsilon(1e-5, Side.ABOVE), math.log(1e-5))
        assert not chain.at_most(Gaussian(1.2).epsilon(1e-5), math.log(1e-5))

    def test_a_search_may_begin_anywhere(self) -> None:
        exact = Gaussian(0.4 * math.sqrt(7.0)).epsilon(1e-5)
        for near in (1e-6, 0.5 * exact, exact, 20.0 * exact, 1e6):
            # others each time: answers are remembered
            rounds = Rounds(((7, gaussian(0.4)),))
            assert rounds.epsilon(1e-5, Side.BELOW, near=near) <= exact <= rounds.epsilon(1e-5, Side.ABOVE, near=near)
            assert rounds.epsilon(1e-5, Side.BELOW, near=near) == pytest.approx(exact, rel=1e-8)


@dataclass(frozen=True)
class Bisected:
    """G_mu, its epsilon by bisection: slow, and right for every mu."""

    mu: float

    def epsilon(self, delta: float, side: Side) -> float:
        return self.epsilon_of_log(math.log(delta), side)

    def epsilon_of_log(self, log_delta: float, side: Side, *, near: float | None = None) -> float:
        return gaussian_epsilon(self.mu, log_delta)

    def at_most(self, epsilon: float, log_delta: float, *, rough: bool = True, side: Side = Side.ABOVE) -> bool:
        return float(Gaussian(self.mu).log_delta(epsilon)) <= log_delta

    def log_delta(self, epsilon: float, side: Side) -> float:
        return float(Gaussian(self.mu).log_delta(epsilon))

    def inverse(self) -> Bisected:
        return self


def gaussian_epsilon(mu: float, log_delta: float) -> float:
    """epsilon of G_mu at e^log_delta, however small: bisection on the logarithm."""
    if float(Gaussian(mu).log_delta(0.0)) <= log_delta:
        return 0.0
    low, high = 0.0, 1e7
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(Gaussian(mu).log_delta(middle)) > log_delta else (low, middle)
    return high


@pytest.mark.parametrize("mu", [0.01, 1.0, 10.0, 20.0, 36.0, 60.0, 300.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
def test_epsilon_of_a_large_loss(mu: float, delta: float) -> None:
    """Where delta(0) is 1 to the last digit its slope there is 0: the search must not run away."""
    exact = gaussian_epsilon(mu, math.log(delta))
    low, high = bracket(Rounds(((1, gaussian(mu)),)), delta)
    assert low <= exact * (1.0 + 1e-12)
    assert exact * (1.0 - 1e-12) <= high
    assert high - low <= 1e-9 * high
    low, high = bracket(Rounds(((4, gaussian(mu / 2.0)),)), delta)
    assert low <= exact * (1.0 + 1e-9)
    assert exact * (1.0 - 1e-9) <= high
    assert high - low <= 1e-6 * high


class TestByName:
    """The functions of many_rounds, where a closed form or an order is known."""

    MECHANISM = nm.FEASGM(dataset_size=140_199, dimension=26_010, sample_rate=0.005, noise_multiplier=10.0)

    def test_ceiling_is_closed(self) -> None:
        rounds = ceiling_rounds(self.MECHANISM, 200)
        assert rounds is not None
        exact = gaussian_pair(26_009 * 200, 0.0, log_scale=-float(np.log1p(1.0 / 700)))
        assert rounds.epsilon(1e-5, Side.NEAREST) == pytest.approx(exact.epsilon(1e-5), rel=1e-9)

    def test_central_limit(self) -> None:
        """An estimate of the symmetrised pair over T (n-1) coordinates: above the ceiling itself, with the mu of its moments."""
        rounds, limit = ceiling_rounds(self.MECHANISM, 200), ceiling_clt_rounds(self.MECHANISM, 200)
        assert rounds is not None
        assert limit is not None
        alpha = np.array([0.01, 0.1, 0.3])
        assert np.all(limit(alpha) >= rounds.tradeoff()(alpha))
        kl, kappa2, _ = oracles.functionals_of_symmetrised(700)
        exact = 2 * kl * mpmath.sqrt(200 * 26_009) / mpmath.sqrt(kappa2 - kl**2)
        assert limit.mu == pytest.approx(float(exact), rel=1e-9)

    def test_no_ceiling_where_the_denominator_stays(self) -> None:
        still = nm.FEASGM(dataset_size=140_200, dimension=26_010, sample_rate=0.005, noise_multiplier=10.0)
        assert ceiling_rounds(still, 200) is None
        assert ceiling_clt_rounds(still, 200) is None
        assert transparent_rounds(still, 200).epsilon(1e-5, Side.ABOVE) == pytest.approx(
            claimed_rounds(still, 200).epsilon(1e-5, Side.ABOVE), rel=1e-4
        )

    def test_transparency_costs(self) -> None:
        """The paper's composed guarantee is sound, so never below what leaks; the best proof is no worse than it."""
        small = nm.EASGM(dataset_size=200, dimension=100, sample_rate=0.1, noise_multiplier=3.0)
        transparent = transparent_rounds(small, 50)
        best = min(proof.epsilon(1e-5, Side.ABOVE) for proof in guarantee_rounds(small, 50))
        leaked = max(rounds.epsilon(1e-5, Side.BELOW) for _, rounds in leakage_rounds(small, 50))
        assert leaked <= best <= transparent.epsilon(1e-5, Side.ABOVE)
