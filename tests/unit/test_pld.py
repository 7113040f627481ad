"""pld: discretised losses dominate or are dominated, composition is convolution, charges are on the stated side."""

from __future__ import annotations

import math

import numpy as np
import pytest

import many_rounds_oracles as reference
from noisymean.gaussian_pair import gaussian_pair
from noisymean.pld.compose import GridComposition, GridSum, Window, composed, window_for
from noisymean.pld.discretize import GridLoss, discretize
from noisymean.size_revealed import size_revealed
from noisymean.tradeoff import (
    EpsilonDelta,
    FiniteOutcomes,
    Gaussian,
    Identity,
    RevealedMixture,
    Side,
    Subsampled,
    TradeOff,
)

CURVES: dict[str, TradeOff] = {
    "gaussian": Gaussian(0.8),
    "subsampled": Subsampled(Gaussian(1.0), 0.1),
    "subsampled, reversed": Subsampled(Gaussian(1.0), 0.1).inverse(),
    "pair": gaussian_pair(20, 0.3, 0.9),
    "pair, reversed": gaussian_pair(20, 0.3, 0.9).inverse(),
    "mixture": RevealedMixture((0.6, 0.4), (Identity(), gaussian_pair(8, 1.0, 0.8))),
    "outcomes": FiniteOutcomes(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])),
    "infinite": EpsilonDelta(0.7, 0.05),
    "sizes": size_revealed(5, 0.3, 2.0),
    "sizes, reversed": size_revealed(5, 0.3, 2.0).inverse(),
}
EVERY = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
SIDES = (Side.BELOW, Side.ABOVE)
# points of a grid where only the side matters, not the width
SMALL = 1 << 12


def grid_delta(loss: GridLoss, epsilon: float) -> float:
    """E_Q[(1 - e^(eps - l))_+] by its definition."""
    return float(np.sum(loss.mass * np.maximum(-np.expm1(epsilon - loss.losses), 0.0)) + loss.infinite)


class TestDiscretize:
    @EVERY
    @pytest.mark.parametrize("step", [0.5, 0.03])
    def test_sides(self, curve: TradeOff, step: float) -> None:
        reach = math.ceil(12.0 / step)
        below, above = (discretize(curve, step, -reach, reach, side) for side in SIDES)
        # between grid points, on them, and outside of the grid
        epsilons = np.concatenate([np.linspace(-13.0, 13.0, 521), step * np.arange(-8.0, 9.0)])
        exact = curve.delta(epsilons)
        assert all(grid_delta(below, e) <= d + 1e-13 for e, d in zip(epsilons.tolist(), exact.tolist(), strict=True))
        assert all(grid_delta(above, e) >= d - 1e-13 for e, d in zip(epsilons.tolist(), exact.tolist(), strict=True))

    @EVERY
    def test_above_is_exact_at_grid_points(self, curve: TradeOff) -> None:
        """Connecting the dots of delta as a function of e^eps: no error where the dots are."""
        step = 0.1
        loss = discretize(curve, step, -120, 120, Side.ABOVE)
        for index in (-20, -3, 0, 1, 4, 30):
            assert grid_delta(loss, step * index) == pytest.approx(
                float(curve.delta(step * index)), rel=1e-9, abs=1e-13
            )

    @EVERY
    @pytest.mark.parametrize("side", SIDES)
    def test_masses(self, curve: TradeOff, side: Side) -> None:
        loss = discretize(curve, 0.05, -240, 240, side)
        assert np.all(loss.mass >= 0.0)
        assert loss.infinite >= 0.0
        assert float(loss.mass.sum()) + loss.infinite <= 1.0 + 1e-12
        assert loss.losses.size == loss.mass.size
        np.testing.assert_allclose(np.diff(loss.losses), 0.05, rtol=1e-9)
        assert loss.error > 0.0

    def test_above_loses_no_mass_and_below_only_what_is_under_the_grid(self) -> None:
        curve = Subsampled(Gaussian(2.0), 0.3)
        above, below = (discretize(curve, 0.1, -2, 15, side) for side in (Side.ABOVE, Side.BELOW))
        assert float(above.mass.sum()) + above.infinite == pytest.approx(1.0, abs=1e-12)
        assert above.infinite == pytest.approx(float(np.exp(curve.tails(np.array([1.5])).q_above[0])), rel=1e-12)
        under = float(np.exp(curve.tails(np.array([-0.2])).q_below[0]))
        assert float(below.mass.sum()) == pytest.approx(1.0 - under, abs=1e-12)
        assert below.infinite == 0.0

    def test_a_grid_that_is_too_short_is_still_on_its_side(self) -> None:
        curve = Gaussian(2.0)
        epsilons = np.linspace(-3.0, 8.0, 111).tolist()
        for first, last in ((-5, 5), (2, 9), (-30, -20)):
            below, above = (discretize(curve, 0.1, first, last, side) for side in SIDES)
            for epsilon in epsilons:
                assert (
                    grid_delta(below, epsilon)
                    <= float(curve.delta(epsilon)) + 1e-13
                    <= grid_delta(above, epsilon) + 2e-13
                )

    @pytest.mark.parametrize("name", ["gaussian", "subsampled", "pair", "pair, reversed"])
    @pytest.mark.parametrize("side", SIDES)
    def test_error_is_of_second_order(self, name: str, side: Side) -> None:
        """Halving the step of a smooth loss divides the error by four, on both sides."""
        curve, epsilons = CURVES[name], np.linspace(0.021, 0.9, 89)

        def worst(step: float) -> float:
            reach = math.ceil(9.0 / step)
            loss = discretize(curve, step, -reach, reach, side)
            computed = np.array([grid_delta(loss, e) for e in epsilons.tolist()])
            return float(np.max(np.abs(computed - curve.delta(epsilons))))

        coarse, fine = worst(0.04), worst(0.01)
        assert fine < coarse / 8.0
        assert coarse < 0.04**2 * 10.0


def convolution(losses: list[GridLoss]) -> tuple[np.ndarray, np.ndarray, float]:
    """(losses, masses, mass at infinity) of the sum, by numpy's direct convolution."""
    mass, first, offset, infinite = np.ones(1), 0, 0.0, 0.0
    for loss in losses:
        mass = np.convolve(mass, loss.mass)
        first, offset = first + loss.first, offset + loss.offset
        infinite += loss.infinite - infinite * loss.infinite
    return offset + losses[0].step * (first + np.arange(mass.size)), mass, infinite


def direct_delta(losses: list[GridLoss], epsilon: float) -> float:
    at, mass, infinite = convolution(losses)
    return float(np.sum(mass * np.maximum(-np.expm1(epsilon - at), 0.0)) + infinite)


def two_sides(total: GridSum, epsilon: float) -> tuple[float, float]:
    """delta on both sides; far from the window the charges make the upper one useless, never wrong."""
    return math.exp(total.log_delta(epsilon, Side.BELOW)), math.exp(min(total.log_delta(epsilon, Side.ABOVE), 1.0))


class TestComposed:
    @EVERY
    @pytest.mark.parametrize("count", [1, 2, 3])
    @pytest.mark.parametrize("side", SIDES)
    def test_is_the_convolution(self, curve: TradeOff, count: int, side: Side) -> None:
        loss = discretize(curve, 0.05, -140, 140, side)
        total = composed([(count, loss)], window_for([(count, loss)], math.log(1e-4)), 256)
        for epsilon in (0.0, 0.33, 1.0, 2.5):
            exact = direct_delta([loss] * count, epsilon)
            low, high = two_sides(total, epsilon)
            # numpy's own rounding is of the order of 1e-15
            assert low <= exact * (1.0 + 1e-12) + 1e-15
            assert high >= exact * (1.0 - 1e-12) - 1e-15

    @pytest.mark.parametrize("name", ["gaussian", "subsampled", "pair", "mixture", "sizes"])
    def test_is_close_to_the_convolution(self, name: str) -> None:
        loss = discretize(CURVES[name], 0.05, -140, 140, Side.ABOVE)
        exact = direct_delta([loss] * 3, 1.5)
        total = composed([(3, loss)], window_for([(3, loss)], math.log(exact)), 256)
        low, high = two_sides(total, 1.5)
        assert high / low < 1.0 + 1e-8
        assert high == pytest.approx(exact, rel=1e-8)

    def test_unlike_rounds(self) -> None:
        first, second = (discretize(CURVES[n], 0.05, -140, 140, Side.ABOVE) for n in ("subsampled", "pair"))
        exact = direct_delta([first, second, second], 1.0)
        for parts in ([(1, first), (2, second)], [(2, second), (1, first)], [(1, second), (1, first), (1, second)]):
            total = composed(parts, window_for(parts, math.log(exact)), 256)
            low, high = two_sides(total, 1.0)
            assert low <= exact <= high
            assert high == pytest.approx(exact, rel=1e-8)

    @pytest.mark.parametrize("theta", [0.2, 1.0, 3.0, 12.0])
    def test_the_tilt_does_not_matter(self, theta: float) -> None:
        loss = discretize(CURVES["subsampled"], 0.02, -350, 350, Side.ABOVE)
        exact = direct_delta([loss, loss], 0.5)
        best = window_for([(2, loss)], math.log(exact))
        total = composed([(2, loss)], Window(theta, best.below, best.above), 256)
        assert total.theta == theta
        low, high = two_sides(total, 0.5)
        assert low <= exact <= high
        if theta <= 3.0:
            assert high < low * (1.0 + 1e-6)

    def test_charges_are_positive_and_grow_with_the_rounds(self) -> None:
        loss = discretize(CURVES["subsampled"], 0.02, -350, 350, Side.ABOVE)
        totals = [composed([(count, loss)], window_for([(count, loss)], -11.0), 256) for count in (1, 10, 100)]
        for total in totals:
            assert total.charge > 0.0
            assert total.error > 0.0
            assert total.log_delta(0.3, Side.BELOW) < total.log_delta(0.3, Side.ABOVE)
        assert totals[0].error < totals[1].error < totals[2].error

    def test_a_window_much_narrower_than_the_losses_wraps_soundly(self) -> None:
        """What wraps around is charged, not lost."""
        loss = discretize(CURVES["gaussian"], 0.05, -140, 140, Side.ABOVE)
        narrow = Window(6.0, 6.0, 6.0)
        total = composed([(1, loss)], narrow, 16)
        for epsilon in (0.5, 2.0, 4.0):
            low, high = two_sides(total, epsilon)
            assert low <= direct_delta([loss], epsilon) <= high

    def test_mass_at_infinity_adds_up(self) -> None:
        for lost in (0.05, 0.4, 0.6, 0.9):
            loss = discretize(EpsilonDelta(0.1, lost), 0.05, -20, 20, Side.ABOVE)
            assert loss.infinite == pytest.approx(lost)
            total = composed([(3, loss)], window_for([(3, loss)], -1.0), 64)
            assert total.infinite == pytest.approx(1.0 - (1.0 - lost) ** 3, rel=1e-12)


class TestGridComposition:
    @EVERY
    def test_one_round(self, curve: TradeOff) -> None:
        grid = GridComposition(((1, curve),), SMALL)
        for delta in (1e-2, 1e-6):
            exact = curve.epsilon(delta)
            low, high = (grid.epsilon(delta, side) for side in SIDES)
            assert low <= exact * (1.0 + 1e-12) <= high * (1.0 + 2e-12)

    @EVERY
    @pytest.mark.parametrize("epsilon", [0.05, 0.6, 2.0])
    def test_one_round_of_delta(self, curve: TradeOff, epsilon: float) -> None:
        grid = GridComposition(((1, curve),), SMALL)
        low, high = (grid.log_delta(epsilon, side) for side in SIDES)
        exact = float(curve.log_delta(epsilon))
        assert low <= exact + 1e-12
        assert exact <= high + 1e-12
        assert high <= 1e-9

    @pytest.mark.parametrize(
        ("p", "q"),
        [
            ([0.5, 0.5], [0.25, 0.75]),
            ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]),
            ([0.1, 0.2, 0.3, 0.4], [0.4, 0.25, 0.25, 0.1]),
        ],
    )
    @pytest.mark.parametrize("count", [2, 5])
    def test_brute_force(self, p: list[float], q: list[float], count: int) -> None:
        """Every combination of outcomes of a few rounds, losses off the grid."""
        p_all, q_all = reference.all_outcomes([(count, np.array(p), np.array(q))])
        grid = GridComposition(((count, FiniteOutcomes(np.array(p), np.array(q))),))
        for epsilon in (0.1, 0.9, 1.7):
            for direction, exact in (
                (grid, reference.hockey_stick(p_all, q_all, epsilon)),
                (grid.inverse(), reference.hockey_stick(q_all, p_all, epsilon)),
            ):
                low, high = (math.exp(direction.log_delta(epsilon, side)) for side in SIDES)
                assert low <= exact * (1.0 + 1e-9)
                assert exact * (1.0 - 1e-9) <= high
                assert high - low < 2e-3 * exact + 1e-9

    @pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(0.3, 1.0, 0.7), (0.05, 2.0, 0.05), (0.9, 1.5, 1.0)])
    def test_two_subsampled_rounds(self, rate: float, sigma: float, epsilon: float) -> None:
        """Quadrature over the first round in 25 digits."""
        forward, backward = reference.two_subsampled_rounds(rate, sigma, epsilon)
        grid = GridComposition(((2, Subsampled(Gaussian(1.0 / sigma), rate)),))
        for direction, exact in ((grid, float(forward)), (grid.inverse(), float(backward))):
            low, high = (math.exp(direction.log_delta(epsilon, side)) for side in SIDES)
            assert low <= exact * (1.0 + 1e-9)
            assert exact * (1.0 - 1e-9) <= high
            assert high < exact * 1.02 + 1e-9

    def test_gaussians_have_a_closed_form(self) -> None:
        grid = GridComposition(((16, Gaussian(0.25)),))
        for delta in (1e-2, 1e-5, 1e-9):
            low, high = (grid.epsilon(delta, side) for side in SIDES)
            exact = Gaussian(1.0).epsilon(delta)
            assert low <= exact <= high
            assert high - low < 1e-4 * exact

    def test_a_finer_grid_is_a_narrower_bracket(self) -> None:
        curve = Subsampled(Gaussian(1.0), 0.05)
        widths = []
        for size in (1 << 12, 1 << 14, 1 << 16):
            low, high = (GridComposition(((50, curve),), size).epsilon(1e-5, side) for side in SIDES)
            widths.append(high - low)
        assert widths[0] > 4.0 * widths[1] > 16.0 * widths[2]

    def test_inverse_of_the_inverse(self) -> None:
        grid = GridComposition(((4, Subsampled(Gaussian(1.0), 0.3)),))
        for side in SIDES:
            assert grid.inverse().inverse().epsilon(1e-5, side) == grid.epsilon(1e-5, side)

    def test_order_and_counts(self) -> None:
        f, g = Subsampled(Gaussian(1.0), 0.2), gaussian_pair(6, 0.2, 0.9)
        orders = [((3, f), (2, g)), ((2, g), (3, f)), ((1, f), (2, g), (2, f))]
        answers = [[GridComposition(parts).epsilon(1e-5, side) for side in SIDES] for parts in orders]
        for low, high in answers[1:]:
            # each is a bracket of the same number
            assert low <= answers[0][1]
            assert answers[0][0] <= high
        assert answers[0] == pytest.approx(answers[1], rel=1e-9)

    @pytest.mark.parametrize("epsilon", [1.0, 6.7, 9.0, 10.0, 20.0])
    def test_delta_next_to_an_end_of_the_loss(self, epsilon: float) -> None:
        """Reversed, six rounds lose at most -6 log(1-q) = 9.19: delta is nearly 1, then falls off a cliff, then 0."""
        one = Subsampled(Gaussian(1.0 / 0.31), 0.784)
        grid = GridComposition(((6, one.inverse()),))
        low, high = (grid.log_delta(epsilon, side) for side in SIDES)
        assert low <= high <= 1e-9
        if epsilon < 9.0:
            # P[all six records' losses are at their end] alone is this likely
            assert math.exp(high) > 0.5
            assert math.exp(low) > 0.5
        if epsilon > -6.0 * math.log1p(-0.784):
            assert low == -math.inf


@pytest.mark.parametrize("steps", [2, 30])
def test_the_curve_of_a_grid_is_a_narrow_bracket_of_the_truth(steps: int) -> None:
    """Full batches of the noisy sum: G_mu with mu = sqrt(T)/sigma; the bracket is convex, as every trade-off function is."""
    grid = GridComposition(((steps, Gaussian(1.0 / 3.0)),))
    alpha = np.linspace(0.0, 1.0, 101)
    exact = Gaussian(math.sqrt(steps) / 3.0)(alpha)
    below, above = grid.curve(alpha, Side.BELOW), grid.curve(alpha, Side.ABOVE)
    assert np.all(below <= exact + 1e-15)
    assert np.all(exact <= above + 1e-15)
    assert (above - below).max() < 1e-5
    assert np.diff(above, 2).min() > -1e-12
